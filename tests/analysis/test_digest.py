"""A step's digest: hunks in the order of what they matter, and the lines of one that are shown."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.factories import make_profile, padded
from workbench.analysis.attribution import CounterSplit, LineShare, Part
from workbench.analysis.compare import compare
from workbench.analysis.duration import TimePart, TimeSplit
from workbench.analysis.story import choose, explain
from workbench.analysis.wording import Fact, Tie


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


def unknown_source(*numbers: int) -> Tie:
    """What is linked to nothing, on these lines of one file, the heaviest first."""
    lines = tuple(
        LineShare(old=n, new=n, old_file="k.cu", new_file="k.cu", delta=-1, via=()) for n in numbers
    )
    part = Part(link="unknown", hunks=(), symbols=(), note="", delta=-len(lines), lines=lines)
    split = CounterSplit(
        counter="memory_l1_wavefronts_shared",
        id="shared_wavefronts",
        unit="wavefront",
        old=9,
        new=9 - len(lines),
        delta=-len(lines),
        parts=(part,),
        chip_old=None,
        chip_new=None,
    )
    facts = (Fact(split=split, part=part),)
    return Tie(link="unknown", hunks=(), symbols=(), note="", weight=1.0, facts=facts)


def test_of_many_lines_only_the_heaviest_are_named_and_that_is_said() -> None:
    assert unknown_source(7).title.sentence() == "source unknown, line 7 of k.cu"
    few, many = unknown_source(7, 2, 9), unknown_source(7, 2, 9, 4)
    assert few.title.sentence() == "source unknown, lines 7, 2 and 9 of k.cu"
    assert many.title.sentence() == "source unknown, mostly lines 7, 2 and 9 of k.cu"
