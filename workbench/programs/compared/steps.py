"""The kernels behind most of a program's change, each shown like a step of a ladder.

The input is the rows that matter and the profiles of their launches. The output is, for each row,
the step that `analysis.story` explains, or the reason why it cannot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from workbench.analysis.compare import Comparison
from workbench.analysis.launches import merged_by_work
from workbench.analysis.story import Step, Story
from workbench.counters import catalog
from workbench.errors import InconclusiveError
from workbench.language import _
from workbench.model import Profile, Record
from workbench.programs.capture.records import ProgramCapture
from workbench.programs.compared.counterparts import LaunchClass, launches_of, seen_of, weigh_alike
from workbench.programs.compared.program import ClassChange, ProgramDifference, WorkChange
from workbench.units import faster, quantity

#: The least part (0-1) of the program's time for a kernel's change to have its own story.
MATTERS = 0.01
#: The most kernels to show: those that change most.
TOLD = 5
#: Kernels below this part of the program's time may vary by this many times a duration's noise.
_NOTHING, _SHORT = 1e-4, 4.0


class KernelStep(Record, frozen=True):
    """One kernel on both sides; or, in `silence`, why its step is not shown.

    `near` has the profiles of its launches. If these and the program disagree, `doubt` says so; if
    even the direction differs, there is no story. `opposed` are launches in another configuration
    whose time changed in the opposite direction, if they were profiled and have a story.
    """

    row: WorkChange
    near: Closer
    step: Step | None = None
    silence: str = ""
    doubt: Disagreement | None = None
    opposed: KernelStep | None = None

    @property
    def comparison(self) -> Comparison | None:
        """The comparison of the profiled launches."""
        return self.step.comparison if self.step is not None else None

    @property
    def story(self) -> Story | None:
        """The story of the step, unless the program contradicts it."""
        against = self.doubt is not None and self.doubt.against
        return self.step.story if self.step is not None and not against else None

    @property
    def opposed_words(self) -> str:
        """Words on launches whose time moved against the step; "" for none."""
        other = self.opposed
        if other is None or other.story is None or other.near.of is None:
            return ""
        doubt = f" ({other.doubt.words})" if other.doubt is not None else ""
        return _("Launches of {words} moved in the other direction{doubt}. {sentence}").format(
            words=other.near.of.words, doubt=doubt, sentence=other.story.sentence
        )


def matter(difference: ProgramDifference) -> tuple[WorkChange, ...]:
    """The rows of kernels that changed by `MATTERS` of the program's time or more."""
    rows = [
        row for row in difference.rows if weighs(difference, row) and not row.name.startswith("[")
    ]
    return tuple(rows[:TOLD])


def weighs(difference: ProgramDifference, row: WorkChange) -> bool:
    """True if a row changed by `MATTERS` of the time of kernels (or copies, for these) or more.

    Counts are exact: without times any change matters.
    """
    if not difference.timed:
        return row.old_weight != row.new_weight
    copies = difference.of_copies
    part = copies if copies is not None and row.name.startswith("[copy") else difference.of_kernels
    before, after = difference.seconds(row)
    return abs(after - before) >= MATTERS * max(part.old.value, part.new.value)


def unchanged(difference: ProgramDifference, row: WorkChange) -> bool:
    """True if a row is on both sides, launched as often, and takes as long within the noise.

    The clock's resolution is several percent of a microsecond.
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
    """The rows that matter with a kernel on both sides; the table shows the others."""
    return tuple(row for row in matter(difference) if row.fate not in ("came", "went"))


class Closer(Record, frozen=True):
    """Profiles of a row's kernels on both sides; `silence` says why some are missing.

    For a kernel with several configurations, the launches of one: `of`, the one whose time changed
    most among those that both sides profiled. `explains` is the part of the row's change that its
    launches make; None if they are all launches, or if nothing changed.

    If several works replaced each other, a class counts as often as the program launches it;
    together they are the `part` of a run's launches. `seen` are the seconds that they take in a run
    of the program; `lacking` describes the unprofiled part of them.
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
        """``a launch of block 1,024, grid 64 alone, 72% of its change``; "" for equal launches."""
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
    row: WorkChange, difference: ProgramDifference, details: tuple[Profile | None, Profile | None]
) -> Closer:
    """Profiles of a row's kernels, for one class of launches if there are several."""
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
        why = _("no launch of it{how} was profiled in {names}").format(
            how=how, names=_(" and ").join(lacking)
        )
        return Closer(old=old, new=new, silence=why)
    if len(row.old) != 1 or len(row.new) != 1:
        assert details[0] is not None and details[1] is not None  # both have launches
        return _together(row, captures, (details[0], details[1]))
    if len(row.classes) < 2:
        return Closer(old=old, new=new)
    if seen := _classes_seen(row, difference, old, new):
        return _of_class(seen[0], row, difference, (old, new))
    why = _("its profiled launches have no configuration in common")
    silence = _("{why}: `capture --like` profiles the same launches").format(why=why)
    return Closer(old=None, new=None, silence=silence)


