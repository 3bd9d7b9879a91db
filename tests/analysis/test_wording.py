"""The words of a step's links: one title and one row for every output."""

from __future__ import annotations

from workbench.analysis.attribution import CounterSplit, LineShare, Part
from workbench.analysis.wording import Fact, Tie


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
