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
from workbench.analysis.story import beyond, choose, excerpt, explain, leading, telling
from workbench.analysis.weight import Scale
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


def test_the_edit_of_the_strip_leads_then_the_heaviest_and_silent_ones_are_left_out() -> None:
    old, new = make_profile(), padded(make_profile(version="v3"))
    story = explain(old, new, compare(old, new))
    chapters = chapter(1, weight=0.1), chapter(2, weight=0.9), chapter(3), chapter(4, weight=0.3)
    bare = replace(story, cause=replace(story.cause, proofs=()), chapters=chapters)
    assert [one.hunk.id for one in leading(bare)] == [2, 4, 1]
    silent = replace(bare, chapters=(chapter(3), chapter(5)))
    assert [one.hunk.id for one in leading(silent)] == [3, 5]


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


def test_the_counters_to_read_are_the_strips_and_the_heaviest() -> None:
    old, new = make_profile(), padded(make_profile(version="v3"))
    comparison = compare(old, new)
    story = explain(old, new, comparison)
    shown = [d.id for d in telling(comparison, story, Scale(old, comparison), 1)]
    moved = [delta.id for delta in comparison.counters if delta.moved]
    assert {stop.counter for stop in story.strip} & set(moved) <= set(shown)
    assert "duration" in shown and len(shown) < len(moved)
    assert shown == [name for name in moved if name in shown], "not in the catalog's order"


@pytest.mark.parametrize(
    ("old", "new", "core", "rows", "shown"),
    [
        ((3, 3), (3, 3), 0, 2, ((3, 3), (3, 3))),
        # The line that moved most is in the middle of what is shown of its side.
        ((10, 29), (10, 49), 30, 8, ((10, 13), (28, 31))),
        ((10, 29), (10, 49), 10, 8, ((10, 13), (10, 13))),
        ((10, 29), (10, 49), 49, 8, ((10, 13), (46, 49))),
        # What one side does not need the other takes; a side without lines has no row.
        ((10, 11), (10, 49), 0, 8, ((10, 11), (10, 15))),
        ((10, 9), (10, 49), 0, 8, ((10, 9), (10, 17))),
        ((10, 29), (10, 49), 0, 1, ((10, 10), (10, 10))),
    ],
)
def test_excerpt(
    old: tuple[int, int],
    new: tuple[int, int],
    core: int,
    rows: int,
    shown: tuple[tuple[int, int], tuple[int, int]],
) -> None:
    moved = LineShare(old=None, new=core, old_file="", new_file="k.cu", delta=9, via=())
    found = excerpt(chapter(1, old, new, 1.0, (moved,) if core else ()), rows)
    assert found == shown


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
