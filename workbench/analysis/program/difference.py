"""The change of a program's time on the GPU, shared out over its kernels so that it adds up.

Times are sums over all runs in whole nanoseconds; a row's seconds are its sum divided by the
number of runs, so rows add up to the program's mean time exactly. The interval of that mean is
Student's: a run's time is a sum of many launches, and such sums are nearly normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from workbench.analysis.program.pairing import Fate, pair_works
from workbench.capture.records import ProgramCapture, Survey, Work
from workbench.counters import catalog
from workbench.errors import InconclusiveError
from workbench.model import Estimate, Record

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
