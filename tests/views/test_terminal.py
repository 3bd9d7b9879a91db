"""Terminal views: golden files at 80 and 120 columns, and what must never happen."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement

from tests import goldens
from tests.factories import (
    BASELINE,
    RULE,
    SOURCE,
    STUDY,
    VERSION,
    make_launch,
    make_metrics,
    make_profile,
    make_project,
    make_timing,
    padded,
    with_metrics,
)
from workbench.analysis.compare import compare
from workbench.analysis.story import Step
from workbench.errors import DataError
from workbench.ladder.listing import StudyList, study_list
from workbench.model import Device, Estimate, InstructionTable, Launch, Notice, Profile, SourceFile
from workbench.store import Store
from workbench.study.folder import run_study, source_hash, view_study
from workbench.views.terminal.console import Text, grid, needed, print_view, render, section, tied
from workbench.views.terminal.diff import diff_view
from workbench.views.terminal.list import list_view
from workbench.views.terminal.show import show_view

WIDTHS = (80, 120)
HUNKS = "What changed"


DEVICE = "NVIDIA H200"
RUNGS = (
    ("v0", "Naive", None),
    ("v2", "Through a tile in shared memory, columns first", 310e-6),
    ("v3", "Padded tile", 206e-6),
    ("v4", "Padded tile, and a title that is long enough to wrap", 207e-6),
    ("library", "The library", 100e-6),
)


def listed(root: Path) -> list[StudyList]:
    """A study with five versions of which v3 was edited since, and one with nothing recorded."""
    project = make_project(root, recorded=False)
    shutil.rmtree(project.kernels)
    for name, title, rungs in (("demo", "Scale: out = 2·in", RUNGS), ("other", "Nothing yet", ())):
        folder = project.kernels / name
        folder.mkdir(parents=True)
        (folder / "study.py").write_text(STUDY.replace("Scale: out = 2·in", title))
        parent = ""
        for version, words, _ in rungs or (("v0", "A", None),):
            if version == "library":
                (folder / "library.py").write_text(BASELINE)
                continue
            front = VERSION.format(title=words, more=f'parent = "{parent}"' if parent else "")
            (folder / f"{version}_kernel.cu").write_text(front + SOURCE)
            parent = version
    run_study(project, "other")
    store, study = Store.of(project), run_study(project, "demo")
    for version, _, seconds in RUNGS:
        if seconds is not None:
            digest = source_hash(project, study.version(version))
            store.save_timing(make_timing(seconds, version=version, source_hash=digest))
            captured = "b" * 64 if version == "v3" else digest
            store.save(make_profile(version=version, source_hash=captured))
    broken: list[DataError] = []
    studies = [view_study(project, name) for name in ("demo", "other")]
    lists = [study_list(project, study, None, None, broken) for study in studies]
    assert not broken
    return lists


@pytest.mark.parametrize("width", WIDTHS)
def test_list(width: int, tmp_path: Path) -> None:
    text = goldens.same_view("list", list_view(listed(tmp_path), "demo", width), width)
    assert "stale" in text and DEVICE in text and "2026-11-20" in text
    assert "1.50×" in text and "48.5%" in text  # the step to v3, and its share of the baseline


def test_list_without_studies_says_how_to_start() -> None:
    assert "workbench new" in render(list_view([], "", 80))


def shown(profile: Profile, width: int, **options: object) -> RenderableType:
    return show_view(profile, label="demo/v2", width=width, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", WIDTHS)
def test_show(width: int) -> None:
    view = shown(
        make_profile(notices=(Notice(code="dropped", message="Two metrics came back empty."),)),
        width,
        title="Through a tile",
        timing=make_timing(flops=2 * 1024**3),
        baseline=make_timing(100e-6, version="library"),
        notes=("stale: v2_tile.cu was edited after it was profiled",),
    )
    text = goldens.same_view("show", view, width)
    for fact in ("NVIDIA H200", "2026-11-20 10:00 UTC", "n1024", "stale", "MIO throttle", "12.5%"):
        assert fact in text
    assert "tile[threadIdx.x][threadIdx.y]" in text and "16.5× ideal" not in text
    every = render(shown(make_profile(), width, everything=True), width)
    assert "32.0× ideal" in every  # 32,768 wavefronts where 1,024 would do


@pytest.mark.parametrize("width", WIDTHS)
def test_show_several_launches(width: int) -> None:
    first = make_launch(kernel="im2col", metrics=make_metrics(**{"gpu__time_duration.sum": 50e-6}))
    ghost = make_launch(kernel="ghost", index=2, metrics={}, profiled=False)
    second = make_launch(kernel="gemm", index=1)
    view = shown(make_profile(launches=(first, second, ghost)), width)
    text = goldens.same_view("show_launches", view, width)
    assert "3 launches" in text and "never profiled" in text
    assert text.index("im2col") < text.index("▸")  # gemm is the longest: marked, and detailed


def test_show_says_the_speed_that_was_measured_beside_the_library() -> None:
    """The library was faster in a run of its own; `list` says the ratio of one run as well."""
    base = make_timing(100e-6, version="library")
    ratio = Estimate(value=0.45, low=0.44, high=0.46)
    beside = make_timing(200e-6, version="v2", baseline="library", ratio=ratio)
    for timing, said in ((beside, "45.0%"), (make_timing(200e-6), "50.0%")):
        text = render(shown(make_profile(), 120, timing=timing, baseline=base), 120)
        assert f"{said} of the speed of library" in text


def test_show_all_lists_every_counter_and_every_reason() -> None:
    text = render(shown(make_profile(), 140, everything=True), 140)
    assert "shared_wavefronts_excess" in text and "All counters" in text
    assert "not collected: this profile does not hold" in text


def test_show_of_next_to_nothing() -> None:
    """Only a duration, no lines, no rules, an unknown chip, no date: still a page."""
    bare = make_profile(
        launches=(
            make_launch(
                metrics={"gpu__time_duration.sum": make_metrics()["gpu__time_duration.sum"]},
                instructions=InstructionTable(),
                rules=(),
            ),
        ),
        device=Device(name="", slug="unknown"),
        captured="",
        tools={},
        sources=(),
    )
    text = render(shown(bare, 80))
    assert "an unknown device" in text and "at an unknown time" in text and "312 µs" in text


def test_lines_of_a_report_without_source_or_samples() -> None:
    profile = make_profile(sources=(SourceFile(path="lost.cu"),))
    assert "holds no source" in render(shown(profile, 80))
    launch = make_launch()
    table = launch.instructions
    kept = {k: v for k, v in table.columns.items() if "pcsamp" not in k}
    launch = msgspec.structs.replace(
        launch, instructions=msgspec.structs.replace(table, columns=kept)
    )
    text = render(shown(make_profile(launches=(launch,)), 80))
    assert "by instructions executed" in text


@pytest.mark.parametrize("width", WIDTHS)
def test_diff(width: int) -> None:
    old, new = make_profile(), padded(make_profile(version="v3"))
    comparison = compare(
        old, new, old_time=make_timing(), new_time=make_timing(206e-6, version="v3")
    )
    view = diff_view(
        comparison,
        title="Padded tile",
        change="One float of padding a row.",
        notes=["v3: stale: edited after it was profiled"],
        width=width,
    )
    text = goldens.same_view("diff", view, width)
    for fact in ("1.50× faster", "310 µs → 206 µs", "NVIDIA H200", "2026-11-20", "−93.9%"):
        assert fact in text
    assert "counters did not move" in text and "stale" in text


def test_long_words_of_an_author_and_long_warnings_leave_the_screen_to_the_hunks() -> None:
    step = Step(make_profile(), padded(make_profile(version="v3")), ("v2", "v3"))
    change, notes = "a word of the author " * 20, ["what was found out about this " * 8]

    def lines(**more: Any) -> list[str]:
        view = diff_view(step.comparison, change=change, step=step, **more)
        return [HUNKS if row.startswith(HUNKS) else row for row in render(view).splitlines()]

    text = lines(notes=notes)
    named = [line for line in text if "author" in line]
    assert len(named) == 2 and named[1].endswith(" …")
    assert text.index(HUNKS) < next(n for n, row in enumerate(text) if "found out" in row)
    assert any("1 warning, below the hunks" in row for row in text[: text.index(HUNKS)])
    short = lines(notes=["stale"])
    assert short.index("! stale") < short.index(HUNKS)
    assert sum("author" in row for row in lines(everything=True)) > 3


def test_how_launches_became_one_value_stands_once_above_the_counters() -> None:
    sides = [
        make_profile(
            version=name,
            launches=tuple(
                make_launch(
                    index=n,
                    kernel=f"k{n}",
                    metrics=make_metrics(
                        **{"gpu__time_duration.sum": seconds, "sm__cycles_elapsed.max": seconds}
                    ),
                )
                for n in range(2)
            ),
        )
        for name, seconds in (("v0", 2e-4), ("v1", 1e-4))
    ]
    text = render(diff_view(compare(*sides), width=80))
    assert text.count("sum of 2 launches") == 1
    assert "Of several launches: " in text and "…" not in text


def test_diff_without_times_uses_the_profilers_duration_and_says_so() -> None:
    text = render(diff_view(compare(make_profile(), padded(make_profile(version="v3")))))
    assert "1.50× faster" in text and "no time is recorded" in text
    text = render(diff_view(compare(padded(make_profile()), make_profile(version="v3"))))
    assert "1.50× slower" in text


def test_diff_by_force_says_why_it_was_refused() -> None:
    other = make_profile(device=Device(name="NVIDIA A100", slug="a100"))
    text = render(diff_view(compare(make_profile(), other, force=True)))
    assert "not comparable" in text and "NVIDIA H200, NVIDIA A100" in text


def test_column_heads_tell_long_kernel_names_apart() -> None:
    old, new = make_profile(), padded(make_profile(version="v3"))
    labels = ("x::transposeSmem", "x::transposeSmemPad")
    text = render(diff_view(compare(old, new, labels=labels)))
    assert "…ansposeSmem" in text and "…poseSmemPad" in text
    text = render(diff_view(compare(old, new, labels=("gemm-division", "gemm-multiplication"))))
    assert re.search(" …division +…multiplica…", text)
    text = render(diff_view(compare(old, new, labels=("@a::softmax", "@b::softmax"))))
    assert re.search(" @a::softmax +@b::softmax", text)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160])
def test_numbers_are_the_last_thing_to_be_cut(width: int) -> None:
    """Whatever the width and the labels: a table that is too wide loses words, no digits."""
    sides = [
        make_profile(
            version="",
            study="",
            launches=tuple(
                make_launch(
                    kernel=f"compute_tendencies_of_a_long_name_{n}_gpu",
                    index=n,
                    metrics=make_metrics(
                        **{"gpu__time_duration.sum": (6.194 - part) * 1e-3},
                        launch__registers_per_thread=64 - int(2 * part),
                    ),
                )
                for n in range(3)
            ),
        )
        for part in (0.0, 1.0)
    ]
    labels = ("a-report-with-a-very-long-name-before", "a-report-with-a-very-long-name-after")
    text = render(diff_view(compare(*sides, labels=labels), width=width), width)
    row = next(line for line in text.splitlines() if line.strip()[:3] == "Dur")
    assert "18.6 ms" in row and "15.6 ms" in row and "−16.1%" in row
    kernel = [line for line in text.splitlines() if "6.19 ms" in line]
    assert len(kernel) == 3 and all("5.19 ms" in line for line in kernel)
    assert "registers per thread 64 → 62" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= width


def test_diff_names_added_and_removed_launches() -> None:
    old = make_profile(launches=(make_launch(kernel="im2col"), make_launch(kernel="gemm", index=1)))
    new = make_profile(launches=(make_launch(kernel="direct"),), version="v3")
    text = render(diff_view(compare(old, new), width=120), 120)
    assert "Launched by v2 only: im2col (312 µs) and gemm (312 µs)." in text
    assert "Launched by v3 only: direct (312 µs)." in text
    assert re.search(r"im2col +312 µs +removed", text) and re.search("direct +312 µs +added", text)
    wide = render(diff_view(compare(old, new), width=160), 160)
    assert "sum of 2 launches" in wide
    one = make_profile(launches=(make_launch(kernel="gemm"),))
    text = render(diff_view(compare(old, one), width=120), 120)
    assert "Launched by v2 only: im2col (312 µs)." in text
    assert re.search(r"gemm +312 µs +312 µs +same time", text)


def test_a_small_change_of_an_exact_counter_is_said_in_full() -> None:
    metric = "smsp__inst_executed.sum"

    def made(count: int) -> Launch:
        launch = make_launch(metrics=make_metrics(**{metric: count}))
        return msgspec.structs.replace(launch, instructions=InstructionTable())

    sides = [
        make_profile(version=name, launches=(made(count),))
        for name, count in (("v0", 10_000_000), ("v1", 10_001_000))
    ]
    found = next(
        delta for delta in compare(*sides).counters if delta.ncu == metric or delta.old == 1e7
    )
    text = render(diff_view(compare(*sides)), 80)
    (line,) = (line for line in text.splitlines() if line.strip().startswith(found.title + " "))
    assert found.moved
    assert "+1,000" in line and "±0%" not in line


def test_diff_shows_what_only_one_side_knows() -> None:
    new = with_metrics(make_profile(version="v3"), **{"lts__t_sector_hit_rate.pct": None})
    text = render(diff_view(compare(make_profile(), new)))
    assert "Known on one side only" in text and "L2 hit rate" in text


def test_diff_of_a_profile_with_itself_is_short() -> None:
    text = render(diff_view(compare(make_profile(), make_profile())))
    assert "equally fast" in text and len(text.splitlines()) < 12


def test_columns_counted_without_drawing_are_those_of_what_is_drawn() -> None:
    table = grid("r", "l", "f")
    table.add_row("77.6%", Text("核 kernel"), Group(Text("sum += As[k][ty];"), Text("3.4 M")))
    table.add_row("", ":smile: [red]", Text("a sentence of several words", no_wrap=True))
    views = [Text(), Text("one row"), table, section("Hot lines", table, "file.cu")]
    for view in (*views, Group(*views)):
        console = Console(width=1000, file=io.StringIO(), markup=False, emoji=False)
        assert needed(view) == Measurement.get(console, console.options, view).maximum


def test_names_from_a_report_are_not_markup() -> None:
    """A kernel or a source line must not colour, link or steer the terminal."""
    evil = "[bold red]k[/bold red]\x1b]8;;http://x\x07[link=http://x]"
    launch = make_launch(kernel=evil, rules=(msgspec.structs.replace(RULE, message=evil),))
    source = SourceFile(path=evil, text="\n".join([evil] * 8))
    text = render(shown(make_profile(launches=(launch,), sources=(source,)), 200), 200)
    assert "[bold red]k[/bold red]" in text
    assert "\x1b" not in text and "\x07" not in text


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30)
@given(st.text(), st.integers(40, 200))
def test_no_text_breaks_a_view(text: str, width: int) -> None:
    launch = make_launch(kernel=text, signature=text)
    source = SourceFile(path=text, text="\n".join([text] * 8))
    profile = make_profile(launches=(launch,), sources=(source,))
    for line in render(shown(profile, width), width).splitlines():
        assert cell_len(line) <= width


def test_no_color_is_honoured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    view = shown(make_profile(), 80)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    print_view(view)
    assert "\x1b[32m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    print_view(view)
    plain = capsys.readouterr().out
    assert "\x1b[32m" not in plain and "\x1b[31m" not in plain


def test_a_terminal_that_cannot_show_the_characters_gets_others() -> None:
    code = (
        "from workbench.views.terminal.console import print_view; from rich.text import Text;"
        "print_view(Text('312 µs → 208 µs'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stdout.strip()) == (0, b"312 ?s ? 208 ?s")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m workbench.cli list | head -n 1; exit ${{PIPESTATUS[0]}}"
    make_project(tmp_path)
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0 and done.stdout.startswith("demo") and done.stderr == ""


def captured(path: Path, kernel: str) -> Profile:
    """One kernel of the reference ladder, as if its source lay in a project."""
    from workbench.ncurep.read import read_report, select_kernels

    profile = select_kernels(read_report(path), kernel)
    files = tuple(msgspec.structs.replace(f, path="ladder.cu") for f in profile.sources)
    return msgspec.structs.replace(profile, sources=files)


@pytest.mark.parametrize("width", WIDTHS)
def test_show_of_a_real_capture(report: Callable[[str], Path], width: int) -> None:
    profile = captured(report("ladder_full"), "sgemm_v4")
    text = goldens.same_view("show_real", show_view(profile, label="v4", width=width), width)
    assert "4.46 M in excess (39.5%)" in text and "75.8% of block slots idle" in text


@pytest.mark.parametrize("width", WIDTHS)
def test_diff_of_a_real_capture(report: Callable[[str], Path], width: int) -> None:
    path = report("ladder_full")
    pair = (captured(path, "sgemm_v2"), captured(path, "sgemm_v3"))
    text = goldens.same_view("diff_real", diff_view(compare(*pair), width=width), width)
    assert "1.39× faster" in text and "434 µs → 312 µs" in text


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize(
    "name",
    [
        "ladder_full",
        "rtx4090-ncu2023.1-transpose-source-no-rules",
        "v100-ncu2022.2-source-rules",
        "gtx1660s-ncu2021.1-unprofiled-action",
        "gh200-ncu2025.2-no-instruction-metrics",
        "a10g-ncu2023.1-nan-action",
    ],
)
def test_reports_of_others_can_be_shown(
    report: Callable[[str], Path], name: str, width: int
) -> None:
    from workbench.ncurep.read import read_report

    profile = read_report(report(name))
    text = render(show_view(profile, label=name, width=width), width)
    words = " ".join(text.split())
    assert profile.device.name in words and "under the profiler" in words
    assert all(cell_len(line) <= width for line in text.splitlines())


def test_no_row_ends_between_a_number_and_its_unit() -> None:
    """As at 80 columns ``… 8,192 → 32.8 / k (×4.00)``; a blank within words may end a row."""
    sentence = "rose 8,192 → 32.8 k (×4.00), 12.9 µs less, 4.80 TB/s, 3 more hunks"
    for width in range(12, 60):
        rows = render(tied(Text(sentence)), width).splitlines()
        assert " ".join(" ".join(rows).split()) == sentence
        assert not any(row.endswith(("32.8", "12.9", "4.80")) for row in rows)
    assert any(
        row.endswith("3")
        for w in range(12, 60)
        for row in render(tied(Text(sentence)), w).splitlines()
    )
