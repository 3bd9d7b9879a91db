"""What became of a captured program: of its time, of each of its kernels, and of those that matter.

In come two captures; out goes one record whose rows add up to the change of the program's time,
and for the kernels behind most of it the step that `analysis.story` tells of a ladder's. Times are
sums over all runs in whole nanoseconds; a row's seconds are its sum divided by the number of runs,
so rows add up to the program's mean time exactly. The interval of that mean is Student's: a run's
time is a sum of many launches, and such sums are nearly normal. It is one module because a row, its
launches and its step share their runs' sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median

from msgspec.structs import replace

from workbench.analysis.compare import Comparison
from workbench.analysis.launches import merged_by_work
from workbench.analysis.story import Step, Story
from workbench.analysis.times.noise import mean_change, mean_interval
from workbench.analysis.times.timing import median_interval, minimum_samples
from workbench.counters import catalog
from workbench.errors import InconclusiveError
from workbench.language import _
from workbench.model import Estimate, Profile, Record
from workbench.programs.capture.records import Counted, ProgramCapture, Survey, Work, summed
from workbench.programs.compared.counterparts import (
    Fate,
    LaunchClass,
    class_words,
    inside_of,
    launches_of,
    pair_classes,
    pair_works,
    repeating,
    seen_of,
    tried_words,
    weigh_alike,
)
from workbench.programs.compared.iterations import alike, steadied
from workbench.programs.compared.skew import together_s
from workbench.units import faster, quantity

# --- The change of the program's time, shared out over its kernels ------------------------------


class Change(Record, frozen=True):
    """Weights and launches of some work on both sides, summed over all runs of a side.

    A weight are nanoseconds, or `Counted.weight` where nothing was timed.
    """

    old_weight: int
    new_weight: int
    old_launches: int
    new_launches: int


class ClassChange(Change, frozen=True):
    """Launches of one configuration on both sides; None: that side has none of it."""

    old: LaunchClass | None
    new: LaunchClass | None

    @property
    def words(self) -> str:
        """``block 256, grid 512``; with both values where the sides differ."""
        return class_words(self.old, self.new)


class WorkChange(Change, frozen=True):
    """One row: works of both sides (places in their surveys) that do the same job.

    `classes` are the configurations that it is launched in, in the order of what they change;
    empty where it takes several works, or where neither side has any. `inside` is the NVTX range
    in which several works took each other's place; "" where they are in none of their own.
    """

    fate: Fate
    old: tuple[int, ...]
    new: tuple[int, ...]
    name: str
    classes: tuple[ClassChange, ...] = ()
    inside: str = ""


class KindTime(Record, frozen=True):
    """Some of the works of both sides: seconds, and whether their change is more than noise."""

    old: Estimate
    new: Estimate
    change_s: Estimate
    moved: bool


#: Works overlap where something ran for less than this part of the sum of their times.
_APART = 0.98


class ProgramDifference(Record, frozen=True):
    """Two captures, compared. `rows` stand in the order of what they change.

    `change_s` is the change of the mean time, with a 95% interval where both sides have two
    runs or more; where they have not, `moved` asks whether it is more than a duration's usual
    noise.

    `steady`: both sides repeat themselves, and `old`, `new` and all numbers are of an iteration;
    `whole` has the whole programs. `tried`: why sums are of unlike launches: nothing `moved`.
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
        """Whether times are known; without, seconds are weights that only order rows."""
        return self.old.survey.timed

    @property
    def runs(self) -> tuple[int, int]:
        """Runs (or iterations) of both sides."""
        return len(self.old.survey.runs), len(self.new.survey.runs)

    def seconds(self, *rows: Change) -> tuple[float, float]:
        """The time of rows in one run, before and after; their weight where nothing was timed."""
        old, new = sum(row.old_weight for row in rows), sum(row.new_weight for row in rows)
        return 1e-9 * old / self.runs[0], 1e-9 * new / self.runs[1]

    def launches(self, *rows: Change) -> tuple[float, float]:
        """The launches of rows in one run, before and after."""
        old, new = sum(row.old_launches for row in rows), sum(row.new_launches for row in rows)
        return old / self.runs[0], new / self.runs[1]

    def counted(self, *rows: ClassChange | WorkChange) -> tuple[Counted, Counted]:
        """What the emulator counted of some rows in all, before and after."""
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
        """Whether all numbers are of one iteration."""
        return self.whole is not None

    @property
    def totals(self) -> tuple[Estimate, Estimate]:
        """The time on the GPU of a run (or an iteration), before and after, in seconds."""
        return total(self.old.survey), total(self.new.survey)

    @property
    def of_kernels(self) -> KindTime:
        """What kernels, fills and copies on the GPU take of it."""
        return _part(self.old.survey, self.new.survey, on_gpu=(True,))

    @property
    def of_copies(self) -> KindTime | None:
        """What copies of the host's memory take of it; None where neither side has any."""
        part = _part(self.old.survey, self.new.survey, on_gpu=(False,))
        return part if part.old.value or part.new.value else None

    def share(self, seconds: float) -> float | None:
        """Part of the program's change that some seconds are; None where it did not change.

        Nor where another change is said first than that of a sum, which rows are part of.
        """
        if not self.timed or not self.moved or self.together is not None or self.busy is not None:
            return None
        return seconds / self.change_s.value if self.change_s.value else None

    @property
    def busy(self) -> KindTime | None:
        """How long anything ran on a device at all; None where works do not overlap.

        Then it says more than their sum: copies that run beside kernels cost no time.
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
        """What is said first: the time of ranks together, or that anything ran; else of kernels."""
        return self.together or self.busy or self.of_kernels

    @property
    def together(self) -> KindTime | None:
        """How long ranks took for it together; None where a side has none."""
        both = self.whole or (self.old, self.new)
        old, new = (together_s(side.survey, steady=self.steady) for side in both)
        if not old or not new:
            return None
        if not self.steady:
            return _kind_time(old, new, alone=min(len(old), len(new)) < 2)
        return _middle_change(_middle(old), _middle(new))

    @property
    def spans(self) -> tuple[Estimate, Estimate] | None:
        """Seconds from the start of an iteration to that of the next; None where it is unknown."""
        if self.whole is None:
            return None
        found = [side.survey.steady.spans_ns for side in self.whole if side.survey.steady]
        if not all(found):
            return None
        old, new = (_middle([1e-9 * ns for ns in side]) for side in found)
        return old, new

    @property
    def interval_known(self) -> bool:
        """Whether both sides have runs enough for an interval."""
        return min(self.runs) > 1


def total(survey: Survey) -> Estimate:
    """Mean seconds on the GPU of one run, with a 95% interval where there were several runs."""
    return mean_interval([1e-9 * ns for ns in survey.totals])


def compare_programs(
    old: ProgramCapture, new: ProgramCapture, *, force: bool = False
) -> ProgramDifference:
    """Two captures, kernel by kernel.

    With `force` also what is not comparable; `ProgramDifference.reasons` says why it is not. Raises
    InconclusiveError: other devices or ways of surveying, and `force` is not set; or only one of
    them was timed.
    """
    if old.survey.timed != new.survey.timed:
        names = [side.name for side in sorted((old, new), key=lambda x: x.survey.timed)]
        raise InconclusiveError(
            _("@{counted} has counts of the emulator and no times, @{timed} has times").format(
                counted=names[0], timed=names[1]
            ),
            _("Capture both in one way: `workbench capture --engine emulator` needs no GPU."),
        )
    reasons = _incomparable(old, new)
    if reasons and not force:
        raise InconclusiveError(
            _("@{name} and @{name2} are not comparable: {reasons}").format(
                name=old.name, name2=new.name, reasons=_("; ").join(reasons)
            ),
            _("Capture both on one machine in one way, or compare all the same with --force."),
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
    # Without times another program's counts are compared as another version's are.
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
    """Works that are the GPU's alone, or those that are not, or all."""
    before, after = (
        [
            1e-9 * sum(work.weights[run] for work in survey.works if work.on_gpu in on_gpu)
            for run in range(len(survey.runs))
        ]
        for survey in (old, new)
    )
    # Iterations of one run know nothing of how much another run would differ.
    return _kind_time(before, after, alone=old.steady is not None, exact=not old.timed)


