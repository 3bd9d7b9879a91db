"""The view models of a diff page: rows, marks, gutters, links, waterfalls, the table."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.screens import walked
from tests.factories import SOURCE, make_instructions, make_launch, make_profile, make_timing
from workbench.analysis.story import Step
from workbench.model import Launch, Profile, SourceFile
from workbench.specs import Expectation
from workbench.views.html.code.lines import Span, marked, pieces, words_at
from workbench.views.html.page import Head, View
from workbench.views.html.pages.diff import diff_view, render_diff

PADDED = SOURCE.replace("tile[32][32];", "tile[32][33];")
FAST: dict[str, dict[int, Any]] = {
    "inst_executed": {0: 1024, 1: 1024, 2: 1024, 3: 1024, 4: 1024},
    "memory_l1_wavefronts_shared": {1: 1024, 3: 1024},
    "memory_l1_wavefronts_shared_ideal": {1: 1024, 3: 1024},
    "smsp__pcsamp_sample_count": {0: 100, 1: 100, 2: 100, 3: 60, 4: 20},
    "smsp__pcsamp_warps_issue_stalled_mio_throttle": {1: 50, 3: 30},
    "smsp__pcsamp_warps_issue_stalled_barrier": {2: 100},
    "smsp__pcsamp_warps_issue_stalled_selected": {0: 100, 1: 50, 3: 30, 4: 20},
}


def before() -> Profile:
    return make_profile(version="v2", sources=(SourceFile(path="scale.cu", text=SOURCE),))


def after(launch: Launch | None = None) -> Profile:
    fast = launch or make_launch(instructions=make_instructions(**FAST))
    metrics = dict(fast.metrics)
    duration = metrics["gpu__time_duration.sum"]
    metrics["gpu__time_duration.sum"] = msgspec.structs.replace(duration, value=200e-6)
    wavefronts = metrics["memory_l1_wavefronts_shared"]
    metrics["memory_l1_wavefronts_shared"] = msgspec.structs.replace(wavefronts, value=2048)
    fast = msgspec.structs.replace(fast, metrics=metrics)
    return make_profile(
        version="v3", sources=(SourceFile(path="scale.cu", text=PADDED),), launches=(fast,)
    )


def view(old: Profile | None = None, new: Profile | None = None, **more: Any) -> View:
    step = Step(old or before(), new or after(), ("v2", "v3"), **more)
    return diff_view(step, Head(name="v2 → v3", heading="Padded"))


# --- marks in lines ---


def test_marks_are_put_around_the_coloured_text() -> None:
    (line,) = pieces("float As[T][T + 1];", "x.cu")
    spans = [Span(13, 18, "mark"), *words_at("float As[T][T + 1];", {"As"})]
    html = marked(line, spans)
    assert '<b class="s">As</b>' in html
    assert html.count("<mark>") == 1
    assert html.striptags() == "float As[T][T + 1];"


def characters(html: str) -> list[tuple[str, bool, bool]]:
    """What a browser shows, each character with whether it differs and is a linked symbol."""
    out: list[tuple[str, bool, bool]] = []
    inside: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            allowed = {"mark": [], "b": [("class", "s")]}
            assert tag == "span" or attrs == allowed[tag]
            inside.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert inside.pop() == tag

        def handle_data(self, data: str) -> None:
            out.extend((c, "mark" in inside, "b" in inside) for c in data)

        def handle_comment(self, data: str) -> None:
            raise AssertionError(data)

    parser = Parser(convert_charrefs=True)
    parser.feed(html)
    parser.close()
    assert inside == []
    return out


CODE = st.lists(
    st.sampled_from(["a", "= 1;", "x<y&&z>0", "<b>", "</mark>", "&lt;", '"é"', "//", "<!--", "\0"])
).map(" ".join)


@given(st.one_of(CODE, st.text(max_size=40)).filter(lambda text: not {"\n", "\r"} & set(text)))
def test_marking_neither_loses_nor_interprets_text(text: str) -> None:
    found = pieces(text, "x.cu")
    assert len(found) == (1 if text else 0)
    for line in found:
        shown = characters(marked(line, [Span(1, 5, "mark"), Span(3, 9, "sym")]))
        assert shown == [(c, 1 <= n < 5, 3 <= n < 9) for n, c in enumerate(text)]
        assert characters(marked(line)) == [(c, False, False) for c in text]


def test_a_line_has_one_address_on_the_page() -> None:
    found = view()
    chunks = [c for card in found.hunks.every for c in card.code]
    chunks += [c for file in found.whole for c in file.chunks]
    ids = [side.id for c in chunks for row in c.rows for side in (row.old, row.new) if side.id]
    assert len(ids) == len(set(ids))
    assert {f"L{n}" for n in range(1, 7)} | {f"old-L{n}" for n in range(1, 7)} == set(ids)


def test_a_long_page_says_a_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = view()
    assert not any(file.cut for file in found.whole)
    monkeypatch.setattr("workbench.views.html.code.hunks._MOST", 5)
    (cut,) = view().whole
    (card,) = found.hunks.every
    rows = [row for chunk in cut.chunks for row in chunk.rows]
    assert cut.cut and f'1 line in <a href="#hunk-{card.id}">hunk {card.id}</a>' in {
        row.words for row in rows
    }
    # What no card has is still there, and every line is shown or counted as left out.
    shown = [row.new.number for row in rows if row.new.number]
    left = sum(int(row.words.split()[0]) for row in rows if row.words)
    assert len(shown) + left == len(PADDED.splitlines())
    ids = {row.new.id for chunk in card.code for row in chunk.rows if row.kind != "same"}
    assert ids.isdisjoint(row.new.id for row in rows)


def test_a_change_that_no_card_shows_has_its_first_line_on_a_long_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = f"// as it was\nint unused;\n{SOURCE}"
    sides = [
        msgspec.structs.replace(side, sources=(SourceFile(path="scale.cu", text=said),))
        for side, said in ((before(), text), (after(), text.replace("as it was", "as it is")))
    ]
    monkeypatch.setattr("workbench.views.html.code.hunks._MOST", 5)
    monkeypatch.setattr("workbench.views.html.code.hunks._TOO_MANY", 5)
    found = view(*sides)
    (quiet,) = found.quiet
    chunks = [c for file in found.whole for c in file.chunks]
    assert quiet.href in {f"#{row.new.id}" for c in chunks for row in c.rows if row.new.id}


def test_expectations_are_judged_and_an_unreadable_one_is_said() -> None:
    expected = Expectation(counter="shared_wavefronts", change="-50%", why="padding")
    text = render_diff("a/b.html", view(expected=(expected,))).html
    assert '<span class="chip good">confirmed</span>' in text and ">padding" in text
    broken = Expectation(counter="duration", change="better")
    assert any("could not be read" in notice for notice in view(expected=(broken,)).head.notices)


def test_what_is_not_comparable_is_shown_with_the_reason() -> None:
    other = msgspec.structs.replace(
        after(), device=msgspec.structs.replace(after().device, name="NVIDIA A100")
    )
    shown = view(new=other)
    assert any("different devices" in reason for reason in shown.step.comparison.reasons)
    # Before anything that could be taken for an effect of the code.
    text = render_diff("files/a/index.html", shown).html
    assert text.index("not comparable") < text.index('class="strip"')


@pytest.mark.parametrize("study", ["scale_add", pytest.param("", marks=pytest.mark.slow)])
def test_a_first_screen_does_not_contradict_its_sentence(study: str) -> None:
    found = list(walked(studies=(study,) if study else ()))
    assert [(each.page, each.wrong) for each in found if each.wrong] == []
    named = [each.held for each in found if each.named]
    assert sum(named) >= 0.95 * len(named) > 0
    assert 5 * sum(each.warned for each in found) <= len(found)


def test_measured_times_come_before_the_profilers() -> None:
    times = (make_timing(300e-6, version="v2"), make_timing(200e-6, version="v3"))
    tile = view(times=times).time
    assert tile is not None
    assert (tile.label, tile.value, tile.tone) == ("Time", "1.50× faster", "good")
    assert tile.change == "300 µs → 200 µs (−100 µs)"
    assert "speed-up 1.49 – 1.52" in tile.note
    # A slow-down is said as it is everywhere: how many times as long.
    tile = view(times=times[::-1]).time
    assert tile is not None
    assert tile.value == "1.50× slower" and "slow-down 1.49 – 1.52" in tile.note


def test_without_source_or_samples_the_page_says_so() -> None:
    bare = msgspec.structs.replace(before(), sources=(SourceFile(path="scale.cu"),))
    found = view(old=bare)
    assert any("source unknown" in notice for notice in found.head.notices)
    plain = make_launch(instructions=make_instructions(inst_executed={0: 1}))
    found = view(new=after(plain))
    assert found.waterfall is None
    assert "no warp samples" in found.step.story.time_missing


def test_two_report_files_get_a_page_that_compares_them(report: Any, tmp_path: Path) -> None:
    from workbench.views.html.build import ReportFile, build_report

    path = report("ladder_full")
    files = (ReportFile(path, "sgemm_v2"), ReportFile(path, "sgemm_v3"))
    first = build_report(tmp_path, reports=files)
    assert first.pages.written == 7  # two overviews and launches, comparison, glossary, index
    assert build_report(tmp_path, reports=files).pages.written == 0
    (page,) = tmp_path.glob("files/*..*/index.html")
    html = page.read_text(encoding="utf-8")
    assert "ladder_full::sgemm_v2" in html
    assert "−32.5 M" in html
    assert page.parent.name in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.stat().st_size < 400_000
