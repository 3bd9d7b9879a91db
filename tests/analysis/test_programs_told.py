"""What is told of a kernel never goes against the program's own time of it, in any capture kept."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import permutations
from pathlib import Path

import pytest

from benchmarks.truth.programs import load_programs
from workbench.analysis.program import KernelStep, ProgramDifference
from workbench.capture.shelf import Shelf
from workbench.session.reports import ProgramDiff, Recalled, open_capture

DATA = Path(__file__).resolve().parents[1] / "data"
TENTH = math.log1p(0.1)
#: Captures of one program, before and after an edit.
OTHERS = (
    ("strided", "coalesced"),
    ("numba-plain", "numba-padded"),
    ("manual", "fused"),
    ("eager", "eager-fused", "compile", "compile-fused"),
)


def families() -> Iterator[tuple[Shelf, list[str]]]:
    """Names of captures of one program, where there are two or more."""
    shelf = Shelf(DATA / "programs")
    found = defaultdict(list)
    for program in load_programs(DATA / "truth" / "programs.toml"):
        for side in ("before", "after"):
            if (name := f"{program.name}-{side}") in shelf.names():
                # Two edits of one source: `layernorm` of two labels, `heat` and `heat_tidy`.
                found[(program.sources or program.name).partition("_")[0]].append(name)
    yield from ((shelf, names) for names in found.values() if len(names) > 1)
    yield from ((Shelf(DATA / "captures"), list(names)) for names in OTHERS)


PAIRS = [(shelf, *pair) for shelf, names in families() for pair in permutations(names, 2)]


@cache
def compared(shelf: Shelf, old: str, new: str) -> tuple[ProgramDifference, list[KernelStep]]:
    diff = ProgramDiff(open_capture(shelf, f"@{old}"), open_capture(shelf, f"@{new}"))
    return diff.difference, list(diff.steps())


def time_of(step: KernelStep, difference: ProgramDifference) -> float:
    """Before over after, of a launch in the program; of all of a run where works took the place
    of others, for then a launch is not one thing."""
    change = step.near.of or step.row
    old, new = difference.seconds(change)
    if len(step.row.old) == len(step.row.new) == 1:
        launches = difference.launches(change)
        old, new = old / launches[0], new / launches[1]
    return old / new


def told(step: KernelStep) -> float | None:
    """Before over after, as the story has it; None: it says of no direction."""
    assert step.story is not None and step.comparison is not None
    speed = step.comparison.speed
    assert speed is not None
    said = re.search(r"is ([\d.,]+)× (faster|slower) than", step.story.sentence)
    if said is not None:
        factor = float(said[1].replace(",", ""))
        factor = factor if said[2] == "faster" else 1 / factor
        assert factor == pytest.approx(speed.speedup, rel=0.01)
    return speed.speedup if speed.moved else None


@pytest.mark.parametrize(
    ("shelf", "old", "new"), [pytest.param(*pair, id=f"{pair[1]}..{pair[2]}") for pair in PAIRS]
)
def test_no_story_goes_against_the_time_of_the_program(shelf: Shelf, old: str, new: str) -> None:
    difference, steps = compared(shelf, old, new)
    for step in steps:
        if step.story is None:
            assert step.silence
            continue
        own, said = time_of(step, difference), told(step)
        if said is not None:
            assert said == 1 or own == 1 or (said > 1) == (own > 1), (step.row.name, said, own)
            apart = abs(math.log(said / own)) > TENTH
            assert (step.doubt is not None) == apart, (step.row.name, said, own)


def test_there_is_something_to_be_told() -> None:
    """The captures have stories with a direction, and some where the profiler's time is doubted."""
    steps = [step for pair in PAIRS for step in compared(*pair)[1]]
    stories = [step for step in steps if step.story is not None and told(step) is not None]
    assert len(stories) >= 30
    assert len([step for step in stories if step.doubt is not None]) >= 8


@pytest.mark.parametrize("name", ["asian", "fractal", "heat"])
def test_launches_that_went_the_other_way_tell_nothing(name: str) -> None:
    """The profiles are exchanged: what was looked at closely contradicts the program."""
    shelf = Shelf(DATA / "programs")
    old, new = (open_capture(shelf, f"@{name}-{side}") for side in ("before", "after"))
    diff = ProgramDiff(
        Recalled(capture=old.capture, detail=new.detail),
        Recalled(capture=new.capture, detail=old.detail),
    )
    steps = list(diff.steps())
    assert steps
    for step in steps:
        assert step.story is None and step.doubt is not None and step.doubt.against
        assert step.silence == step.doubt.words
