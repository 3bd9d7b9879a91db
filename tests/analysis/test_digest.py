"""A step's digest: hunks in the order of what they matter, and the lines of one that are shown."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.factories import make_profile, padded
from workbench.analysis.attribution import CounterSplit, LineShare, Part
from workbench.analysis.compare import compare
from workbench.analysis.duration import TimePart, TimeSplit
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.story import beyond, choose, explain, leading
from workbench.analysis.wording import Chapter, Fact, LeftOut, Passage, Tie


def hunk(number: int, old: tuple[int, int], new: tuple[int, int]) -> Hunk:
    return Hunk(
        id=number, old_file="k.cu", new_file="k.cu", kind="code", old=old, new=new, symbols=()
    )


def chapter(
    number: int,
    old: tuple[int, int] = (1, 1),
    new: tuple[int, int] = (1, 1),
    weight: float = 0.0,
    lines: tuple[LineShare, ...] = (),
) -> Chapter:
    part = Part(link="hunk", hunks=(number,), symbols=(), note="", delta=-5, lines=lines)
    split = CounterSplit(
        counter="c", id="instructions", unit="inst", old=10, new=5, delta=-5, parts=(part,),
        chip_old=None, chip_new=None,
    )  # fmt: skip
    fact = Fact(split=split, part=part)
    tie = Tie(link="hunk", hunks=(number,), symbols=(), note="", weight=weight, facts=(fact,))
    return Chapter(
        hunk=hunk(number, old, new),
        ties=(tie,) if weight else (),
        left_out=LeftOut(),
        symbols=(),
        lines=frozenset(),
    )


def test_a_hunk_that_the_cause_names_comes_first() -> None:
    old = make_profile()
    text = (old.sources[0].text or "").replace("[32][32];", "[32][33];")
    source = replace(old.sources[0], text=text)
    new = replace(padded(make_profile(version="v3")), sources=(source,))
    story = explain(old, new, compare(old, new))
    named = story.cause.proofs[0].place.hunks
    assert named
    heavy = chapter(99, weight=5.0)
    order = leading(replace(story, chapters=(heavy, *story.chapters)))
    assert [one.hunk.id for one in order][: len(named) + 1] == [*named, 99]


def test_of_what_no_hunk_explains_alone_the_longest_is_shown() -> None:
    old, new = make_profile(), padded(make_profile(version="v3"))
    story = explain(old, new, compare(old, new))

    def tie(link: Any, seconds: float) -> Tie:
        part = TimePart(
            link=link, hunks=(), symbols=(), note="",
            delta_s=seconds, low_s=seconds, high_s=seconds, stalls=(),
        )  # fmt: skip
        return Tie(link=link, hunks=(), symbols=(), note="", weight=1.0, facts=(), time=part)

    ties = tie("launch", 2e-6), tie("symbol", -3e-6), tie("elsewhere", -9e-6)
    bare = replace(story, rest=Passage(ties=ties, left_out=LeftOut()))
    assert [one.link for one in beyond(bare, 1)] == ["elsewhere"]
    assert [one.link for one in beyond(bare, 2)] == ["symbol", "elsewhere"]


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
