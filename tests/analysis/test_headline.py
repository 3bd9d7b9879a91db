"""The headline of two reports: it covers the work, and calls noise what is noise of one launch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.factories import make_launch, make_metrics, make_profile
from workbench.analysis.compare import compare
from workbench.analysis.launches import side_by_side
from workbench.analysis.sameness import doubts, headline
from workbench.analysis.story import Step
from workbench.gate.rules import Rules, check_step
from workbench.model import InstructionTable, Launch, Profile

#: A kernel, its blocks of 256 threads, and its milliseconds.
Ran = tuple[str, int, float]


def report(*launches: Ran, bytes_moved: float = 1e8, each: float = 2.0) -> Profile:
    return make_profile(
        study="",
        version="",
        problem="",
        parameters={},
        sources=(),
        launches=tuple(
            _launch(n, ran, bytes_moved / len(launches), each) for n, ran in enumerate(launches)
        ),
    )


def _launch(index: int, ran: Ran, bytes_moved: float, each: float) -> Launch:
    kernel, blocks, ms = ran
    return make_launch(
        index=index,
        kernel=kernel,
        signature="",
        grid=(blocks, 1, 1),
        block=(256, 1, 1),
        instructions=InstructionTable(),
        metrics=make_metrics(
            **{
                "gpu__time_duration.sum": ms * 1e-3,
                "smsp__inst_executed.sum": each * 8 * blocks,
                "launch__grid_size": blocks,
                "dram__bytes_read.sum": bytes_moved / 2,
                "dram__bytes_write.sum": bytes_moved / 2,
            }
        ),
    )


def told(old: Profile, new: Profile) -> str:
    return Step(old, new, ("before", "after")).story.sentence


def gate(old: Profile, new: Profile) -> str:
    """What `check` says of the time."""
    gates = check_step(compare(old, new), (), Rules(), version="after", file="")
    return next(each.status for each in gates if each.name == "duration")


PREPARE = ("prepare", 100, 1.0)


@pytest.mark.parametrize(
    ("old", "new", "speed"),
    [
        pytest.param(
            [("prepare", 100, 0.1), ("multiply_naive", 4096, 1000.0)],
            [("prepare", 100, 0.096), ("multiply_tiled", 4096, 100.0)],
            1000.1 / 100.096,
            id="the long kernel was renamed",
        ),
        pytest.param(
            [PREPARE, ("slow", 9, 80.0), ("finish", 7, 1.0)],
            [PREPARE, ("quick", 4, 8.0), ("finish", 7, 1.0)],
            82 / 10,
            id="another name and shape between two kernels",
        ),
        pytest.param(
            [("layer", 1000000, 20.0), ("layer", 1440000, 80.0)],
            [("layer", 2000000, 10.0), ("layer", 2000000, 28.0)],
            100 / 38,
            id="two grids before and one after",
        ),
        pytest.param(
            [("layer", 64, 10.0), ("layer", 64, 28.0), ("layer", 64, 28.0)],
            [("layer", 64, 10.0), ("layer", 64, 14.0), ("layer", 64, 14.0)],
            66 / 38,
            id="layers of one grid",
        ),
        pytest.param(
            [*[("often", 64, 1.0)] * 100, ("once", 8, 10.0)],
            [*[("often", 64, 0.5)] * 100, ("once", 8, 10.0)],
            110 / 60,
            id="a kernel that runs a hundred times",
        ),
        pytest.param(
            [PREPARE, ("one", 9, 50.0), ("two", 9, 20.0)],
            [PREPARE, ("three", 9, 5.0), ("four", 9, 20.0)],
            71 / 26,
            id="two renamed in order",
        ),
        pytest.param(
            [PREPARE, ("left", 9, 5.0), ("right", 9, 5.0), ("finish", 7, 1.0)],
            [PREPARE, ("both", 9, 4.0), ("finish", 7, 1.0)],
            12 / 6,
            id="two fused into one",
        ),
        pytest.param([("own", 9, 10.0), PREPARE], [("own", 9, 5.0)], 11 / 5, id="a small one went"),
        pytest.param([("own", 9, 10.0)], [("own", 9, 5.0), PREPARE], 10 / 6, id="a small one came"),
        pytest.param(
            [("a", 9, 3.0), ("b", 8, 30.0)],
            [("b", 8, 15.0), ("a", 9, 3.0)],
            33 / 18,
            id="reordered",
        ),
    ],
)
def test_the_headline_is_the_sum_of_all_that_was_launched(
    old: list[Ran], new: list[Ran], speed: float
) -> None:
    for sides, ratio in (((old, new), speed), ((new, old), 1 / speed)):
        before, after = (report(*side) for side in sides)
        found = compare(before, after).speed
        assert found is not None and found.moved
        assert found.speedup == pytest.approx(ratio)
        assert gate(before, after) == ("pass" if ratio > 1 else "fail")
        factor = max(ratio, 1 / ratio)
        assert f"{factor:.{2 if factor < 10 else 1}f}×" in told(before, after)


@pytest.mark.parametrize(
    ("old", "new", "part", "other"),
    [
        ([("own", 9, 5.0)], [("own", 9, 4.0), ("ampere_sgemm_128x64_tn", 4, 6.0)], "40.0%", "6.00"),
        ([("own", 9, 5.0), ("k", 9, 5.0)], [("own", 9, 4.0)], "50.0%", "5.00"),
        ([("own", 9, 1.0)], [("own", 9, 1.0), *[("check", 4, 9.0)] * 3], "3.57%", "3 × 9.00"),
        ([("check", 4, 99.0), ("own", 9, 1.0)], [("own", 9, 0.9)], "1.00%", "99.0"),
        (
            [("own", 9, 9.0), ("cutlass_80_simt_sgemm", 4, 6.0)],
            [("own", 9, 8.0), ("ampere_sgemm_64x64_nn", 5, 7.0)],
            "60.0%",
            "7.00",
        ),
    ],
)
def test_where_much_has_no_counterpart_no_factor_is_given(
    old: list[Ran], new: list[Ran], part: str, other: str
) -> None:
    before, after = report(*old), report(*new)
    text = told(before, after)
    assert text.startswith(f"Only {part} of the time of ")
    assert f"({other} ms), which is not part of the comparison" in text and "own (" in text
    assert "faster" not in text and "slower" not in text
    assert compare(before, after).speed is None
    assert gate(before, after) == "inconclusive"


launched = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([8, 16]), st.floats(0.5, 50)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=30, deadline=None)
@given(launched, st.lists(st.floats(0.3, 3), min_size=8, max_size=8), st.booleans())
def test_as_many_launches_of_each_kernel_are_all_in_the_sum(
    ran: list[Ran], factors: list[float], renamed: bool
) -> None:
    new = [
        (f"{kernel}_much_better" if renamed else kernel, 2 * blocks, ms * factor)
        for (kernel, blocks, ms), factor in zip(ran, factors, strict=False)
    ]
    both = side_by_side(report(*ran), report(*new))
    assert both.alone == () and (renamed or all(pair.matched for pair in both.pairs))
    found = compare(report(*ran), report(*new)).speed
    assert found is not None
    assert found.speedup == pytest.approx(sum(x[2] for x in ran) / sum(x[2] for x in new))


@settings(max_examples=30, deadline=None)
@given(launched, launched)
def test_no_time_is_lost_however_launches_pair(old: list[Ran], new: list[Ran]) -> None:
    both = side_by_side(report(*old), report(*new))
    counts = [sum(x.samples for x in profile.launches) for profile in both.each]
    for side, launch in both.alone:
        counts[side] += launch.samples
    assert counts == [len(old), len(new)]
    assert (both.covered < 0.8) == bool(both.alone)


# --- noise ---------------------------------------------------------------------------------

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


# --- the same work -------------------------------------------------------------------------


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
    assert told(old, shorter).startswith("Other amount of data: 100 MB →") or part == 100


@pytest.mark.parametrize("wrote", [0.1, 0.5, 2.0, 30.0])
def test_another_kernel_with_other_results_is_said(wrote: float) -> None:
    old, new = report(("softmax", 64, 1.0)), report(("relu", 640, 1.0), bytes_moved=1e8 * wrote)
    assert "another kernel, softmax → relu, with 50.0 MB →" in told(old, new)
    assert "another" not in told(old, report(("relu", 640, 1.0)))
