"""What became of a captured program: of its time, of each of its kernels, and of those that matter.

In come two captures; out goes one record whose rows add up to the change of the program's time,
for the kernels behind most of it the step that `analysis.story` tells of a ladder's, and the
gates. Times are sums over all runs in whole nanoseconds; a row's seconds are its sum divided by
the number of runs, so rows add up to the program's mean time exactly. The interval of that mean
is Student's: a run's time is a sum of many launches, and such sums are nearly normal.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from statistics import fmean, stdev
from typing import Literal

from msgspec.structs import replace

from workbench.analysis.compare import Comparison, compare
from workbench.analysis.gates import Gate, Rules, check_step, inconclusive
from workbench.analysis.regression import Status
from workbench.analysis.story import Story, explain
from workbench.capture.records import ProgramCapture, Survey, Work
from workbench.counters import catalog
from workbench.errors import InconclusiveError
from workbench.model import Estimate, Profile, Record
from workbench.units import quantity, relative, signed

# --- Which kernels of two surveys are the same work, and which replaced which --------------------
#
# A kernel that is on both sides under its full name is the same. Of the others the name of the
# function decides next, then the place: what stood between the same two kernels before and now
# stands between them again has taken its place: one for one (renamed), several for one (fused),
# one for several (split). What is left came or went.

Fate = Literal["same", "renamed", "fused", "split", "replaced", "came", "went"]
#: How alike two names must be that may mean one function, where nothing else tells.
_ALIKE = 0.75
#: How far apart the times of what was fused or split may lie, as a factor.
_FAR = 4.0


class Counterparts(Record, frozen=True):
    """Works of both surveys (their places) that do the same job, so far as can be told."""

    fate: Fate
    old: tuple[int, ...]
    new: tuple[int, ...]


class _Sides:
    """Two surveys, and what of each has found no counterpart yet."""

    def __init__(self, old: Survey, new: Survey) -> None:
        self.works = (old.works, new.works)
        self.runs = (len(old.runs), len(new.runs))
        self.left: tuple[dict[int, None], dict[int, None]] = (
            dict.fromkeys(range(len(old.works))),
            dict.fromkeys(range(len(new.works))),
        )
        self.found: list[Counterparts] = []

    def take(self, fate: Fate, old: Iterable[int], new: Iterable[int]) -> None:
        """Make counterparts of works that were left."""
        pair = Counterparts(fate=fate, old=tuple(old), new=tuple(new))
        for side, places in enumerate((pair.old, pair.new)):
            for place in places:
                del self.left[side][place]
        self.found.append(pair)

    def grouped(self, key: Callable[[int, int], Hashable]) -> list[tuple[list[int], list[int]]]:
        """What is left, by a key of (side, place), where both sides have some."""
        groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side in (0, 1):
            for place in self.left[side]:
                groups[key(side, place)][side].append(place)
        return [(a, b) for a, b in groups.values() if a and b]

    def launches(self, side: int, place: int) -> float:
        """Launches of one run."""
        return sum(self.works[side][place].launches) / self.runs[side]

    def name(self, side: int, place: int) -> str:
        """The function's name."""
        return self.works[side][place].name


def pair_works(old: Survey, new: Survey) -> tuple[Counterparts, ...]:
    """Every work of both surveys, each once.

    Returns:
        First what is the same, then what replaced what, then what came and went.
    """
    sides = _Sides(old, new)
    for before, after in sides.grouped(lambda side, place: sides.works[side][place].symbol):
        sides.take("same", before, after)
    for before, after in sides.grouped(lambda side, place: _plain(sides.works[side][place])):
        _by_name(sides, before, after)
    _by_place(sides)
    _by_likeness(sides)
    for place in list(sides.left[0]):
        sides.take("went", [place], [])
    for place in list(sides.left[1]):
        sides.take("came", [], [place])
    return tuple(sides.found)


def _plain(work: Work) -> tuple[str, str]:
    return work.kind, work.name