def _middle(samples: Sequence[float]) -> Estimate:
    """The median of iterations, where one that the host held up counts as one; its interval."""
    if len(samples) >= minimum_samples():
        return median_interval(samples)
    middle = median(samples)
    return Estimate(value=middle, low=middle, high=middle, n=1)


def _middle_change(old: Estimate, new: Estimate) -> KindTime:
    """The change of a median: it moved where the intervals lie apart by more than noise."""
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


# --- The kernels behind a program's change, each told as a step of a ladder is ------------------

#: Part (0-1) of the program's time from which a kernel's change is worth its own story.
MATTERS = 0.01
#: Kernels that are told, those that change most.
TOLD = 5
#: Below this part of the program's time kernels may differ by so many times a duration's noise.
_NOTHING, _SHORT = 1e-4, 4.0


class KernelStep(Record, frozen=True):
    """One kernel on both sides; or why its step cannot be told: `silence`.

    `near` has the profiles of its launches that were looked at closely. Where these and the
    program disagree, `doubt` says so; where even the direction differs there is no story.
    `opposed` are launches of another configuration whose time went the other way, if any were
    looked at and tell their story.
    """

    row: WorkChange
    near: Closer
    step: Step | None = None
    silence: str = ""
    doubt: Disagreement | None = None
    opposed: KernelStep | None = None

    @property
    def comparison(self) -> Comparison | None:
        """Of what was profiled."""
        return self.step.comparison if self.step is not None else None

    @property
    def story(self) -> Story | None:
        """What may be told of it."""
        against = self.doubt is not None and self.doubt.against
        return self.step.story if self.step is not None and not against else None

    @property
    def opposed_words(self) -> str:
        """Of which launches the time went the other way, and what is told of them; "" for none."""
        other = self.opposed
        if other is None or other.story is None or other.near.of is None:
            return ""
        doubt = f" ({other.doubt.words})" if other.doubt is not None else ""
        return _("The other way went launches of {words}{doubt}. {sentence}").format(
            words=other.near.of.words, doubt=doubt, sentence=other.story.sentence
        )


