"""The headline of two reports: it covers the work, and calls noise what is noise of one launch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.factories import make_launch, make_metrics, make_profile
from workbench.analysis.compare import compare
from workbench.analysis.launches import side_by_side
from workbench.analysis.sameness import doubts, headline
from workbench.analysis.story import Step
from workbench.model import InstructionTable, Metric, Profile
from workbench.views.terminal.console import render
from workbench.views.terminal.diff import diff_view
from workbench.views.text.markdown import step_markdown

ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
#: A kernel, its blocks of 256 threads, and its milliseconds.
Ran = tuple[str, int, float]


def report(*launches: Ran, bytes_moved: float = 1e8, each: float = 2.0) -> Profile:
    half = bytes_moved / len(launches) / 2
    found = []
    for n, (kernel, blocks, ms) in enumerate(launches):
        metrics = {
            "gpu__time_duration.sum": ms * 1e-3,
            "smsp__inst_executed.sum": each * 8 * blocks,
            "launch__grid_size": blocks,
            "dram__bytes_read.sum": half,
            "dram__bytes_write.sum": half,
        }
        one = make_launch(index=n, kernel=kernel, signature="", metrics=make_metrics(**metrics))
        shape: dict[str, Any] = {"grid": (blocks, 1, 1), "block": (256, 1, 1)}
        found.append(replace(one, instructions=InstructionTable(), **shape))
    nothing: dict[str, Any] = dict.fromkeys(("study", "version", "problem"), "")
    return make_profile(**nothing, parameters={}, sources=(), launches=tuple(found))


def told(old: Profile, new: Profile) -> str:
    return Step(old, new, ("before", "after")).story.sentence


def gate(old: Profile, new: Profile) -> str:
    """What `check` says of the time."""
    from workbench.gate.rules import Rules, check_step

    gates = check_step(compare(old, new), (), Rules(), version="after", file="")
    return next(each.status for each in gates if each.name == "duration")


def ran(text: str) -> list[Ran]:
    """``name blocks ms, …``, ``3× name blocks ms``."""
    out: list[Ran] = []
    for each in text.split(", "):
        times, __, rest = each.rpartition("× ")
        kernel, blocks, ms = rest.split()
        out += [(kernel, int(blocks), float(ms))] * int(times or 1)
    return out


@pytest.mark.parametrize(
    ("old", "new", "speed"),
    [  # renamed; with another shape; two grids before and one after; layers of one grid
        (
            "prepare 9 0.1, naive_gemm 4096 1000",
            "prepare 9 0.096, tiled 4096 100",
            1000.1 / 100.096,
        ),
        ("first 9 1, slow 9 80, finish 7 1", "first 9 1, quick 4 8, finish 7 1", 82 / 10),
        ("layer 1000000 20, layer 1440000 80", "layer 2000000 10, layer 2000000 28", 100 / 38),
        ("layer 64 10, 2× layer 64 28", "layer 64 10, 2× layer 64 14", 66 / 38),
        # Often and once; two renamed in order; two fused; one went, or came; another order
        ("2× scan 64 5, copy 8 1", "scan 64 5, copy 8 1", 11 / 6),  # and one called less often
        ("100× often 64 1, once 8 10", "100× often 64 0.5, once 8 10", 110 / 60),
        ("first 9 1, one 9 50, two 9 20", "first 9 1, three 9 5, four 9 20", 71 / 26),
        ("in 7 1, left 9 5, right 9 5, out 7 1", "in 7 1, both 9 4, out 7 1", 12 / 6),
        ("own 9 10, first 9 1", "own 9 5", 11 / 5),
        ("own 9 10", "own 9 5, first 9 1", 10 / 6),
        ("a 9 3, b 8 30", "b 8 15, a 9 3", 33 / 18),
        # Rounds of one job in other numbers and shapes; arguments of which one side has the first
        ("a 64 1, b 999 2, b 500 3, 5× b 90 2.6", "a 64 1, b 800 6, 3× b 60 7", 19 / 28),
        ("read 9 2.25, read 9 2.31, read 9 2.28", "read 9 2.06", 2.25 / 2.06),
        # As many, renamed, in other grids; nothing says that one launch does what another does
        ("6× a 8 1.5, b 8 3", "6× a_quick 16 2.5, b_quick 16 2", 12 / 17),
        ("b 8 0.5, 2× a 8 1", "b_quick 16 0.7, 2× a_quick 16 0.7", 2.5 / 2.1),
        ("4× layer 64 1", "2× layer_quick 128 1.2", 4 / 2.4),
        ("2× a 16 1, b 9 1", "a 8 1.2, b 9 1", 3 / 2.2),
        ("a 64 1, a 8 1", "a 128 1", 2 / 1),
        ("a 9 3, 2× b 9 1", "6× c 9 0.2, 2× d 40 3", 5 / 7.2),
    ],
)
def test_the_headline_is_the_sum_of_all_that_was_launched(old: str, new: str, speed: float) -> None:
    for sides, ratio in (((old, new), speed), ((new, old), 1 / speed)):
        before, after = (report(*ran(side)) for side in sides)
        found = compare(before, after).speed
        assert found is not None and found.moved
        assert found.speedup == pytest.approx(ratio)
        assert gate(before, after) == ("pass" if ratio > 1 else "fail")
        factor = max(ratio, 1 / ratio)
        said = told(before, after)
        assert f"{factor:.{2 if factor < 10 else 1}f}×" in said or f"{1 / ratio:.3f}× the" in said


@pytest.mark.parametrize(
    ("old", "new", "part", "other"),
    [
        ("own 9 5", "own 9 4, ampere_sgemm_128x64_tn 4 6", "40.0%", "6.00"),
        ("own 9 5, k 9 5", "own 9 4", "50.0%", "5.00"),
        ("own 9 1", "own 9 1, 3× check 4 9", "3.57%", "3 × 9.00"),
        ("check 4 99, own 9 1", "own 9 0.9", "1.00%", "99.0"),
        ("own 9 9, cutlass_80_simt_sgemm 4 6", "own 9 8, ampere_sgemm_64 5 7", "60.0%", "7.00"),
    ],
)
def test_where_much_has_no_counterpart_no_factor_is_given(
    old: str, new: str, part: str, other: str
) -> None:
    before, after = report(*ran(old)), report(*ran(new))
    text = told(before, after)
    assert text.startswith(f"Only {part} of the time of ")
    assert f"({other} ms), which is not part of the comparison" in text and "own (" in text
    assert "faster" not in text and "slower" not in text
    assert compare(before, after).speed is None
    assert gate(before, after) == "inconclusive"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("a 9 3, b 8 30", "a 9 3.1, b 8 29.9, c 8 8", "c (8.00 ms) added; all others take 33.0 ms"),
        ("a 9 3, b 8 30", "a 9 3, 2× b 8 30", "b (1× → 2× in all, 30.0 ms → 60.0 ms); all"),
    ],
)
def test_launches_that_came_are_all_that_changed(old: str, new: str, said: str) -> None:
    text = told(report(*ran(old)), report(*ran(new)))
    assert f"Only the set of launches differs: {said}" in text
    assert "× the time of before" in text and "slower" not in text and "rose" not in text


def test_a_kernel_of_a_library_beside_ones_own_is_said() -> None:
    old, new = report(*ran("gemm_v1 9 5")), report(*ran("gemm_v2 9 4, ampere_sgemm_128 4 0.5"))
    assert "differs as well: ampere_sgemm_128 (500 µs) added." in told(old, new)
    assert "as well" not in told(old, report(*ran("gemm_v2 9 4, clear 1 0.1")))


def test_the_cause_is_of_the_kernel_that_changed_most_and_the_limit_of_the_longest() -> None:
    """The longest kernel is full of instructions; another one moved, and fills the memory."""

    def side(ms: float) -> Profile:
        whole = report(("long", 9, 50.0), ("quick", 9, ms), each=2e6)
        own = {"sm__inst_issued": 98.0}, {"gpu__dram_throughput": 99.0}
        launches = [
            replace(
                x, metrics={**x.metrics, **{f"{n}{ELAPSED}": Metric(v) for n, v in one.items()}}
            )
            for x, one in zip(whole.launches, own, strict=True)
        ]
        return replace(whole, launches=tuple(launches))

    text = told(side(9.0), side(3.0))
    assert "The kernel that changed most: quick 9.00 ms → 3.00 ms, 3.00× faster. In it, " in text
    assert text.endswith("is still the issue slots, 98%, in long (94.3% of the time).")
    same = told(side(9.0), side(9.0))
    assert same.endswith("is still the issue slots, 98%, in long (84.7% of the time).")


launched = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([8, 16]), st.floats(0.5, 50)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=30, deadline=None)
@given(launched, st.lists(st.floats(0.3, 3), min_size=8, max_size=8), st.booleans())
def test_as_many_launches_of_each_kernel_are_all_in_the_sum(
    old: list[Ran], factors: list[float], renamed: bool
) -> None:
    new = [
        (f"{kernel}_much_better" if renamed else kernel, 2 * blocks, ms * factor)
        for (kernel, blocks, ms), factor in zip(old, factors, strict=False)
    ]
    both = side_by_side(report(*old), report(*new))
    assert both.alone == () and (renamed or all(pair.matched for pair in both.pairs))
    found = compare(report(*old), report(*new)).speed
    assert found is not None
    assert found.speedup == pytest.approx(sum(x[2] for x in old) / sum(x[2] for x in new))


@settings(max_examples=30, deadline=None)
@given(launched, launched)
def test_no_time_is_lost_however_launches_pair(old: list[Ran], new: list[Ran]) -> None:
    both = side_by_side(report(*old), report(*new))
    counts = [sum(x.samples for x in profile.launches) for profile in both.each]
    for side, launch in both.alone:
        counts[side] += launch.samples
    assert counts == [len(old), len(new)]
    assert (both.covered < 0.8) == bool(both.alone)


INPUTS = (1070.0, 1093.0, 1072.0, 1027.0)


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        (INPUTS, [x / 1.08 for x in INPUTS], True),
        ([x / 1.08 for x in INPUTS], INPUTS, True),
        ([30.0, 25.0, 28.0], [29.0, 24.1, 27.1], True),
        ([10.0, 14.0], [9.5, 13.2], True),
        (INPUTS, [1071.0, 1092.0, 1071.5, 1027.4], False),
        ([10.0, 10.3, 9.8, 10.1], [9.9, 10.2, 10.1, 9.4], False),  # one outlier
        ([10.0, 10.4], [10.4, 10.0], False),
        ([0.0136], [0.0136 - 0.000288], False),
        ([0.0030], [0.0028], False),
        ([13.6], [13.3], True),
    ],
)
def test_noise_is_of_one_launch_and_not_of_different_ones(
    old: list[float], new: list[float], moved: bool
) -> None:
    sides = [report(*(("join", 2048 - n % 2, ms) for n, ms in enumerate(x))) for x in (old, new)]
    found = compare(*sides).speed
    assert found is not None and found.moved == moved
    assert gate(*sides) == ("fail" if moved and sum(new) > sum(old) else "pass")
    assert ("within the noise" in told(*sides)) == (not moved)


@pytest.mark.parametrize("elements", [2, 4, 8, 16])
@pytest.mark.parametrize("more", [1.0, 1.04, 0.9])
def test_more_elements_a_thread_are_the_same_work(elements: int, more: float) -> None:
    old = report(("total", 65536, 0.4), bytes_moved=134e6)
    new = report(("total", 65536 // elements, 0.24), bytes_moved=134e6, each=2 * more)
    for sides in ((old, new), (new, old)):
        assert headline(doubts(*sides)) == ""


def test_half_of_the_instructions_for_the_same_bytes_are_the_same_work() -> None:
    """A loop that was unrolled, and one that a grid strides over."""
    old = report(("total", 4096, 0.4))
    for new in (report(("total", 4096, 0.3), each=1.0), report(("total", 256, 0.3), each=20.0)):
        assert doubts(old, new) == ()


@pytest.mark.parametrize("part", [2, 4, 100])
def test_a_part_of_the_batch_is_another_size(part: int) -> None:
    old = report(("total", 6400, 4.0))
    fewer = report(("total", 6400 // part, 4.0 / part), bytes_moved=1e8 / part)
    shorter = report(("total", 6400, 4.0 / part), bytes_moved=1e8 / part, each=2 / part)
    assert headline(doubts(old, fewer)).startswith("Not the same work: another size")
    assert told(old, shorter).startswith("Different amount of data: 100 MB →") or part == 100


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("softmax 64 1", "relu 640 2", "softmax → relu"),
        ("add2D 64 1", "add1D 640 2", "add2D → add1D"),
        ("beams 84 9, fill_5 9 0.4", "search 99 19", "beams and fill_5 → search"),
    ],
)
def test_kernels_that_have_other_names_are_said(old: str, new: str, said: str) -> None:
    text = told(report(*ran(old)), report(*ran(new)))
    said += "; the report does not say if they do the same work. Under the profiler after is 2"
    assert text.startswith(f"Different kernels: {said}")
    assert "ther" not in told(report(*ran("norm_12 64 1")), report(*ran("norm_7 64 2")))


def test_other_work_has_no_verdict_on_the_screen() -> None:
    old, new = report(*ran("k 64 1, own 9 1")), report(*ran("k 6400 40, own 9 1"), bytes_moved=1e10)
    step = Step(old, new, ("before", "after"))
    screen = render(diff_view(step.comparison, step=step))
    assert "20.5× the time for 100× the data" in screen and "40.0× the time" in screen
    assert "slower" not in screen + step_markdown(old, new, step.comparison, step.story)