def _by_name(sides: _Sides, before: list[int], after: list[int]) -> None:
    """Functions of one name: parameters or template arguments changed.

    Where there are several, those of one configuration and as many launches go together; one
    that is left on either side goes with the one on the other.
    """
    for old in list(before):
        for new in after:
            if _configuration(sides, 0, old) == _configuration(sides, 1, new):
                sides.take("same", [old], [new])
                before.remove(old)
                after.remove(new)
                break
    if len(before) == len(after) == 1:
        sides.take("same", before, after)


def _configuration(sides: _Sides, side: int, place: int) -> Hashable:
    shapes = sides.works[side][place].shapes
    return sides.launches(side, place), shapes[0].grid if shapes else None


def _by_place(sides: _Sides) -> None:
    """What stands between the same two kernels on both sides."""
    same: list[dict[int, int]] = [{}, {}]
    for number, pair in enumerate(sides.found):
        for side, places in enumerate((pair.old, pair.new)):
            same[side] |= dict.fromkeys(places, number)

    def between(side: int, place: int) -> Hashable:
        works, known = sides.works[side], same[side]
        return (
            _anchor(works, known, place, lambda work: work.before),
            _anchor(works, known, place, lambda work: work.after),
            works[place].kind,
        )

    for before, after in sides.grouped(between):
        counts = {sides.launches(0, x) for x in before} | {sides.launches(1, x) for x in after}
        # As many launches each: one took the place of the other every time.
        if len(counts) > 1 or not _comparable(sides, before, after):
            continue
        fates: dict[tuple[bool, bool], Fate] = {
            (False, False): "renamed",
            (True, False): "fused",
            (False, True): "split",
            (True, True): "replaced",
        }
        sides.take(fates[len(before) > 1, len(after) > 1], before, after)


def _comparable(sides: _Sides, before: list[int], after: list[int]) -> bool:
    """Whether one may be the work of the other: an optimization seldom does more than `_FAR`."""
    if len(before) == len(after) == 1:
        return True
    old, new = (
        sum(sum(sides.works[side][place].total_ns) for place in places) / sides.runs[side]
        for side, places in enumerate((before, after))
    )
    return max(old, new) <= _FAR * min(old, new)


def _anchor(
    works: Sequence[Work], known: dict[int, int], place: int, step: Callable[[Work], int]
) -> int:
    """The nearest neighbour on one side that has a counterpart, as its number; -1: none."""
    seen = {place}
    at = step(works[place])
    while at >= 0 and at not in known:
        if at in seen:
            return -1
        seen.add(at)
        at = step(works[at])
    return known.get(at, -1)


def _by_likeness(sides: _Sides) -> None:
    """What has nearly the same name, and is launched as often."""
    for old in list(sides.left[0]):
        name = sides.name(0, old)
        scores = {
            new: SequenceMatcher(None, name, sides.name(1, new)).ratio()
            for new in sides.left[1]
            if sides.launches(0, old) == sides.launches(1, new)
            and sides.works[0][old].kind == sides.works[1][new].kind
        }
        best = max(scores, key=lambda new: scores[new], default=None)
        if best is not None and scores[best] >= _ALIKE:
            sides.take("renamed", [old], [best])


# --- The change of the program's time, shared out over its kernels ------------------------------

#: 97.5% quantiles of Student's t with 1, 2, … degrees of freedom; beyond them that of the normal.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
_NORMAL = 1.960


class WorkChange(Record, frozen=True):
    """One row: works of both sides (places in their surveys) that do the same job.

    Nanoseconds and launches are sums over all runs of a side.
    """

    fate: Fate
    old: tuple[int, ...]
    new: tuple[int, ...]
    name: str
    old_ns: int
    new_ns: int
    old_launches: int
    new_launches: int


