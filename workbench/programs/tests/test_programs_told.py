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
from msgspec.structs import replace

from benchmarks.truth.programs import load_programs
from workbench.analysis.story import Step
from workbench.programs.capture.capture_store import Shelf
from workbench.programs.compared.program import ProgramDifference
from workbench.programs.compared.steps import KernelStep
from workbench.programs.recalled import ProgramDiff, Recalled, open_capture

DATA = Path(__file__).resolve().parents[3] / "tests" / "data"
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
    """Before over after, of a launch in the program; of all of a run that were looked at where
    works took the place of others, for then a launch is not one thing."""
    change = step.near.of or step.row
    old, new = difference.seconds(change)
    if step.near.seen is not None:
        return step.near.seen[0] / step.near.seen[1]
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
            doubted = apart or bool(step.near.lacking)
            assert (step.doubt is not None) == doubted, (step.row.name, said, own)


def test_there_is_something_to_be_told() -> None:
    """The captures have stories with a direction, and some where the profiler's time is doubted."""
    steps = [step for pair in PAIRS for step in compared(*pair)[1]]
    stories = [step for step in steps if step.story is not None and told(step) is not None]
    assert len(stories) >= 30
    assert len([step for step in stories if step.doubt is not None]) >= 8


@pytest.mark.parametrize("name", ["asian", "fractal", "heat"])
def test_launches_that_went_the_other_way_tell_nothing(name: str) -> None:
    """The profiles are exchanged: what was looked at closely contradicts the program."""
    old, new = sides(name)
    diff = ProgramDiff(
        Recalled(capture=old.capture, detail=new.detail),
        Recalled(capture=new.capture, detail=old.detail),
    )
    steps = list(diff.steps())
    assert steps
    for step in steps:
        assert step.story is None and step.doubt is not None and step.doubt.against
        assert step.silence == step.doubt.words


def only_step(old: Recalled, new: Recalled) -> KernelStep:
    (step,) = ProgramDiff(old, new).steps()
    return step


def sides(name: str) -> tuple[Recalled, Recalled]:
    shelf = Shelf(DATA / "programs")
    return open_capture(shelf, f"@{name}-before"), open_capture(shelf, f"@{name}-after")


@pytest.mark.parametrize(
    ("name", "factor", "seconds"),
    [("layernorm_split", 5.28, (5.87e-3, 1.11e-3)), ("layernorm_fused", 2.95, (1.11e-3, 377e-6))],
)
def test_launches_count_as_often_as_the_program_has_them(
    name: str, factor: float, seconds: tuple[float, float]
) -> None:
    """Six block sizes of two kernels, and the third kernel with each of them in one size."""
    step = only_step(*sides(name))
    assert step.comparison is not None and step.doubt is None and step.story is not None
    speed = step.comparison.speed
    assert speed is not None and speed.speedup == pytest.approx(factor, abs=0.006)
    assert (speed.old_s, speed.new_s) == pytest.approx(seconds, rel=0.005)
    assert step.near.words == "1/31 of all launches"
    assert step.story.time is not None
    assert step.story.time.delta_s == pytest.approx(seconds[1] - seconds[0], rel=0.01)
    many = step.comparison["instructions"]
    six = {"layernorm_split": many.new, "layernorm_fused": many.old}[name]
    assert six == pytest.approx(496e6, rel=0.005)
    for split in step.story.attribution.counters:
        assert sum(part.delta for part in split.parts) == pytest.approx(split.new - split.old)


def without(side: Recalled, *drop: tuple[str, int]) -> Recalled:
    """A capture that did not look at some kernels' launches in blocks of so many threads."""
    assert side.detail is not None
    kept = [
        (launch, place)
        for launch, place in zip(side.detail.launches, side.capture.detail, strict=True)
        if (launch.kernel, launch.block[0]) not in drop
    ]
    return Recalled(
        capture=replace(side.capture, detail=tuple(place for _, place in kept)),
        detail=replace(side.detail, launches=tuple(launch for launch, _ in kept)),
    )


def test_classes_that_nobody_looked_at_are_said() -> None:
    old, new = sides("layernorm_split")
    step = only_step(old, without(new, ("mean_kernel", 64)))
    assert step.story is not None and step.doubt is not None and not step.doubt.against
    said = "of @layernorm_split-after 12 of 13 configurations were profiled, 96"
    assert said in step.near.lacking and step.near.lacking in step.doubt.words


def test_too_few_classes_tell_nothing() -> None:
    old, new = sides("layernorm_split")
    step = only_step(old, without(new, ("normalize_kernel", 256)))
    assert step.story is None and "12 of 13 configurations" in step.silence


def test_launches_that_nobody_looked_at_are_given_no_reason() -> None:
    old, new = sides("matvec")
    assert new.detail is not None
    wide = replace(
        new.detail,
        launches=tuple(
            replace(launch, grid=(255, 1, 2)) if launch.grid[0] == 256 else launch
            for launch in new.detail.launches
        ),
    )
    step = only_step(old, Recalled(capture=new.capture, detail=wide))
    assert step.story is not None and step.opposed is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "layernorm_split",
            "1 replaced by 3: layernorm_forward1 (5.87 ms in 6 configurations) removed, "
            "mean_kernel (354 µs in 6 configurations), rstd_kernel",
        ),
        ("layernorm_fused", "3 replaced by 1: mean_kernel (356 µs in 6 configurations), rstd_"),
    ],
)
def test_reports_say_how_many_kernels_became_how_many(name: str, said: str) -> None:
    """A kernel is one whatever the configurations that a report has of it."""
    old, new = (side.detail for side in sides(name))
    assert old is not None and new is not None
    sentence = Step(old, new, ("a", "b")).story.sentence
    assert f"The set of kernels changed, {said}" in sentence
