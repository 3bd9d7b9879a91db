"""A step's digest: hunks in the order of what they matter, and the lines of one that are shown."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.factories import make_profile, padded
from workbench.analysis.compare import compare
from workbench.analysis.duration import TimePart, TimeSplit
from workbench.analysis.story import choose, explain


@pytest.mark.parametrize(
    ("moved", "why"),
    [
        (-1.4, "the compiler, or noise"),
        (1.4, "the compiler, or noise"),
        (-1.5, "unknown"),
        (1.5, "unknown"),
        (-3.5, "unknown"),
    ],
)
def test_half_of_a_step_that_is_linked_to_nothing_is_no_noise(moved: float, why: str) -> None:
    old, new = make_profile(), padded(make_profile(version="v3"))
    told = explain(old, new, compare(old, new)).attribution
    part = TimePart(
        link="elsewhere", hunks=(), symbols=(), note="",
        delta_s=moved, low_s=moved - 0.1, high_s=moved + 0.1, stalls=(),
    )  # fmt: skip
    time = TimeSplit(
        old_s=10.0, new_s=7.0, delta_s=-3.0, samples_old=99, samples_new=99, parts=(part,)
    )
    (tie,) = choose(replace(told, counters=()), time)[1].ties
    assert tie.title.why == why
