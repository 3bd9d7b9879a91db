"""Times that do not grow with the size: what is called out, and what rightly is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_timing
from workbench.analysis.times.growth import FLOOR_S, TIME, WORK, flat_times, warnings, work_growth
from workbench.model import Notice, Timing

SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)


def image(side: int, seconds: float, stride: int = 1, **more: Any) -> Timing:
    """A 3-channel image with a 3×3 filter, one output channel, as the author had it."""
    out = -(-side // stride)
    fields = {
        "version": "v0",
        "problem": f"s{stride}_{side}",
        "parameters": {"H": side, "W": side, "stride": stride},
        "flops": 2 * 27 * out * out,
        "bytes": 4 * (3 * side * side + out * out),
        **more,
    }
    return make_timing(value=seconds, **fields)


def test_the_first_launch_timed_at_every_size_is_called_out() -> None:
    timings = [
        image(side, 25e-3 * (1 + 1e-4 * i), first_launch=26e-3) for i, side in enumerate(SIZES)
    ]
    (flat,) = flat_times(timings)
    assert flat.problems == tuple(f"s1_{side}" for side in SIZES)
    assert flat.cause == "first-launch" and flat.growth == pytest.approx((4096 / 32) ** 2)
    (text,) = warnings(timings)
    assert text.startswith(
        "the time of v0 does not grow with the size: 25.0 ms from s1_32 to s1_4096 (6 in "
        "between), where the work grows 16,384×. That is what its first launch costs"
    )


def test_honest_times_are_not() -> None:
    # 4 TB/s above 5 µs of latency: flat where the device is not filled, growing beyond.
    timings = [image(side, 5e-6 + 16 * side * side / 4e12) for side in SIZES]
    assert timings[0].time.value < 1.01 * 5e-6 and flat_times(timings) == []


def test_small_problems_may_stay_near_the_cost_of_a_launch() -> None:
    below, above = FLOOR_S * 0.99, FLOOR_S * 1.01
    assert flat_times([image(32, below), image(256, below)]) == []
    assert len(flat_times([image(32, above), image(256, above)])) == 1
    # One of the two below it is enough: a time that falls to the floor is no constant cost.
    assert flat_times([image(32, above), image(256, below)]) == []


@pytest.mark.parametrize(
    ("growth", "time", "found"), [(4.0, 1.09, 1), (3.9, 1.0, 0), (4.0, 1.11, 0), (64.0, 0.5, 1)]
)
def test_the_two_thresholds(growth: float, time: float, found: int) -> None:
    assert (WORK, TIME) == (4.0, 1.10)
    small = make_timing(value=1e-3, problem="a", flops=1000, bytes=1000, parameters={"n": 1})
    large = make_timing(
        value=time * 1e-3,
        problem="b",
        flops=int(1000 * growth),
        bytes=int(1000 * growth),
        parameters={"n": 2},
    )
    assert len(flat_times([large, small])) == found


def test_operations_alone_may_grow_where_memory_sets_the_time() -> None:
    # A 9×9 filter on the same image: 81 times the operations of a 1×1, the same traffic.
    one = image(4096, 1e-3, problem="f1", parameters={"H": 4096, "R": 1}, flops=10**9)
    nine = image(4096, 1e-3, problem="f9", parameters={"H": 4096, "R": 9}, flops=81 * 10**9)
    assert work_growth(one, nine) == 1.0 and flat_times([one, nine]) == []


def test_only_one_family_is_compared() -> None:
    batch = make_timing(value=1e-3, problem="b8", flops=8, bytes=8, parameters={"N": 8, "H": 32})
    wide = make_timing(
        value=1e-3, problem="h256", flops=64, bytes=64, parameters={"N": 1, "H": 256}
    )
    assert flat_times([batch, wide]) == []
    other = make_timing(value=1e-3, problem="x", flops=64, bytes=64, parameters={"M": 64})
    assert flat_times([batch, other]) == []


def test_families_are_named_one_after_the_other_in_one_warning() -> None:
    timings = [image(side, 1e-3 * stride, stride) for stride in (1, 2) for side in (64, 256, 1024)]
    first, second = flat_times(timings)
    assert first.problems == ("s1_64", "s1_256", "s1_1024")
    assert second.problems == ("s2_64", "s2_256", "s2_1024")
    (text,) = warnings(timings)
    assert "1.00 ms from s1_64 to s1_1024 (1 in between)" in text
    assert text.endswith("Likewise from s2_64 to s2_1024.")


def test_versions_are_judged_each_for_itself() -> None:
    good = [image(side, 16 * side * side / 1e10, version="v1") for side in (256, 1024)]
    bad = [image(side, 2e-3, version="v2") for side in (256, 1024)]
    assert [flat.version for flat in flat_times([*good, *bad])] == ["v2"]


def test_a_host_that_sets_the_pace_is_told_from_idle_multiprocessors() -> None:
    slow = Notice(code="launch-overhead", message="…")
    by_host = [image(side, 80e-6, first_launch=9e-3, notices=(slow,)) for side in (64, 256)]
    assert [flat.cause for flat in flat_times(by_host)] == ["host"]
    assert "the host's time" in warnings(by_host)[0]
    idle = [image(side, 80e-6, first_launch=9e-3) for side in (64, 256)]
    assert [flat.cause for flat in flat_times(idle)] == ["fixed"]
    assert "fill the device" in warnings(idle)[0]


def test_every_time_of_a_run_must_be_like_the_first_launch() -> None:
    def cause(*first: float) -> str:
        timings = [image(s, 1e-3, first_launch=f) for s, f in zip((64, 256), first, strict=True)]
        (flat,) = flat_times(timings)
        return flat.cause

    assert cause(1.4e-3, 0.7e-3) == "first-launch"
    for first in (1.6e-3, 0.6e-3, 0.0):  # more than half again, either way; unknown
        assert cause(1e-3, first) == cause(first, 1e-3) == "fixed"


def test_studies_without_counts_say_nothing() -> None:
    assert flat_times([image(side, 1e-3, flops=0, bytes=0) for side in SIZES]) == []
    assert len(flat_times([image(side, 1e-3, flops=0) for side in SIZES])) == 1
    assert flat_times([]) == []


@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=8), st.randoms())
def test_every_run_is_what_it_says(seconds: list[float], random: Any) -> None:
    timings = [image(side, value) for side, value in zip(SIZES, seconds, strict=False)]
    expected = flat_times(timings)
    random.shuffle(timings)
    assert flat_times(timings) == expected
    seen: set[str] = set()
    for flat in expected:
        assert flat.growth >= WORK and min(flat.seconds) >= 0
        assert flat.seconds[-1] < TIME * flat.seconds[0]
        assert not seen.intersection(flat.problems)
        seen.update(flat.problems)