def _looked_at(
    row: WorkChange, difference: ProgramDifference, details: tuple[Profile | None, Profile | None]
) -> tuple[Profile | None, Profile | None]:
    """The profiled launches of a row's kernels on both sides."""
    return (
        launches_of(difference.old, details[0], row.old),
        launches_of(difference.new, details[1], row.new),
    )


def _of_class(
    of: ClassChange, row: WorkChange, difference: ProgramDifference, sides: tuple[Profile, Profile]
) -> Closer:
    whole, part = (b - a for a, b in (difference.seconds(row), difference.seconds(of)))
    return Closer(
        old=_only(sides[0], of.old),
        new=_only(sides[1], of.new),
        of=of,
        explains=part / whole if whole and difference.timed else None,
    )


#: The least profiled share of their time for several works to be compared.
_ENOUGH = 0.9


def _together(
    row: WorkChange,
    captures: tuple[ProgramCapture, ProgramCapture],
    details: tuple[Profile, Profile],
) -> Closer:
    """Profiles of several works: every class of launches as often as in the program."""
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
            silence=_("{lacking}: too little to compare them as a whole").format(lacking=lacking),
        )
    (old, new), part = weigh_alike((works[0], works[1]))
    return Closer(
        old=replace(details[0], launches=old),
        new=replace(details[1], launches=new),
        part=_("{part} that were profiled").format(part=part) if lacking else part,
        seen=(works[0].seconds, works[1].seconds),
        lacking=lacking,
    )


def _classes_seen(
    row: WorkChange, difference: ProgramDifference, old: Profile, new: Profile
) -> list[ClassChange]:
    """The classes profiled on both sides; first those of which one launch went the row's way."""
    before, after = difference.seconds(row)
    of = [one for one in row.classes if _only(old, one.old).launches]
    of = [one for one in of if _only(new, one.new).launches]

    def against(one: ClassChange) -> bool:
        gain = one.old_weight * one.new_launches - one.new_weight * one.old_launches
        return gain * (before - after) <= 0

    return sorted(of, key=against)


def _only(profile: Profile, side: LaunchClass | None) -> Profile:
    own = (launch for launch in profile.launches if side is not None and side.holds(launch))
    return replace(profile, launches=tuple(own))


#: Ratios of launches that differ by more than this part disagree.
_DISAGREE = 0.1


class Disagreement(Record, frozen=True):
    """The profiler's launches contradict those of the program; `words` says how.

    `against`: even the direction differs, or one side did not change, so that the profiler's story
    cannot be shown.
    """

    words: str
    against: bool


def _doubt(
    comparison: Comparison, row: WorkChange, near: Closer, difference: ProgramDifference
) -> Disagreement | None:
    """A disagreement between the profiler's and the program's launch times; None: they agree."""
    of = near.of if near.of is not None else row
    if comparison.speed is None or not of.old_weight or not of.new_weight:
        return None
    if near.seen is not None:
        ratio = near.seen[0] / near.seen[1]
    else:
        ratio = (of.old_weight / of.old_launches) / (of.new_weight / of.new_launches)
    told = comparison.speed.speedup
    moved, apart = comparison.speed.moved, abs(math.log(told / ratio)) > math.log1p(_DISAGREE)
    # If one of them shows no change, it cannot explain the other's change either.
    still = not moved or abs(ratio - 1) <= catalog()["duration"].noise
    against = (apart and still) or (moved and (told - 1) * (ratio - 1) < 0)
    words = [near.lacking] if near.lacking else []
    if apart or against:
        why = _("ncu runs every launch alone and empties the caches before it")
        if difference.old.survey.way == "ncu":
            why = _("only a few launches were profiled, but all were timed")
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


#: Launches that moved against the step by at least this part of the change are shown as well.
_HIDDEN = 0.25


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
    assert old is not None and new is not None  # one of their classes has a story
    for other in _classes_seen(row, difference, old, new):
        whole, way, against = (b - a for a, b in map(difference.seconds, (row, near.of, other)))
        if way * against < 0 and abs(against) >= _HIDDEN * abs(whole):
            closely = _of_class(other, row, difference, (old, new))
            found = _told_step(row, closely, difference, force)
            return replace(step, opposed=found if found.story is not None else None)
    return step


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
