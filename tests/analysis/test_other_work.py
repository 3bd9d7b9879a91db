"""Work that is not the same, limits that are called what they are, and advice that was followed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.factories import make_launch, make_profile
from workbench.analysis.compare import compare
from workbench.analysis.limits.headroom import Panel, Way, moved, score_ways
from workbench.analysis.limits.limit import Limit, limit_of_launch
from workbench.analysis.sameness import doubts, headline
from workbench.analysis.story import Step
from workbench.model import DEBUG_BUILD, InstructionTable, Launch, Metric, Notice, Profile
from workbench.ncurep.read import read_report

DRAM = "dram__bytes.sum"


def launch(seconds: float, instructions: float, blocks: int = 100, **metrics: float) -> Launch:
    values = {
        "gpu__time_duration.sum": seconds,
        "smsp__inst_executed.sum": instructions,
        "launch__grid_size": blocks,
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 0.0,
        **metrics,
    }
    return make_launch(
        grid=(blocks, 1, 1),
        block=(128, 1, 1),
        metrics={name: Metric(value=value) for name, value in values.items()},
        instructions=InstructionTable(),
    )


def report(one: Launch) -> Profile:
    return make_profile(
        study="", version="", problem="", parameters={}, sources=(), launches=(one,)
    )


def said(old: Launch, new: Launch) -> str:
    return headline(doubts(report(old), report(new), ("a", "b")))


@pytest.mark.parametrize("more", [2, 1000])
def test_more_blocks_that_do_as_much_are_another_size(more: int) -> None:
    once: dict[str, Any] = {DRAM: 1e6}
    times: dict[str, Any] = {DRAM: 1e6 * more}
    words = said(launch(1e-3, 1e6, **once), launch(0.9e-3 * more, 1e6 * more, 100 * more, **times))
    assert words.startswith("Not the same work: another size: 100 blocks of 128 threads")
    assert said(launch(0.9e-3 * more, 1e6 * more, 100 * more, **times), launch(1e-3, 1e6, **once))
    # What moves as much, or may be another number of elements a thread, is proof of nothing.
    less = launch(0.9e-3, 1e6 / more, 100 // min(more, 100), **once)
    assert said(launch(1e-3, 1e6, **once), less) == ""


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_fewer_threads_that_take_over_the_work_are_no_other_size(share: float) -> None:
    """A thread that computes four outputs executes up to four times the instructions."""
    assert said(launch(1e-3, 1e6, 400), launch(0.5e-3, share * 1e6, 100)) == ""


def test_a_recorded_problem_is_the_same_whatever_the_grid() -> None:
    old, new = (
        make_profile(launches=(one,)) for one in (launch(1e-3, 1e6), launch(2e-3, 2e6, 200))
    )
    assert headline(doubts(old, new)) == ""


def test_as_many_threads_that_hardly_run_left_the_work_undone() -> None:
    assert "b executes 0.100% of the other" in said(launch(1e-3, 1e6), launch(1e-6, 1e3))
    assert said(launch(1e-3, 1e6), launch(0.2e-3, 2e5)) == ""
    # A matrix unit does in one instruction what took many.
    tensor = {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 70.0}
    assert said(launch(1e-3, 1e6), launch(1e-5, 1e4, 100, **tensor)) == ""


TEXT = ("LDG.E R4, [R2.64]", "STG.E [R8.64], R5", "EXIT")


def coded(one: Launch, text: tuple[str, ...] = TEXT) -> Launch:
    rows = (0,) * len(text)
    table = InstructionTable(address=tuple(range(len(text))), text=text, file=rows, line=rows)
    return replace(one, instructions=table)


def test_one_code_launched_alike_with_other_instructions_had_another_input() -> None:
    words = said(coded(launch(1e-3, 1e6)), coded(launch(2.7e-3, 5.4e6)))
    assert "another input, 0.500 × the time per instruction" in words and "5.40 ×" in words
    assert "another input" not in said(coded(launch(1e-3, 1e6)), coded(launch(1e-3, 1.01e6)))


def told(old: Launch, new: Launch) -> str:
    return Step(report(coded(old)), report(coded(new)), ("a", "b")).story.sentence


@pytest.mark.parametrize("counter", [DRAM, "lts__t_sectors.sum"])
@pytest.mark.parametrize("factor", [1.25, 8.0])
def test_one_code_launched_alike_that_moved_more_says_what(counter: str, factor: float) -> None:
    """Only an argument, or the data, can have changed."""
    few, many = {counter: 1e7}, {counter: 1e7 * factor}
    text = told(launch(1e-3, 1e6, **few), launch(1e-3 * factor, 1e6, **many))  # type: ignore[arg-type]
    assert text.startswith("Identical machine code: ") and f"b is {factor:.3g}" in text
    assert " rose 10.0 M" in text and "source is unknown" not in text
    assert "rose" not in told(launch(1e-3, 1e6, **few), launch(1e-3, 1e6, **many))  # type: ignore[arg-type]


def test_fewer_threads_that_store_a_word_each_have_fewer_results() -> None:
    sectors, at = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", {300: 4800.0, 200: 3200.0}
    old, new = (launch(1e-3, each, n, **{sectors: at[n]}) for n, each in ((300, 9e6), (200, 3e6)))
    assert said(old, new).endswith("200 blocks of 128 threads, and each stores as much.")
    assert said(old, launch(1e-3, 3e6, 200, **{sectors: 4800.0})) == ""


def test_one_code_in_other_blocks_is_the_launch_s() -> None:
    old, new = launch(1e-3, 1e6), replace(launch(1.8e-3, 1.8e6), block=(32, 4, 1))
    assert "Instructions executed rose 1.00 M → 1.80 M (+80.0%), linked to the launch." in told(
        old, new
    )


def test_blocks_times_a_thousand_of_somebody_else(report: Callable[[str], Path]) -> None:
    old, new = (read_report(report(f"other-work-{side}")) for side in ("before", "after"))
    sentence = Step(old, new, ("before", "after")).story.sentence
    assert sentence.startswith("Not the same work: another size: 7,813 blocks")
    assert "slower" not in sentence


@pytest.mark.parametrize(
    ("threads", "words"),
    [(1, "one thread in all, on one of 132 SMs"), (8, "8 threads in all, on one of 132 SMs")],
)
def test_a_launch_of_a_thread_waits_for_no_branch(threads: int, words: str) -> None:
    one = replace(launch(1e-3, 1e3, 1), block=(threads, 1, 1))
    found = limit_of_launch(one, make_profile().device)
    assert found is not None and (found.id, found.words) == ("grid", words)


def test_many_waves_that_end_at_once_have_no_tail() -> None:
    cycles = {
        "sm__cycles_active.avg": 500.0, "sm__cycles_active.max": 1000.0,
        "sm__cycles_elapsed.max": 1000.0, "launch__waves_per_multiprocessor": 237.0,
    }  # fmt: skip
    empty = launch(1e-3, 4 * 500000 * 8, 500000, **cycles)
    found = limit_of_launch(empty, make_profile().device)
    assert found is not None
    assert found.words == (
        "237 waves of blocks that end almost at once: SMs are active 50% of the time"
    )
    busy = limit_of_launch(launch(1e-3, 4e9, 500000, **cycles), make_profile().device)
    assert busy is not None and "with unequal work" in busy.words
    few = {**cycles, "launch__waves_per_multiprocessor": 1.2}
    tail = limit_of_launch(launch(1e-3, 4e9, 500000, **few), make_profile().device)
    assert tail is not None and tail.words.startswith("an uneven tail")


def test_of_an_unknown_limit_nothing_is_new() -> None:
    assert Limit(id="dram", words="device memory, 90%", share=90.0).when(None) == ""


@pytest.mark.parametrize("both", [True, False])
def test_debug_builds_on_both_sides_are_said(both: bool) -> None:
    notice = Notice(code=DEBUG_BUILD, message="built for debugging")
    debug = make_profile(notices=(notice,))
    words = compare(debug, debug if both else make_profile()).warnings
    assert any("both sides were built for debugging (-G)" in text for text in words) == both


WIDE = Way(
    kind="wide", words="wider", saves=0.2, because="", effort=2, counter="global_load_requests"
)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(4.0, 16.0, "kept"), (4.0, 4.0, "open"), (8.0, 4.0, "open"), (4.0, None, "open")],
)
def test_an_advice_is_kept_where_its_own_quantity_moved(
    before: float, after: float | None, verdict: str
) -> None:
    old, new = (
        Panel(limit=None, hot=None, ways=ways, amounts=loaded(width))
        for ways, width in (((WIDE,), before), ((), after))
    )
    assert [one.verdict for one in score_ways(old, new, 2.0)] == [verdict]
    assert moved(WIDE, old, new) == (verdict == "kept")


def loaded(width: float | None) -> dict[Any, float]:
    return {} if width is None else {("wide", "global_load_requests"): width}
