"""One story of a step: terminal, Markdown, HTML and JSON tell the same parts of it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Group

from tests.factories import make_launch, make_metrics, make_profile
from workbench.analysis.compare import compare
from workbench.analysis.story import Step
from workbench.analysis.weight import TELLING
from workbench.counters import catalog
from workbench.model import Column, InstructionTable, Profile, SourceFile
from workbench.units import listed, signed
from workbench.views.html.page import Head
from workbench.views.html.pages.diff import diff_view
from workbench.views.html.render import render as render_page
from workbench.views.terminal.console import cut, render
from workbench.views.terminal.diff import diff_view as terminal_diff
from workbench.views.terminal.diff import hunks_view, words_view
from workbench.views.text.documents import step_of
from workbench.views.text.escaping import inline
from workbench.views.text.markdown import step_markdown

SYMBOLS = 14
HUNKS = 15
#: Line counter -> how often an instruction counts in it, relative to the first one.
COUNTERS = {
    "inst_executed": 1,
    "thread_inst_executed": 32,
    "memory_l1_wavefronts_shared": 3,
    "memory_l1_wavefronts_shared_ideal": 1,
    "memory_l2_theoretical_sectors_global": 4,
    "memory_l1_tag_requests_global": 2,
    "memory_l2_theoretical_sectors_local": 5,
    "smsp__branch_targets_threads_divergent": 7,
    "smsp__pcsamp_warps_issue_stalled_mio_throttle": 1,
    "smsp__pcsamp_warps_issue_stalled_barrier": 2,
}

#: (hunk or None, link, symbol, counter's title or "time") -> what is said of its size.
Told = dict[tuple[int | None, str, str, str], str]


def profile(version: str) -> Profile:
    """A kernel with a hunk of many symbols, and many hunks of one line.

    Weights fall from symbol to symbol and from hunk to hunk to below the threshold; the
    lightest symbols come first by alphabet.
    """
    new = version == "v3"
    names = [chr(ord("a") + SYMBOLS - 1 - i) * 3 for i in range(SYMBOLS)]
    text = ["__global__ void scale(float* out, int n) {"]
    text += [f"  int {name} = n {'*' if new else '+'} {i};" for i, name in enumerate(names)]
    counts: dict[int, int] = {}
    samples: dict[int, int] = {}
    for i, name in enumerate(names):
        text.append(f"  out[{i}] = {name};")
        counts[len(text)] = 1000 + (64 << SYMBOLS >> i) * new
        samples[len(text)] = 5000 + (4000 >> i) * new
    for i in range(HUNKS):
        text += [f"  float kept{i}_{j} = out[{100 + 10 * i + j}];" for j in range(4)]
        text.append(f"  out[{1000 + i}] {'-' if new else '+'}= kept{i}_0;")
        counts[len(text)] = 400_000 >> i >> new
        samples[len(text)] = 5000 - (4000 >> i) * new
    text.append("}")
    counts[len(text)] = 90_000 if new else 1000  # linked to no change
    samples[len(text)] = 5000
    rows = tuple(range(len(counts)))
    table = InstructionTable(
        address=tuple(16 * row for row in rows),
        text=("NOP",) * len(rows),
        file=(0,) * len(rows),
        line=tuple(counts),
        columns={
            name: Column(
                rows=rows,
                values=tuple(
                    times * each for each in (samples if "stalled" in name else counts).values()
                ),
            )
            for name, times in COUNTERS.items()
        },
    )
    ran = make_metrics(**{"smsp__inst_executed.sum": sum(counts.values())})
    launch = make_launch(instructions=table, metrics=ran)
    source = SourceFile(path="scale.cu", text="\n".join(text))
    return make_profile(version=version, launches=(launch,), sources=(source,))


@pytest.fixture(scope="module")
def step() -> Step:
    return Step(profile("v2"), profile("v3"), ("v2", "v3"))


def link_of(part: dict[str, Any]) -> tuple[int | None, str, str]:
    """The hunk, the link, and the name or "several", for what is the same link in every form."""
    if part["link"] == "symbol" and len(part["hunks"]) > 1:
        return None, "symbol", "hunks " + listed([str(hunk) for hunk in part["hunks"]])
    several = "several" if len(part["symbols"]) > 1 else ""
    return part["hunk"], part["link"], several or part["symbol"] or ""


def several(names: str) -> str:
    """A name as it was told, or that there were more."""
    return "several" if re.search(r" and |, ", names) else names


def expected(document: dict[str, Any]) -> Told:
    """What must be told, from the parts alone: all that is large, and nothing else."""
    out: Told = {}
    for split in document["attribution"]:
        counter = split["counter"]
        if counter not in catalog() or split["ncu"].startswith("smsp__pcsamp_"):
            continue
        # The factories' lanes are exactly their warps': they say nothing of their own.
        if counter.endswith(("_ideal", "_excess")) or counter == "thread_instructions":
            continue
        for part in split["parts"]:
            if abs(part["delta"]) >= TELLING * max(abs(split["old"]), abs(split["new"]), 1):
                key = (*link_of(part), catalog()[counter].title)
                out[key] = signed(part["delta"], split["unit"])
    time = document["time_split"]
    for part in time["parts"]:
        large = abs(part["delta_s"]) >= TELLING * max(time["old_s"], time["new_s"])
        if large and not part["low_s"] <= 0 <= part["high_s"]:
            out[*link_of(part), "time"] = signed(part["delta_s"], "s")
    return out


def in_json(rows: dict[str, Any]) -> Told:
    out: Told = {}
    for hunk, passage in [*((h["hunk"], h) for h in rows["hunks"]), (None, rows["rest"])]:
        for tie in passage["links"]:
            key = (hunk, *link_of(tie | {"hunk": hunk})[1:])
            if tie["time_s"] is not None:
                out[*key, "time"] = signed(tie["time_s"], "s")
            for fact in tie["counters"]:
                counter = catalog()[fact["counter"]]
                out[*key, counter.title] = signed(fact["delta"], counter.unit)
    return out


def in_terminal(text: str) -> Told:
    titles = {cut(counter.title, 26): counter.title for counter in catalog()}
    out: Told = {}
    hunk: int | None = None
    link = symbol = ""
    for line in text.splitlines():
        if found := re.match(r"  Hunk (\d+) ", line):
            hunk = int(found[1])
        elif line.startswith("    on its own lines"):
            link, symbol = "hunk", ""
        elif found := re.match(r"    linked by (.+)$", line):
            link, symbol = "symbol", several(found[1])
        elif found := re.match(r"  Shared by (hunks .*?)  ", line):
            hunk, link, symbol = None, "symbol", found[1]
        elif line.startswith("  Unattributed"):
            hunk, link, symbol = None, "elsewhere", ""
        elif (found := re.match(r" {6}(\S.{25}) +([+−]\S+(?: [kMGµmn]s?)?)", line)) and link:
            title = found[1].strip()
            out[hunk, link, symbol, titles.get(title, "time")] = found[2]
    return out


def in_markdown(text: str) -> Told:
    titles = {inline(counter.title): counter.title for counter in catalog()}
    out: Told = {}
    hunk: int | None = None
    for line in text.splitlines():
        if found := re.match(r"\*\*Hunk (\d+)\*\*", line):
            hunk = int(found[1])
        elif line == "Not linked to a single hunk:":
            hunk = None
        elif found := re.match(
            r"- (?:on its own (lines)|linked by (`.*?)|shared by (hunks .*?), linked .*?"
            r"|(unattributed).*?): (.*)",
            line,
        ):
            link = "hunk" if found[1] else "elsewhere" if found[4] else "symbol"
            symbol = found[3] or several((found[2] or "").replace("`", ""))
            for fact in found[5].split("; "):
                if said := re.match(r"(.*?) of time \(estimate\)", fact):
                    out[hunk, link, symbol, "time"] = said[1].partition(" ±")[0]
                else:
                    title = max((t for t in titles if fact.startswith(f"{t} ")), key=len)
                    value = fact.removeprefix(f"{title} ").partition(", ")[0]
                    out[hunk, link, symbol, titles[title]] = value
    return out


def in_html(page: str) -> Told:
    out: Told = {}
    for card in re.split(r'<(?=(?:article|details) class="card hunk)', page)[1:]:
        found = re.match(r'[^>]*id="hunk-(\d+)"', card)
        hunk = int(found[1]) if found else None
        for group in re.findall(r'<section class="lk">.*?</section>', card, re.S):
            head = re.sub(r"<small>.*?</small>", "", re.search(r"<h4>(.*?)</h4>", group, re.S)[1])  # type: ignore[index]
            words = re.sub(r"<.*?>", "", head).strip()
            link = {"On its own lines": "hunk", "Unattributed": "elsewhere"}.get(words, "symbol")
            symbol = several(words.removeprefix("Linked by ")) if link == "symbol" else ""
            if shared := re.match(r"Shared by (hunks .*?) Linked by", words):
                symbol = shared[1]
            for title, value in re.findall(
                r"<li><div><a [^>]*>(.*?)</a>.*?<b class=\"?\w*\"?>(.*?)</b>", group, re.S
            ):
                title = html.unescape(title)
                out[hunk, link, symbol, "time" if title == "Time" else title] = value
    return out


def told_by(step: Step) -> Iterator[tuple[str, Told, str]]:
    story = step.story
    terminal = render(
        Group(*words_view(story), *hunks_view(step.old, step.new, story, width=80)), 80
    )
    yield "terminal", in_terminal(terminal), terminal
    wide = render(Group(*words_view(story), *hunks_view(step.old, step.new, story, width=120)), 120)
    assert {line.strip() for line in terminal.splitlines() if "negligible" in line} == {
        line.strip() for line in wide.splitlines() if "negligible" in line
    }
    comparison = compare(step.old, step.new, old_time=None, new_time=None, labels=("v2", "v3"))
    markdown = step_markdown(step.old, step.new, comparison, story)
    yield "markdown", in_markdown(markdown), markdown
    page = render_page(
        "diff.html", "demo/v3/diff.html", view=diff_view(step, Head(name="v2", heading=""))
    )
    yield "html", in_html(page), html.unescape(page)
    told = step_of(comparison, story).plain()["story"]
    yield "json", in_json(told), json.dumps(told)


def test_all_four_tell_the_same_parts_with_the_same_numbers(step: Step) -> None:
    story = step.story
    assert len(story.chapters) > 12
    assert len([tie for tie in story.chapters[0].ties if tie.symbol]) > 6
    whole = expected(step_of(step.comparison, story).plain())
    assert len({title for *_, title in whole}) >= 7
    assert {hunk for hunk, *_ in whole} >= {None, 1, 2, 3}
    for form, told, text in told_by(step):
        assert told == whole, form
        assert list(dict.fromkeys(key[2] for key in told if key[0] == 1)) == [
            tie.symbol or "" for tie in story.chapters[0].ties
        ], f"{form}: in another order"
        for chapter in story.chapters:
            left = chapter.left_out
            said = json.dumps(left.share) if form == "json" else left.words
            if form == "terminal" and chapter.hunk.id > 12 and not chapter.ties:
                said = "4 more hunks: no counter moved by 0.2% on their lines"
            assert said in text, form


def test_what_is_left_out_is_counted_with_its_share(step: Step) -> None:
    chapter = step.story.chapters[0]
    told = {tie.symbol for tie in chapter.ties}
    split = step.story.attribution["instructions"]
    small = [p for p in split.parts if p.hunk == 1 and p.symbol not in told]
    assert chapter.left_out.symbols == len(small) > 1
    share = sum(abs(part.delta) for part in small) / max(split.old, split.new)
    assert TELLING < share <= chapter.left_out.share < len(small) * TELLING
    weights = [tie.weight for tie in chapter.ties]
    assert weights == sorted(weights, reverse=True) and weights[-1] >= TELLING


def test_a_comment_that_is_too_long_gives_up_code_before_numbers(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = compare(step.old, step.new, old_time=None, new_time=None, labels=("v2", "v3"))
    whole = step_markdown(step.old, step.new, comparison, step.story)
    limit = len(whole) - 1500
    monkeypatch.setattr("workbench.views.text.markdown.LIMIT", limit)
    text = step_markdown(step.old, step.new, comparison, step.story)
    assert len(text) <= limit and text.count("```diff") < whole.count("```diff")
    assert in_markdown(text) == in_markdown(whole)


def test_every_output_says_how_launches_were_compared() -> None:
    def report(*launches: tuple[str, float]) -> Profile:
        found = tuple(
            make_launch(
                kernel=kernel, index=n, metrics=make_metrics(**{"gpu__time_duration.sum": seconds})
            )
            for n, (kernel, seconds) in enumerate(launches)
        )
        return make_profile(study="", version="", problem="", launches=found)

    old = report(("norm", 5e-4), ("norm", 5e-4), ("norm", 5e-4))
    new = report(("norm", 4e-4), ("norm", 4e-4), ("fill", 1e-6))
    step = Step(old, new, ("before", "after"))
    page = render_page(
        "diff.html", "demo/v3/diff.html", view=diff_view(step, Head(name="v2", heading=""))
    )
    document = step_of(step.comparison, step.story).plain()
    said = step.comparison.launch_words
    assert len(said) == 2
    texts = {
        "terminal": render(terminal_diff(step.comparison, width=200), 200),
        "markdown": step_markdown(old, new, step.comparison, step.story).replace("\\", ""),
        "page": html.unescape(page),
        "json": " ".join(document["launch_words"]),
    }
    for medium, text in texts.items():
        for words in said:
            assert words in text, medium
        if medium != "json":
            assert "1.25×" in text and "removed" not in text and "added" in text, medium
    assert [kernel["compared"] for kernel in document["kernels"]] == [True, True]