class ProgramDifference(Record, frozen=True):
    """Two captures, compared. `rows` stand in the order of what they change.

    `change_s` is the change of the mean time, with a 95% interval where both sides have two
    runs or more; where they have not, `moved` asks whether it is more than a duration's usual
    noise.
    """

    old: ProgramCapture
    new: ProgramCapture
    rows: tuple[WorkChange, ...]
    change_s: Estimate
    moved: bool
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def seconds(self, row: WorkChange) -> tuple[float, float]:
        """A row's time in one run, before and after."""
        return (
            1e-9 * row.old_ns / len(self.old.survey.runs),
            1e-9 * row.new_ns / len(self.new.survey.runs),
        )

    def launches(self, row: WorkChange) -> tuple[float, float]:
        """A row's launches in one run, before and after."""
        return (
            row.old_launches / len(self.old.survey.runs),
            row.new_launches / len(self.new.survey.runs),
        )

    @property
    def totals(self) -> tuple[Estimate, Estimate]:
        """The program's time on the GPU, before and after, in seconds."""
        return total(self.old.survey), total(self.new.survey)

    def share(self, seconds: float) -> float | None:
        """Part of the program's change that some seconds are; None where it did not change."""
        return seconds / self.change_s.value if self.moved and self.change_s.value else None

    @property
    def interval_known(self) -> bool:
        """Whether both sides have runs enough for an interval."""
        return min(len(self.old.survey.runs), len(self.new.survey.runs)) > 1


def total(survey: Survey) -> Estimate:
    """Mean seconds on the GPU of one run, with a 95% interval where there were several runs."""
    seconds = [1e-9 * ns for ns in survey.totals_ns]
    mean, margin = fmean(seconds), _margin(seconds)
    return Estimate(value=mean, low=mean - margin, high=mean + margin, n=len(seconds))


def student(freedom: int) -> float:
    """The 97.5% quantile of Student's t."""
    return _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL


def _margin(values: Sequence[float]) -> float:
    n = len(values)
    return student(n - 1) * stdev(values) / math.sqrt(n) if n > 1 else 0.0


def compare_programs(
    old: ProgramCapture, new: ProgramCapture, *, force: bool = False
) -> ProgramDifference:
    """Two captures, kernel by kernel.

    Args:
        old: The one before.
        new: The one after.
        force: Compare what is not comparable; `ProgramDifference.reasons` says why it is not.

    Raises:
        InconclusiveError: other devices or ways of surveying, and `force` is not set.
    """
    reasons = _incomparable(old, new)
    if reasons and not force:
        raise InconclusiveError(
            f"@{old.name} and @{new.name} are not comparable: {'; '.join(reasons)}",
            "Capture both on one machine in one way, or compare all the same with --force.",
        )
    rows = [
        _row(pair.fate, (pair.old, pair.new), (old.survey, new.survey))
        for pair in pair_works(old.survey, new.survey)
    ]
    runs = len(old.survey.runs), len(new.survey.runs)
    rows.sort(key=lambda row: (-abs(row.new_ns / runs[1] - row.old_ns / runs[0]), row.name))
    change = _change(old.survey, new.survey)
    return ProgramDifference(
        old=old,
        new=new,
        rows=tuple(rows),
        change_s=change,
        moved=_moved(change, total(old.survey), total(new.survey)),
        reasons=tuple(reasons),
        warnings=tuple(_warnings(old, new)),
    )


def _incomparable(old: ProgramCapture, new: ProgramCapture) -> list[str]:
    found = []
    names = [side.device.name if side.device else "" for side in (old, new)]
    if all(names) and names[0] != names[1]:
        found.append(f"{names[0]} before, {names[1]} after")
    if old.survey.way != new.survey.way:
        found.append(f"surveyed by {old.survey.way} before, by {new.survey.way} after")
    if old.survey.nvtx != new.survey.nvtx:
        parts = [f"the range {x.survey.nvtx}" if x.survey.nvtx else "all" for x in (old, new)]
        found.append(f"{parts[0]} of the program before, {parts[1]} of it after")
    return found


def _warnings(old: ProgramCapture, new: ProgramCapture) -> list[str]:
    found = [f"@{side.name}: {notice.message}" for side in (old, new) for notice in side.notices]
    if old.command != new.command:
        found.append(f"the commands differ: {' '.join(old.command)}, then {' '.join(new.command)}")
    return found


