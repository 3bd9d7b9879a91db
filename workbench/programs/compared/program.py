"""The change of a captured program: the change of its time, and of each of its kernels.

The input is two captures; the output is a record whose rows add up to the program's change of time.
Times are sums over all runs in whole nanoseconds; a row's seconds are its sum divided by the number
of runs, so rows add up to the program's mean time exactly. The interval of that mean is Student's:
a run's time is a sum of many launches, and such sums are nearly normal.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from msgspec.structs import replace

from workbench.analysis.times.noise import mean_change, mean_interval
from workbench.analysis.times.timing import median_interval, minimum_samples
from workbench.counters import catalog
from workbench.errors import InconclusiveError
from workbench.language import _
from workbench.model import Estimate, Record
from workbench.programs.capture.records import Counted, ProgramCapture, Survey, Work, summed
from workbench.programs.compared.counterparts import (
    Fate,
    LaunchClass,
    class_words,
    inside_of,
    pair_classes,
    pair_works,
    repeating,
    tried_words,
)
from workbench.programs.compared.iterations import alike, steadied
from workbench.programs.compared.skew import together_s


class Change(Record, frozen=True):
    """Weights and launches of some work on both sides, summed over all runs of a side.

    A weight is in nanoseconds, or a `Counted.weight` if nothing was timed.
    """

    old_weight: int
    new_weight: int
    old_launches: int
    new_launches: int


class ClassChange(Change, frozen=True):
    """Launches of one configuration on both sides; None on a side without it."""

    old: LaunchClass | None
    new: LaunchClass | None

    @property
    def words(self) -> str:
        """``block 256, grid 512``; with both values if the sides differ."""
        return class_words(self.old, self.new)


class WorkChange(Change, frozen=True):
    """One row: works of both sides (indices in their surveys) that do the same job.

    `classes` are the configurations that it is launched in, the largest change first; empty if it
    has several works, or if neither side has any. `inside` is the NVTX range in which several works
    replaced each other; "" if they have no range of their own.
    """

    fate: Fate
    old: tuple[int, ...]
    new: tuple[int, ...]
    name: str
    classes: tuple[ClassChange, ...] = ()
    inside: str = ""


class KindTime(Record, frozen=True):
    """The time of some works on both sides in seconds, and whether its change exceeds the noise."""

    old: Estimate
    new: Estimate
    change_s: Estimate
    moved: bool


#: Works overlap if anything ran for less than this part of the sum of their times.
_APART = 0.98


class ProgramDifference(Record, frozen=True):
    """Two captures, compared. The `rows` with the largest change come first.

    `change_s` is the change of the mean time, with a 95% interval if both sides have two or more
    runs; if not, `moved` says whether it exceeds a duration's usual noise.

    `steady`: both sides repeat themselves, and `old`, `new` and all numbers describe an iteration;
    `whole` has the whole programs. `tried`: why the sums cannot be compared; nothing `moved`.
    """

    old: ProgramCapture
    new: ProgramCapture
    rows: tuple[WorkChange, ...]
    change_s: Estimate
    moved: bool
    whole: tuple[ProgramCapture, ProgramCapture] | None = None
    tried: str = ""
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def timed(self) -> bool:
        """True if times are known; if not, seconds are weights that only order rows."""
        return self.old.survey.timed

    @property
    def runs(self) -> tuple[int, int]:
        """The number of runs (or iterations) of both sides."""
        return len(self.old.survey.runs), len(self.new.survey.runs)

    def seconds(self, *rows: Change) -> tuple[float, float]:
        """The time of rows in one run, before and after; their weight if nothing was timed."""
        old, new = sum(row.old_weight for row in rows), sum(row.new_weight for row in rows)
        return 1e-9 * old / self.runs[0], 1e-9 * new / self.runs[1]

    def launches(self, *rows: Change) -> tuple[float, float]:
        """The launches of rows in one run, before and after."""
        old, new = sum(row.old_launches for row in rows), sum(row.new_launches for row in rows)
        return old / self.runs[0], new / self.runs[1]

    def counted(self, *rows: ClassChange | WorkChange) -> tuple[Counted, Counted]:
        """The emulator's total counts of some rows, before and after."""
        old, new = Counted(), Counted()
        for row in rows:
            if isinstance(row, ClassChange):
                sides = row.old.counted if row.old else None, row.new.counted if row.new else None
            else:
                sides = self.old.survey.counted(row.old), self.new.survey.counted(row.new)
            old, new = summed((old, sides[0])), summed((new, sides[1]))
        return old, new

    @property
    def steady(self) -> bool:
        """True if all numbers describe one iteration."""
        return self.whole is not None

    @property
    def totals(self) -> tuple[Estimate, Estimate]:
        """The time on the GPU of a run (or an iteration), before and after, in seconds."""
        return total(self.old.survey), total(self.new.survey)

    @property
    def of_kernels(self) -> KindTime:
        """The time of kernels, fills and copies on the GPU."""
        return _part(self.old.survey, self.new.survey, on_gpu=(True,))

    @property
    def of_copies(self) -> KindTime | None:
        """The time of copies to or from the host's memory; None if neither side has any."""
        part = _part(self.old.survey, self.new.survey, on_gpu=(False,))
        return part if part.old.value or part.new.value else None

    def share(self, seconds: float) -> float | None:
        """Some seconds as a part of the program's change; None if it did not change.

        Also None if the leading change is not that of the sum to which rows belong.
        """
        if not self.timed or not self.moved or self.together is not None or self.busy is not None:
            return None
        return seconds / self.change_s.value if self.change_s.value else None

    @property
    def busy(self) -> KindTime | None:
        """The time in which anything ran on a device; None if works do not overlap.

        If works overlap, it is more useful than their sum: copies beside kernels cost no time.
        """
        if self.steady or not self.timed:
            return None
        times = [[1e-9 * run.busy_ns for run in side.survey.runs] for side in (self.old, self.new)]
        sums = [side.value for side in self.totals]
        if not any(fmean(own) < _APART * whole for own, whole in zip(times, sums, strict=True)):
            return None
        return _kind_time(times[0], times[1], alone=min(map(len, times)) < 2)

    @property
    def first(self) -> KindTime:
        """The leading time: of ranks together, else when anything ran, else of kernels."""
        return self.together or self.busy or self.of_kernels

    @property
    def together(self) -> KindTime | None:
        """The time of ranks together; None if a side has none."""
        both = self.whole or (self.old, self.new)
        old, new = (together_s(side.survey, steady=self.steady) for side in both)
        if not old or not new:
            return None
        if not self.steady:
            return _kind_time(old, new, alone=min(len(old), len(new)) < 2)
        return _middle_change(_middle(old), _middle(new))

    @property
    def spans(self) -> tuple[Estimate, Estimate] | None:
        """Seconds from the start of an iteration to that of the next; None if unknown."""
        if self.whole is None:
            return None
        found = [side.survey.steady.spans_ns for side in self.whole if side.survey.steady]
        if not all(found):
            return None
        old, new = (_middle([1e-9 * ns for ns in side]) for side in found)
        return old, new

    @property
    def interval_known(self) -> bool:
        """True if both sides have enough runs for an interval."""
        return min(self.runs) > 1