def matter(difference: ProgramDifference) -> tuple[WorkChange, ...]:
    """The rows of kernels that changed by `MATTERS` of the program's time or more."""
    rows = [
        row for row in difference.rows if weighs(difference, row) and not row.name.startswith("[")
    ]
    return tuple(rows[:TOLD])


def weighs(difference: ProgramDifference, row: WorkChange) -> bool:
    """Whether a row changed by `MATTERS` of the time of kernels (or copies, for these) or more.

    Counts are exact: without times any change matters.
    """
    if not difference.timed:
        return row.old_weight != row.new_weight
    copies = difference.of_copies
    part = copies if copies is not None and row.name.startswith("[copy") else difference.of_kernels
    before, after = difference.seconds(row)
    return abs(after - before) >= MATTERS * max(part.old.value, part.new.value)


def unchanged(difference: ProgramDifference, row: WorkChange) -> bool:
    """Whether a row is on both sides, launched as often, and takes as long within the noise.

    Of a microsecond the clock's step is several percent.
    """
    before, after = difference.seconds(row)
    noise = catalog()["duration"].noise * max(before, after)
    if abs(after - before) < _NOTHING * difference.totals[0].value:
        noise *= _SHORT
    often = difference.launches(row)
    same = row.fate == "same" and often[0] == often[1] and abs(after - before) <= noise
    return same and not weighs(difference, row)


def kernel_steps(
    difference: ProgramDifference, details: tuple[Profile | None, Profile | None], *, force: bool
) -> Iterator[KernelStep]:
    """The steps of the kernels that matter, one after the other: each takes a moment."""
    for row in told(difference):
        yield _step(row, difference, details, force)


def told(difference: ProgramDifference) -> tuple[WorkChange, ...]:
    """Of the rows that matter those with a kernel on both sides; the table says the others."""
    return tuple(row for row in matter(difference) if row.fate not in ("came", "went"))


