"""The hunks of ``diff`` in the terminal: golden files, narrow and wide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Group, RenderableType

from tests import goldens
from tests.factories import make_instructions, make_launch, make_metrics, make_profile
from workbench.analysis.compare import compare
from workbench.analysis.story import explain
from workbench.model import Profile, SourceFile
from workbench.ncurep.read import read_report, select_kernels
from workbench.specs import Expectation
from workbench.views.terminal.console import render
from workbench.views.terminal.diff import hunks_view, verdicts_view, words_view


def view(
    old: Profile, new: Profile, width: int, *expectations: Expectation, label: str = "v3"
) -> RenderableType:
    comparison = compare(old, new, old_time=None, new_time=None, labels=("v2", label))
    story = explain(old, new, comparison, expectations)
    every = hunks_view(old, new, story, width=width)
    return Group(*words_view(story), *every, *verdicts_view(story))


def padded_step() -> tuple[Profile, Profile]:
    old = make_profile()
    launch = make_launch(
        block=(32, 16, 1),
        metrics=make_metrics(
            memory_l1_wavefronts_shared=2048,
            **{"gpu__time_duration.sum": 208e-6, "launch__registers_per_thread": 30},
        ),
        instructions=make_instructions(
            memory_l1_wavefronts_shared={1: 1024, 3: 1024},
            inst_executed={0: 1024, 1: 1024, 2: 2048, 3: 1024, 4: 1024},
            smsp__pcsamp_warps_issue_stalled_mio_throttle={1: 100, 3: 30},
            smsp__pcsamp_warps_issue_stalled_selected={0: 80, 2: 10, 3: 30, 4: 20},
        ),
    )
    text = (old.sources[0].text or "").replace("[32][32];", "[32][33];  // [b]x[/b]\x1b[31m")
    new = make_profile(
        version="v3", launches=(launch,), sources=(SourceFile(path=old.sources[0].path, text=text),)
    )
    return old, new


@pytest.mark.parametrize("width", [80, 120])
def test_hunks(width: int) -> None:
    expected = (
        Expectation(counter="shared_wavefronts", change="-90%"),
        Expectation(counter="mio_throttle", change="to 0"),
    )
    text = goldens.same_view("hunks", view(*padded_step(), width, *expected), width)
    assert "linked by tile" in text and "confirmed" in text
    assert "\x1b" not in text and "[b]x[/b]" in text


@pytest.mark.parametrize("width", [80, 120])
def test_hunks_of_a_rewrite(width: int, report: Callable[[str], Path]) -> None:
    ladder = read_report(report("ladder_full"))
    sides = [select_kernels(ladder, f"sgemm_{v}") for v in ("v3", "v4")]
    text = goldens.same_view("hunks_real", view(sides[0], sides[1], width, label="v4"), width)
    assert "more lines" in text and "Theoretical occupancy" in text


def test_no_change_shows_no_hunk() -> None:
    text = render(view(make_profile(), make_profile(), 80))
    assert "Hunk" not in text and "Identical machine code" in text


def test_no_source_is_said() -> None:
    bare = make_profile(sources=())
    text = render(view(bare, bare, 80))
    assert "source unknown: neither side holds any source text" in text
    assert "Unattributed" not in text


def test_the_lines_of_an_unknown_source_are_named_by_number() -> None:
    bare = (SourceFile(path="D:\\x\\scale.cu"),)
    counts = {0: 1000, 3: 1000}, {0: 2000, 3: 1500}
    sides = [
        make_profile(
            launches=(make_launch(instructions=make_instructions(inst_executed=rows)),),
            sources=bare,
        )
        for rows in counts
    ]
    assert "Source unknown  lines 3 and 5 of scale.cu" in render(view(sides[0], sides[1], 80))


def test_the_same_sources_are_said_to_be_the_same() -> None:
    assert "the sources are the same" in render(view(make_profile(), make_profile(), 80))


def test_without_line_counters_nothing_is_said_of_lines() -> None:
    text = "__global__ void k() {{ x({}); }}"
    sides = [
        make_profile(
            launches=(make_launch(instructions=replace(make_instructions(), columns={})),),
            sources=(SourceFile(path="k.cu", text=text.format(n)),),
        )
        for n in (1, 2)
    ]
    shown = render(view(sides[0], sides[1], 80))
    assert "no counter is known per line" in shown
    assert "on its lines" not in shown


def test_hunks_that_are_no_code_are_counted(report: Callable[[str], Path]) -> None:
    ladder = read_report(report("ladder_full"))
    sides = [select_kernels(ladder, f"sgemm_{v}") for v in ("v2", "v3")]
    text = render(view(sides[0], sides[1], 80))
    assert "No code change: 1 comment hunk." in text
    assert "Unattributed" in text and "all of it" in text