def total(survey: Survey) -> Estimate:
    """Mean seconds on the GPU of one run, with a 95% interval if there were several runs."""
    return mean_interval([1e-9 * ns for ns in survey.totals])


def compare_programs(
    old: ProgramCapture, new: ProgramCapture, *, force: bool = False
) -> ProgramDifference:
    """Two captures, kernel by kernel.

    `force` compares even incomparable ones; `ProgramDifference.reasons` has the reasons. Raises
    InconclusiveError: different devices or kinds of survey without `force`; or only one of them was
    timed.
    """
    if old.survey.timed != new.survey.timed:
        names = [side.name for side in sorted((old, new), key=lambda x: x.survey.timed)]
        raise InconclusiveError(
            _("@{counted} has the emulator's counts and no times; @{timed} has times").format(
                counted=names[0], timed=names[1]
            ),
            _("Capture both in the same way: `workbench capture --engine emulator` needs no GPU."),
        )
    reasons = _incomparable(old, new)
    if reasons and not force:
        raise InconclusiveError(
            _("@{name} and @{name2} are not comparable: {reasons}").format(
                name=old.name, name2=new.name, reasons=_("; ").join(reasons)
            ),
            _("Capture both on one machine in the same way, or compare anyway with --force."),
        )
    whole, warnings = None, _warnings(old, new)
    if (both := repeating(old.survey, new.survey)) is not None:
        whole, said = alike(replace(old, survey=both[0]), replace(new, survey=both[1]))
        warnings += [said] if said else []
        old, new = map(steadied, whole)
    pairs = pair_works(old.survey, new.survey)
    tried = ""
    if whole is None and old.survey.timed:
        tried = tried_words(old.survey, new.survey, pairs)
    rows = [
        row
        for pair in pairs
        if (row := _row(pair.fate, (pair.old, pair.new), (old.survey, new.survey)))
        and (whole is None or row.old_launches or row.new_launches)
    ]
    runs = len(old.survey.runs), len(new.survey.runs)
    rows.sort(key=lambda row: (-abs(row.new_weight / runs[1] - row.old_weight / runs[0]), row.name))
    all_of_it = _part(old.survey, new.survey, on_gpu=(True, False))
    return ProgramDifference(
        old=old,
        new=new,
        rows=tuple(rows),
        change_s=all_of_it.change_s,
        moved=all_of_it.moved and not tried,
        whole=whole,
        tried=tried,
        reasons=tuple(reasons),
        warnings=tuple(warnings),
    )