class Closer(Record, frozen=True):
    """What was profiled of a row's kernels on both sides, and in `silence` why that is not all.

    Of a kernel that is launched in several configurations, the launches of one: `of`, the one
    whose time changed most of those that both sides looked at. `explains` is the part of the
    row's change that its launches make; None where they are all, or nothing changed.

    Where several works took each other's place a class counts as often as the program launches
    it; all of that is the `part` of a run's launches. `seen` are the seconds that they take in a
    run of the program, `lacking` says what of them nobody looked at.
    """

    old: Profile | None
    new: Profile | None
    silence: str = ""
    of: ClassChange | None = None
    explains: float | None = None
    part: str = ""
    seen: tuple[float, float] | None = None
    lacking: str = ""

    @property
    def words(self) -> str:
        """``a launch of block 1,024, grid 64 alone, 72% of its change``; "" for launches alike."""
        if self.of is None:
            return self.part
        share = (
            ""
            if self.explains is None
            else _(", {explains} of its change in the program").format(
                explains=quantity(100 * self.explains, "%")
            )
        )
        return _("a launch of {words} alone{share}").format(words=self.of.words, share=share)


def closer(
    row: WorkChange,
    difference: ProgramDifference,
    details: tuple[Profile | None, Profile | None],
) -> Closer:
    """What was profiled of a row's kernels, of one class of launches where there are several."""
    captures = difference.old, difference.new
    old, new = _looked_at(row, difference, details)
    if old is None or new is None:
        without = [
            (capture, places)
            for capture, side, places in zip(captures, (old, new), (row.old, row.new), strict=True)
            if side is None
        ]
        lacking = [f"@{capture.name}" for capture, __ in without]
        tried = difference.steady and any(
            set(each.detail) & set(places) for each, places in without
        )
        how = _(" as an iteration launches it") if tried else ""
        why = _("no launch of it{how} was looked at closely in {names}").format(
            how=how, names=_(" and ").join(lacking)
        )
        return Closer(old=old, new=new, silence=why)
    if len(row.old) != 1 or len(row.new) != 1:
        assert details[0] is not None and details[1] is not None  # launches of both are there
        return _together(row, captures, (details[0], details[1]))
    if len(row.classes) < 2:
        return Closer(old=old, new=new)
    of = next(_classes_seen(row, old, new), None)
    if of is None:
        why = _("its launches that were looked at closely have no configuration in common")
        return Closer(
            old=None,
            new=None,
            silence=_("{why}: `capture --like` looks at the same").format(why=why),
        )
    return _of_class(of, row, difference, (old, new))


def _looked_at(
    row: WorkChange, difference: ProgramDifference, details: tuple[Profile | None, Profile | None]
) -> tuple[Profile | None, Profile | None]:
    """The profiled launches of a row's kernels on both sides."""
    return (
        launches_of(difference.old, details[0], row.old),
        launches_of(difference.new, details[1], row.new),
    )


def _of_class(
    of: ClassChange,
    row: WorkChange,
    difference: ProgramDifference,
    sides: tuple[Profile, Profile],
) -> Closer:
    whole, part = (b - a for a, b in (difference.seconds(row), difference.seconds(of)))
    return Closer(
        old=_only(sides[0], of.old),
        new=_only(sides[1], of.new),
        of=of,
        explains=part / whole if whole and difference.timed else None,
    )


#: Several works are told where so much of the time of their launches was looked at.
_ENOUGH = 0.9


def _together(
    row: WorkChange,
    captures: tuple[ProgramCapture, ProgramCapture],
    details: tuple[Profile, Profile],
) -> Closer:
    """Several works: every class of their launches as often as it is in the program."""
    works = [
        seen_of(capture.survey, places, merged_by_work(detail, capture.detail))
        for capture, detail, places in zip(captures, details, (row.old, row.new), strict=True)
    ]
    lacking = " and ".join(
        _("of @{name} {lacking}").format(name=capture.name, lacking=side.lacking)
        for capture, side in zip(captures, works, strict=True)
        if side.lacking
    )
    if min(side.share for side in works) < _ENOUGH:
        return Closer(
            old=None,
            new=None,
            silence=_("{lacking}: too little to tell them together").format(lacking=lacking),
        )
    (old, new), part = weigh_alike((works[0], works[1]))
    return Closer(
        old=replace(details[0], launches=old),
        new=replace(details[1], launches=new),
        part=_("{part} that were looked at").format(part=part) if lacking else part,
        seen=(works[0].seconds, works[1].seconds),
        lacking=lacking,
    )