def _row(
    fate: Fate, places: tuple[tuple[int, ...], ...], surveys: tuple[Survey, ...]
) -> WorkChange:
    before, after = (
        [survey.works[place] for place in own] for own, survey in zip(places, surveys, strict=True)
    )
    return WorkChange(
        fate=fate,
        old=places[0],
        new=places[1],
        name=_called(before, after),
        old_ns=sum(sum(work.total_ns) for work in before),
        new_ns=sum(sum(work.total_ns) for work in after),
        old_launches=sum(sum(work.launches) for work in before),
        new_launches=sum(sum(work.launches) for work in after),
    )


def _called(before: Sequence[Work], after: Sequence[Work]) -> str:
    sides = [" + ".join(dict.fromkeys(work.name for work in side)) for side in (before, after)]
    return " → ".join(dict.fromkeys(filter(None, sides)))


def _change(old: Survey, new: Survey) -> Estimate:
    """The change of the mean, with Welch's standard error and the fewer degrees of freedom."""
    before, after = ([1e-9 * ns for ns in survey.totals_ns] for survey in (old, new))
    change = fmean(after) - fmean(before)
    least = min(len(before), len(after))
    if least < 2:
        return Estimate(value=change, low=change, high=change, n=1)
    error = math.sqrt(stdev(before) ** 2 / len(before) + stdev(after) ** 2 / len(after))
    margin = student(least - 1) * error
    return Estimate(value=change, low=change - margin, high=change + margin, n=least)


def _moved(change: Estimate, old: Estimate, new: Estimate) -> bool:
    if change.n > 1:
        return change.low > 0 or change.high < 0
    return abs(change.value) > catalog()["duration"].noise * max(old.value, new.value)


# --- The kernels behind a program's change, each told as a step of a ladder is ------------------

#: Part (0-1) of the program's time from which a kernel's change is worth its own story.
MATTERS = 0.01
#: Kernels that are told, those that change most.
TOLD = 5


class KernelStep(Record, frozen=True):
    """One kernel on both sides; or why its step cannot be told: `silence`.

    `old`, `new` are the profiles of its launches that were looked at closely.
    """

    row: WorkChange
    old: Profile | None = None
    new: Profile | None = None
    comparison: Comparison | None = None
    story: Story | None = None
    silence: str = ""


def matter(difference: ProgramDifference) -> tuple[WorkChange, ...]:
    """The rows of kernels that changed by `MATTERS` of the program's time or more."""
    rows = [
        row for row in difference.rows if weighs(difference, row) and not row.name.startswith("[")
    ]
    return tuple(rows[:TOLD])


def weighs(difference: ProgramDifference, row: WorkChange) -> bool:
    """Whether a row changed by `MATTERS` of the program's time or more."""
    old, new = difference.totals
    before, after = difference.seconds(row)
    return abs(after - before) >= MATTERS * max(old.value, new.value)


def kernel_steps(
    difference: ProgramDifference, details: tuple[Profile | None, Profile | None], *, force: bool
) -> Iterator[KernelStep]:
    """The steps of the kernels that matter, one after the other: each takes a moment.

    Args:
        difference: Of the two programs.
        details: What was profiled of them.
        force: Compare launches that are not comparable.
    """
    for row in told(difference):
        yield _step(row, difference, details, force)


def told(difference: ProgramDifference) -> tuple[WorkChange, ...]:
    """Of the rows that matter those with a kernel on both sides; the table says the others."""
    return tuple(row for row in matter(difference) if row.fate not in ("came", "went"))