def _incomparable(old: ProgramCapture, new: ProgramCapture) -> list[str]:
    found = []
    names = [side.device.name if side.device else "" for side in (old, new)]
    if all(names) and names[0] != names[1]:
        found.append(
            _("{names_0} before, {names_1} after").format(names_0=names[0], names_1=names[1])
        )
    if old.survey.way != new.survey.way:
        found.append(
            _("surveyed by {way} before, by {way2} after").format(
                way=old.survey.way, way2=new.survey.way
            )
        )
    if old.survey.nvtx != new.survey.nvtx:
        parts = [
            _("the range {nvtx}").format(nvtx=x.survey.nvtx) if x.survey.nvtx else "all"
            for x in (old, new)
        ]
        found.append(
            _("{parts_0} of the program before, {parts_1} of it after").format(
                parts_0=parts[0], parts_1=parts[1]
            )
        )
    return found


def _warnings(old: ProgramCapture, new: ProgramCapture) -> list[str]:
    found = [f"@{side.name}: {notice.message}" for side in (old, new) for notice in side.notices]
    # Without times, counts of programs are compared like those of versions.
    first = 0 if old.survey.timed else 1
    if old.command[first:] != new.command[first:]:
        found.append(
            _("the commands differ: {command}, then {command2}").format(
                command=" ".join(old.command), command2=" ".join(new.command)
            )
        )
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
        old_weight=sum(sum(work.weights) for work in before),
        new_weight=sum(sum(work.weights) for work in after),
        old_launches=sum(sum(work.launches) for work in before),
        new_launches=sum(sum(work.launches) for work in after),
        classes=_classes(before, after, (len(surveys[0].runs), len(surveys[1].runs))),
        inside=inside_of(surveys, places),
    )


def _classes(
    before: Sequence[Work], after: Sequence[Work], runs: tuple[int, int]
) -> tuple[ClassChange, ...]:
    if len(before) != 1 or len(after) != 1:
        return ()
    found = [
        ClassChange(
            old=old,
            new=new,
            old_weight=old.weight if old else 0,
            new_weight=new.weight if new else 0,
            old_launches=old.launches if old else 0,
            new_launches=new.launches if new else 0,
        )
        for old, new in pair_classes(before[0].shapes, after[0].shapes, runs)
    ]
    found.sort(key=lambda one: -abs(one.new_weight / runs[1] - one.old_weight / runs[0]))
    return tuple(found)


def _called(before: Sequence[Work], after: Sequence[Work]) -> str:
    kernels_first = (
        sorted(side, key=lambda work: work.kind != "kernel") for side in (before, after)
    )
    sides = [" + ".join(dict.fromkeys(work.name for work in side)) for side in kernels_first]
    return " → ".join(dict.fromkeys(filter(None, sides)))


def _part(old: Survey, new: Survey, on_gpu: tuple[bool, ...]) -> KindTime:
    """The time of works on the GPU alone, or of the others, or of all."""
    before, after = (
        [
            1e-9 * sum(work.weights[run] for work in survey.works if work.on_gpu in on_gpu)
            for run in range(len(survey.runs))
        ]
        for survey in (old, new)
    )
    # Iterations of one run do not show how much another run would differ.
    return _kind_time(before, after, alone=old.steady is not None, exact=not old.timed)


def _middle(samples: Sequence[float]) -> Estimate:
    """The median of iterations, robust against ones that the host delayed, with its interval."""
    if len(samples) >= minimum_samples():
        return median_interval(samples)
    middle = median(samples)
    return Estimate(value=middle, low=middle, high=middle, n=1)


def _middle_change(old: Estimate, new: Estimate) -> KindTime:
    """The change of a median: it moved if the intervals are apart and it exceeds the noise."""
    noise = catalog()["duration"].noise * max(old.value, new.value)
    low, high = new.low - old.high, new.high - old.low
    change = Estimate(value=new.value - old.value, low=low, high=high, n=min(old.n, new.n))
    return KindTime(
        old=old, new=new, change_s=change, moved=abs(change.value) > noise and low * high > 0
    )


def _kind_time(
    before: Sequence[float], after: Sequence[float], *, alone: bool, exact: bool = False
) -> KindTime:
    found, least = mean_change(before, after), min(len(before), len(after))
    sides = mean_interval(before), mean_interval(after)
    alone = alone or least < 2
    noise = 0.0
    if alone and not exact:
        noise = catalog()["duration"].noise * max(side.value for side in sides)
    moved = abs(found.value) > noise and (least < 2 or found.low > 0 or found.high < 0)
    return KindTime(old=sides[0], new=sides[1], change_s=found, moved=moved)