def _classes_seen(row: WorkChange, old: Profile, new: Profile) -> Iterator[ClassChange]:
    """The classes of which both sides looked at launches."""
    return (
        one for one in row.classes if _only(old, one.old).launches and _only(new, one.new).launches
    )


def _only(profile: Profile, side: LaunchClass | None) -> Profile:
    own = (launch for launch in profile.launches if side is not None and side.holds(launch))
    return replace(profile, launches=tuple(own))


#: Ratios of launches that differ by more than this part disagree.
_DISAGREE = 0.1


class Disagreement(Record, frozen=True):
    """Launches under the profiler tell another story than those of the program, in `words`.

    `against`: even the direction differs, or that one side did not change, so that nothing may be
    told of the profiler's.
    """

    words: str
    against: bool


def _doubt(
    comparison: Comparison, row: WorkChange, near: Closer, difference: ProgramDifference
) -> Disagreement | None:
    """Where the profiler's times of a launch and the program's disagree; None: they agree."""
    of = near.of if near.of is not None else row
    if comparison.speed is None or not of.old_weight or not of.new_weight:
        return None
    if near.seen is not None:
        ratio = near.seen[0] / near.seen[1]
    else:
        ratio = (of.old_weight / of.old_launches) / (of.new_weight / of.new_launches)
    told = comparison.speed.speedup
    moved, apart = comparison.speed.moved, abs(math.log(told / ratio)) > math.log1p(_DISAGREE)
    # As fast on one side explains no change of the other either.
    still = not moved or abs(ratio - 1) <= catalog()["duration"].noise
    against = (apart and still) or (moved and (told - 1) * (ratio - 1) < 0)
    words = [near.lacking] if near.lacking else []
    if apart or against:
        why = _("ncu runs every launch alone and empties the caches before it")
        if difference.old.survey.way == "ncu":
            why = _("few launches were looked at closely, and all were timed")
        one = _(
            "in the program a launch is {ratio}, under the profiler {profiled}: "
            "the program's time counts ({why})"
        )
        many = _(
            "in the program they are {ratio}, under the profiler {profiled}: "
            "the program's time counts ({why})"
        )
        words.append(
            (many if near.seen else one).format(ratio=faster(ratio), profiled=faster(told), why=why)
        )
    elif not words:
        return None
    return Disagreement(words=_("; ").join(words), against=against)


def _step(
    row: WorkChange,
    difference: ProgramDifference,
    details: tuple[Profile | None, Profile | None],
    force: bool,
) -> KernelStep:
    near = closer(row, difference, details)
    step = _told_step(row, near, difference, force)
    if step.story is None or near.of is None:
        return step
    old, new = _looked_at(row, difference, details)
    assert old is not None and new is not None  # a class of them was told
    for other in _classes_seen(row, old, new):
        if _opposed(difference, row, near.of, other):
            closely = _of_class(other, row, difference, (old, new))
            found = _told_step(row, closely, difference, force)
            return replace(step, opposed=found if found.story is not None else None)
    return step


#: Launches that went the other way by this part of a kernel's change are told as well.
_HIDDEN = 0.25


def _opposed(
    difference: ProgramDifference, row: WorkChange, told: ClassChange, other: ClassChange
) -> bool:
    """Whether the time of launches went the other way than that of those that are told."""
    whole, way, against = (b - a for a, b in map(difference.seconds, (row, told, other)))
    return way * against < 0 and abs(against) >= _HIDDEN * abs(whole)


def _told_step(
    row: WorkChange, near: Closer, difference: ProgramDifference, force: bool
) -> KernelStep:
    if near.old is None or near.new is None:
        return KernelStep(row=row, near=near, silence=near.silence)
    labels = (f"@{difference.old.name}", f"@{difference.new.name}")
    step = Step(near.old, near.new, labels, force=force)
    try:
        found = _doubt(step.comparison, row, near, difference)
    except InconclusiveError as error:
        return KernelStep(row=row, near=near, silence=error.message)
    silence = found.words if found is not None and found.against else ""
    return KernelStep(row=row, near=near, step=step, silence=silence, doubt=found)