def closer(
    row: WorkChange,
    difference: ProgramDifference,
    details: tuple[Profile | None, Profile | None],
) -> tuple[Profile | None, Profile | None, str]:
    """What was profiled of a row's kernels on both sides, and why that is not all."""
    captures = difference.old, difference.new
    old, new = (
        launches_of(capture, detail, places)
        for capture, detail, places in zip(captures, details, (row.old, row.new), strict=True)
    )
    lacking = [
        f"@{capture.name}"
        for capture, side in zip(captures, (old, new), strict=True)
        if side is None
    ]
    words = f"no launch of it was looked at closely in {' and '.join(lacking)}" if lacking else ""
    return old, new, words


def as_fast(comparison: Comparison) -> bool:
    """Whether a launch takes as long as before: then it is launched more or less often.

    That is no matter of its lines, and none of them is told.
    """
    return comparison.speed is not None and not comparison.speed.moved


def _step(
    row: WorkChange,
    difference: ProgramDifference,
    details: tuple[Profile | None, Profile | None],
    force: bool,
) -> KernelStep:
    old, new, silence = closer(row, difference, details)
    if old is None or new is None:
        return KernelStep(row=row, silence=silence)
    labels = (f"@{difference.old.name}", f"@{difference.new.name}")
    try:
        comparison = compare(old, new, force=force, labels=labels)
    except InconclusiveError as error:
        return KernelStep(row=row, old=old, new=new, silence=error.message)
    story = explain(old, new, comparison)
    return KernelStep(row=row, old=old, new=new, comparison=comparison, story=story)


def launches_of(
    capture: ProgramCapture, detail: Profile | None, places: tuple[int, ...]
) -> Profile | None:
    """The profiled launches of some works of a capture; None where there are none."""
    if detail is None:
        return None
    own = tuple(
        launch
        for launch, place in zip(detail.launches, capture.detail, strict=True)
        if place in places and launch.profiled
    )
    return replace(detail, launches=own) if own else None


# --- Gates of a program: the same rules as for a version, applied to two captures ---------------
#
# The program's time is judged by its interval where both sides have several runs; where they have
# not, a regression must also leave what two durations of one program may differ by. The counters
# and limits of the rules are judged for every kernel whose change matters.


def check_programs(
    difference: ProgramDifference, steps: Iterable[KernelStep], rules: Rules
) -> tuple[Gate, ...]:
    """All gates of the step from one capture to another.

    Args:
        difference: Of the two.
        steps: The kernels that matter; they are told only where the rules ask for counters.
        rules: What is allowed; expectations are of versions, and not asked for here.
    """
    label = f"@{difference.new.name}"
    gates = [
        inconclusive(label, "", f"compared by force: {reason}") for reason in difference.reasons
    ]
    if rules.timed:
        status, message = _time(difference, rules.max_regression)
        gates.append(
            Gate(
                version=label,
                kind="regression",
                name="time on the GPU",
                status=status,
                message=message,
            )
        )
    if rules.counters or rules.limits:
        of_kernels = replace(rules, timed=False, require_expectations=False)
        for step in steps:
            kernel = f"{label}::{step.row.name}"
            if step.comparison is None:
                gates.append(inconclusive(kernel, "", step.silence))
                continue
            gates += check_step(step.comparison, (), of_kernels, version=kernel, file="")
    return tuple(gates)


def _time(difference: ProgramDifference, allowed: float) -> tuple[Status, str]:
    """Whether the program became slower by more than `allowed` percent."""
    old, new = difference.totals
    change = difference.change_s
    text = f"{quantity(old.value, 's')} → {quantity(new.value, 's')}, "
    text += relative(old.value, new.value)
    if difference.interval_known:
        text += f" ({signed(change.low, 's')} to {signed(change.high, 's')})"
        worse = change.low
    else:
        text += " (one run, no interval)"
        worse = change.value - catalog()["duration"].noise * max(old.value, new.value)
    if worse > old.value * allowed / 100:
        slowest = max(
            difference.rows,
            key=lambda row: difference.seconds(row)[1] - difference.seconds(row)[0],
        )
        before, after = difference.seconds(slowest)
        text += f"; most of it {slowest.name}, {signed(after - before, 's')}"
        return "fail", f"slower than allowed ({allowed:g}%): {text}"
    return "pass", text
