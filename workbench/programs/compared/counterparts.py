"""Match the works of two surveys that do the same job, and their launches.

Kernels with the same full name on both sides are the same. The others are matched by the function's
name, then by the order of launches. Kernels that are now launched in the place of others have
replaced them: one for one or several for several (replaced), several for one (fused), one for
several (split). If the order does not show it (only a few hundred launches are kept, none in older
records), works that are mostly between the same two kernels match, and then works inside one NVTX
range. The rest was added or removed.

Launches of a work fall into classes: one grid, block and dynamic shared memory each. A class
corresponds to that of the same configuration. If an edit chose another configuration, it
corresponds to the one with as many launches, else to the one with as many threads.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from fractions import Fraction
from itertools import takewhile
from math import gcd, lcm, prod
from statistics import fmean
from typing import Literal

from msgspec.structs import replace

from workbench.analysis.aggregate import multiplied, near, typeless
from workbench.language import _
from workbench.model import Launch, Profile, Record
from workbench.programs.capture.records import (
    Counted,
    ProgramCapture,
    Shape,
    Steady,
    SteadyWork,
    Survey,
    Work,
    summed,
)
from workbench.units import extent, quantity

Fate = Literal["same", "fused", "split", "replaced", "came", "went"]
#: The least similarity of two names for one function, without other evidence.
_ALIKE = 0.75
#: The largest factor between the times of fused or split kernels and of their counterparts.
_FAR = 4.0


class Counterparts(Record, frozen=True):
    """Works of both surveys (their indices) that appear to do the same job."""

    fate: Fate
    old: tuple[int, ...]
    new: tuple[int, ...]


class _Sides:
    """Two surveys, and the works without counterparts so far."""

    def __init__(self, old: Survey, new: Survey) -> None:
        self.works = (old.works, new.works)
        self.runs = (len(old.runs), len(new.runs))
        self.timed = old.timed
        self.left: tuple[dict[int, None], dict[int, None]] = (
            dict.fromkeys(range(len(old.works))),
            dict.fromkeys(range(len(new.works))),
        )
        self.found: list[Counterparts] = []

    def take(self, fate: Fate, old: Iterable[int], new: Iterable[int]) -> None:
        """Make counterparts of unmatched works."""
        pair = Counterparts(fate=fate, old=tuple(old), new=tuple(new))
        for side, places in enumerate((pair.old, pair.new)):
            for place in places:
                del self.left[side][place]
        self.found.append(pair)

    def grouped(self, key: Callable[[int, int], Hashable]) -> list[tuple[list[int], list[int]]]:
        """Unmatched works grouped by a key of (side, place); only groups that both sides have."""
        groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side in (0, 1):
            for place in self.left[side]:
                groups[key(side, place)][side].append(place)
        return [(a, b) for a, b in groups.values() if a and b]

    def launches(self, side: int, place: int) -> float:
        """The number of launches in one run."""
        return sum(self.works[side][place].launches) / self.runs[side]

    def name(self, side: int, place: int) -> str:
        """The function's name."""
        return self.works[side][place].name


def pair_works(old: Survey, new: Survey) -> tuple[Counterparts, ...]:
    """Every work of both surveys, each once: the same, then replaced, removed and added."""
    sides = _Sides(old, new)
    for before, after in sides.grouped(lambda side, place: sides.works[side][place].symbol):
        sides.take("same", before, after)
    for before, after in sides.grouped(lambda side, place: _plain(sides.works[side][place])):
        _by_name(sides, before, after)
    if not sides.timed:
        _by_likeness(sides)  # without times, the weight of a group is unknown
    _by_order(sides, old.sequence, new.sequence)
    _by_place(sides)
    _by_likeness(sides)
    _by_range(sides)
    for place in list(sides.left[0]):
        sides.take("went", [place], [])
    for place in list(sides.left[1]):
        sides.take("came", [], [place])
    return tuple(sides.found)


#: A side has tried configurations if it launches a kernel in at least this many, this often each;
#: and both numbers must exceed the other side's by this factor.
TRIED, OFTEN, _MORE = 4, 5, 2
#: The least part of a side's kernel time in these launches, and in those of an only kernel.
_MOST, _ONLY = 0.5, 0.9
#: Bounds on an only kernel's launches per iteration of the other side, which does not count
#: launches before its first iteration.
_FEWER, _AS_OFTEN = 0.9, 1.5


def tried_words(old: Survey, new: Survey, pairs: Iterable[Counterparts]) -> str:
    """A sentence on a kernel that only one side launches in many configurations; "" for none.

    A tuner does so, before it calls the best of them. A sum over a tuner's launches cannot be
    compared with a sum over calls, even if each is right by itself. A sweep over sizes on both
    sides launches each size on both.
    """
    surveys = old, new
    if [x.steady is not None and x.steady.period == 1 for x in surveys].count(True) == 1:
        return _(
            "no speed-up is given: one side calls a kernel again after trying its configurations, "
            "and the other does not, so the sums do not cover the same "
            "work"
        )
    for pair in pairs:
        if len(pair.old) != 1 or len(pair.new) != 1:
            continue
        works = old.works[pair.old[0]], new.works[pair.new[0]]
        counts = [work.shape_count for work in works]
        often = [sum(x.launches) / len(s.runs) for x, s in zip(works, surveys, strict=True)]
        many = counts.index(max(counts))
        several = [x for x in works[many].shapes if x.launches >= OFTEN * len(surveys[many].runs)]
        whole = sum(surveys[many].total_ns("kernel", "fill"))
        if (
            len(several) >= TRIED
            and all(own[many] >= _MORE * own[1 - many] > 0 for own in (counts, often))
            and sum(works[many].total_ns) >= _MOST * whole
        ):
            numbers = (" → ".join(f"{round(x):,}" for x in own) for own in (counts, often))
            return _(
                "no speed-up is given: {name} is launched in {tried} configurations, "
                "{often} times in all, as by a tuner, so the sums do not cover the same "
                "work"
            ).format(name=works[many].name, tried=next(numbers), often=next(numbers))
    return ""


def repeating(old: Survey, new: Survey) -> tuple[Survey, Survey] | None:
    """Both surveys, if both repeat themselves; None if only one does, or neither.

    If only one does, the other may still repeat a launch: of an only kernel in one configuration,
    about as often as the first one's iterations; after a tuner on the first side, however often.
    """
    known = old.steady or new.steady
    states = [survey.steady or (known and _called(survey, known)) for survey in (old, new)]
    if states[0] is None or states[1] is None:
        return None
    return replace(old, steady=states[0]), replace(new, steady=states[1])


def _called(survey: Survey, other: Steady) -> Steady | None:
    """Each launch of the only kernel as an iteration, like those of the other side."""
    work = max(survey.works, key=lambda x: sum(x.total_ns) * (x.kind == "kernel"), default=None)
    whole = sum(survey.total_ns("kernel", "fill"))
    if work is None or len(work.shapes) != 1 or sum(work.total_ns) < _ONLY * whole:
        return None
    often = fmean(work.launches) / fmean(other.iterations)
    if survey.ranks or other.ranks or (other.period > 1 and not _FEWER < often < _AS_OFTEN):
        return None
    mean = round(sum(work.total_ns) / sum(work.launches))
    own = SteadyWork(
        place=survey.works.index(work),
        launches=(1,),
        total_ns=(mean,),
        shapes=(replace(work.shapes[0], launches=1, total_ns=mean),),
    )
    rest = zip(survey.totals, work.total_ns, strict=True)
    return Steady(
        period=1,
        iterations=work.launches,
        warm_ns=tuple(all_of_it - calls for all_of_it, calls in rest),
        works=(own,),
    )


def _plain(work: Work) -> tuple[str, str]:
    return work.kind, work.name


def _by_name(sides: _Sides, before: list[int], after: list[int]) -> None:
    """Match functions of one name: parameters or template arguments changed.

    Among several, those that differ only in number types and sizes match, then those with the same
    configuration and as many launches; single remaining ones on both sides match, too.
    """
    for key in (_typeless, _configuration):
        for old in list(before):
            for new in after:
                if key(sides, 0, old) == key(sides, 1, new):
                    sides.take("same", [old], [new])
                    before.remove(old)
                    after.remove(new)
                    break
    if len(before) == len(after) == 1:
        sides.take("same", before, after)


def _typeless(sides: _Sides, side: int, place: int) -> Hashable:
    work = sides.works[side][place]
    return typeless(work.signature or work.symbol), sides.launches(side, place)


def _configuration(sides: _Sides, side: int, place: int) -> Hashable:
    shapes = sides.works[side][place].shapes
    return sides.launches(side, place), shapes[0].grid if shapes else None


def _by_order(sides: _Sides, old: Sequence[int], new: Sequence[int]) -> None:
    """Match works that take the place of others in the stream of launches.

    The two orders are aligned by the works that are the same on both sides; between two of these,
    the new works replaced the old ones, in any number.
    """
    same = _known(sides)
    before, after = (
        [same[side].get(place, (side, place)) for place in sequence]
        for side, sequence in enumerate((old, new))
    )
    groups: list[tuple[set[int], set[int]]] = []
    matcher = SequenceMatcher(a=before, b=after, autojunk=False)
    for tag, *ends in matcher.get_opcodes():
        if tag != "replace":
            continue
        parts = old[ends[0] : ends[1]], new[ends[2] : ends[3]]
        own = [_standing(sides, side, part) for side, part in enumerate(parts)]
        if not all(own):
            continue
        # A work in several such places forms one group with all its neighbours there.
        beside = [group for group in groups if group[0] & own[0] or group[1] & own[1]]
        groups = [group for group in groups if group not in beside]
        groups.append(
            (own[0].union(*(x for x, __ in beside)), own[1].union(*(x for __, x in beside)))
        )
    for group in groups:
        for gone, come in _apart(sides, group):
            if not sides.timed and len(gone) == len(come):
                in_turn = sorted(gone, key=old.index), sorted(come, key=new.index)
                for one, other in zip(*in_turn, strict=True):
                    sides.take("replaced", [one], [other])
                continue
            sides.take(_fate(gone, come), sorted(gone), sorted(come))


def _standing(sides: _Sides, side: int, part: Sequence[int]) -> set[int]:
    """Unmatched works in a part of the order, and copies on the GPU between two of them.

    Copies between host and device replace no kernel.
    """
    works, own = sides.works[side], [place for place in part if place in sides.left[side]]
    ends = [at for at, place in enumerate(own) if works[place].kind != "copy"]
    inside = own[ends[0] : ends[-1] + 1] if ends else []
    return {place for place in inside if works[place].on_gpu}


def _apart(sides: _Sides, group: tuple[set[int], set[int]]) -> list[tuple[set[int], set[int]]]:
    """Split a group by the ranges in which its works are launched, if both sides have the same."""
    parts: dict[str, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    for side, own in enumerate(group):
        for place in own:
            parts[_range_of(sides.works[side], [place])][side].add(place)
    known = all(path and old and new for path, (old, new) in parts.items())
    return list(parts.values()) if known else [group]


#: A work belongs to a range with this part of its time; the numbers in ranges' names.
_INSIDE, _NUMBER = 0.9, re.compile(r"\d+")


def inside_of(surveys: Sequence[Survey], places: Sequence[Sequence[int]]) -> str:
    """The range in which several works of two surveys replaced each other; "" for none."""
    sides = zip(surveys, places, strict=True)
    old, new = (_range_of(survey.works, own) for survey, own in sides)
    return old if old == new and max(map(len, places)) > 1 else ""


def _range_of(works: Sequence[Work], places: Iterable[int]) -> str:
    """The innermost NVTX range that holds all given kernels, but not all of the program's.

    ``train/attention``; "" for none. The recorded ones among numbered ranges (``step 1``, ``step
    2``) represent the others.
    """
    paths = [_path(works[place]) for place in places if works[place].kind == "kernel"]
    common = _shared(paths)
    every = _shared([_path(work) for work in works if work.kind == "kernel"])
    return "/".join(common) if len(common) > len(every) else ""


def _path(work: Work) -> tuple[str, ...]:
    """The ranges around a kernel, from the outermost to the innermost."""
    paths = {_NUMBER.sub("#", share.path) for share in work.ranges}
    spent = sum(share.total_ns for share in work.ranges)
    counted = work.range_count > len(work.ranges) and len(paths) == 1
    known = counted or spent >= _INSIDE * sum(work.total_ns)
    return _shared([path.split("/") for path in paths]) if known else ()


def _shared(paths: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The common beginning of all paths."""
    levels = zip(*paths, strict=False)
    return tuple(x[0] for x in takewhile(lambda names: len(set(names)) == 1, levels))


def _by_range(sides: _Sides) -> None:
    """Match works inside one range on both sides, unless one side launches far more.

    A tuner launches far more.
    """

    def inside(side: int, place: int) -> str:
        return _range_of(sides.works[side], [place])

    for before, after in sides.grouped(inside):
        often = [sides.launches(0, x) for x in before] + [sides.launches(1, x) for x in after]
        alike = min(often) > 0 and max(often) <= _FAR * min(often)
        if alike and inside(0, before[0]) and _comparable(sides, before, after):
            sides.take(_fate(before, after), before, after)


def _known(sides: _Sides) -> tuple[dict[int, object], dict[int, object]]:
    """For each side: work -> the number of its counterparts."""
    same: tuple[dict[int, object], dict[int, object]] = ({}, {})
    for number, pair in enumerate(sides.found):
        for side, places in enumerate((pair.old, pair.new)):
            same[side].update(dict.fromkeys(places, number))
    return same


def _fate(before: Collection[int], after: Collection[int]) -> Fate:
    fates: dict[tuple[bool, bool], Fate] = {
        (False, False): "replaced",
        (True, False): "fused",
        (False, True): "split",
        (True, True): "replaced",
    }
    return fates[len(before) > 1, len(after) > 1]


def _by_place(sides: _Sides) -> None:
    """Match works between the same two kernels on both sides."""
    same = _known(sides)

    def between(side: int, place: int) -> Hashable:
        works, known = sides.works[side], same[side]
        return (
            _anchor(works, known, place, lambda work: work.before),
            _anchor(works, known, place, lambda work: work.after),
            works[place].kind,
        )

    for before, after in sides.grouped(between):
        counts = {sides.launches(0, x) for x in before} | {sides.launches(1, x) for x in after}
        # Equal numbers of launches: one replaced the other every time.
        if len(counts) > 1 or not _comparable(sides, before, after):
            continue
        for gone, come in _apart(sides, (set(before), set(after))):
            sides.take(_fate(gone, come), sorted(gone), sorted(come))


def _comparable(sides: _Sides, before: list[int], after: list[int]) -> bool:
    """True if both may do the same job: an optimization seldom gains more than `_FAR`."""
    if len(before) == len(after) == 1:
        return True
    old, new = (
        sum(sum(sides.works[side][place].weights) for place in places) / sides.runs[side]
        for side, places in enumerate((before, after))
    )
    return max(old, new) <= _FAR * min(old, new)


def _anchor(
    works: Sequence[Work], known: Mapping[int, object], place: int, step: Callable[[Work], int]
) -> object:
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
    """Match works with nearly the same name and equally many launches."""
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
            sides.take("replaced", [old], [best])


# --- classes of launches ---------------------------------------------------------------------


class LaunchClass(Record, frozen=True):
    """Launches with one block and shared memory, and equal or nearly equal grids: `shapes`.

    The heaviest comes first. Weights and launches are sums over all runs.
    """

    shapes: tuple[Shape, ...]

    @property
    def weight(self) -> int:
        """The weight of all its launches: nanoseconds, if they were timed."""
        return sum(shape.weight for shape in self.shapes)

    @property
    def counted(self) -> Counted:
        """The emulator's counts of all its launches."""
        return summed(shape.counted for shape in self.shapes)

    @property
    def launches(self) -> int:
        """The number of launches."""
        return sum(shape.launches for shape in self.shapes)

    @property
    def grids(self) -> str:
        """``2,046 to 2,048``."""
        grids = sorted((shape.grid for shape in self.shapes), key=prod)
        return " to ".join(dict.fromkeys(extent(grid) for grid in (grids[0], grids[-1])))

    @property
    def dynamic(self) -> str:
        """``16.0 KB``; "" without dynamic shared memory."""
        size = self.shapes[0].dynamic_shared
        return quantity(size, "byte") if size else ""

    @property
    def threads(self) -> str:
        """``32×4``: its block."""
        return extent(self.shapes[0].block)

    def holds(self, launch: Launch) -> bool:
        """True if a launch belongs to this class, by its configuration."""
        return any(shape.config == launch.config for shape in self.shapes)


def class_words(*sides: LaunchClass | None) -> str:
    """``block 256, grid 2,046 to 2,048``; both values if the sides differ: ``grid 64 → 32``."""
    there = [side for side in sides if side is not None]
    values = {
        "block": [side.threads for side in there],
        "grid": [side.grids for side in there],
        "dynamic shared memory": [side.dynamic or "none" for side in there],
    }
    return ", ".join(
        f"{name} {' → '.join(dict.fromkeys(own))}"
        for name, own in values.items()
        if set(own) != {"none"}
    )


def _threads(one: LaunchClass) -> int:
    shape = one.shapes[0]
    return prod(shape.grid) * prod(shape.block)


def classes_of(shapes: Sequence[Shape]) -> tuple[LaunchClass, ...]:
    """The classes of a work's configurations, ordered by the heaviest of each."""
    groups: list[list[Shape]] = []
    for shape in shapes:
        for group in groups:
            first = group[0]
            if (shape.block, shape.dynamic_shared) == (first.block, first.dynamic_shared) and near(
                shape.grid, first.grid
            ):
                group.append(shape)
                break
        else:
            groups.append([shape])
    return tuple(LaunchClass(shapes=tuple(group)) for group in groups)


def pair_classes(
    old: Sequence[Shape], new: Sequence[Shape], runs: tuple[int, int]
) -> list[tuple[LaunchClass | None, LaunchClass | None]]:
    """Every class of both sides, each once; None if the other side has no counterpart."""
    before, after = list(classes_of(old)), list(classes_of(new))
    found: list[tuple[LaunchClass | None, LaunchClass | None]] = []

    def match(key: Callable[[LaunchClass, int], Hashable]) -> None:
        """Pair classes whose key is unique on each side."""
        sides = [defaultdict[Hashable, list[LaunchClass]](list) for __ in runs]
        for side, own in enumerate((before, after)):
            for one in own:
                sides[side][key(one, runs[side])].append(one)
        for name, left in sides[0].items():
            right = sides[1].get(name, [])
            if len(left) == len(right) == 1:
                found.append((left[0], right[0]))
                before.remove(left[0])
                after.remove(right[0])

    def first(one: LaunchClass) -> Shape:
        return one.shapes[0]

    match(lambda one, _: first(one).config)
    match(lambda one, _: (first(one).grid, first(one).block))
    match(lambda one, count: (first(one).block, one.launches / count))
    match(lambda one, _: first(one).block)
    match(lambda one, count: (prod(first(one).grid) * prod(first(one).block), one.launches / count))
    match(lambda one, count: one.launches / count)
    match(lambda _one, _count: None)
    if len(before) == len(after):
        # The same number of sizes on both sides: an edit seldom reverses their order.
        sizes = (sorted(own, key=_threads) for own in (before, after))
        found += list(zip(*sizes, strict=True))
        before, after = [], []
    return [*found, *((one, None) for one in before), *((None, one) for one in after)]


# --- profiled launches, counted as often as a program has them -------------------------------


class Looked(Record, frozen=True):
    """The profiled launches of some works.

    `often` is the number of launches of a run that each of the `launches` represents. `seconds` is
    their time in the program, `share` their part (0-1) of all launches' time; `lacking` puts that
    part into words if it is not all. Fills are not launches.
    """

    launches: tuple[Launch, ...]
    often: tuple[Fraction, ...]
    seconds: float
    share: float
    lacking: str


def launches_of(
    capture: ProgramCapture, detail: Profile | None, places: Sequence[int]
) -> Profile | None:
    """The profiled launches of some works of a capture, or None.

    If all configurations of a kernel are known, only launches in these count: for a capture reduced
    to its iterations (`iterations.steadied`), this excludes a tuner's trials before the first.
    """
    if detail is None:
        return None

    def own(launch: Launch, work: Work) -> bool:
        if sum(shape.launches for shape in work.shapes) != sum(work.launches):
            return True  # the survey keeps only the heaviest configurations
        return any(x.config == launch.config for x in work.shapes)

    found = tuple(
        launch
        for launch, place in zip(detail.launches, capture.detail, strict=True)
        if place in places and launch.profiled and own(launch, capture.survey.works[place])
    )
    return replace(detail, launches=found) if found else None


def seen_of(survey: Survey, places: Iterable[int], looked: Iterable[tuple[int, Launch]]) -> Looked:
    """The profiled launches of some works; `looked` are launches with their works."""
    looked, runs = list(looked), len(survey.runs)
    found: list[tuple[Launch, Fraction]] = []
    whole = seen = classes = known = 0
    for place in places:
        work = survey.works[place]
        if work.kind != "kernel":
            continue
        whole += sum(work.weights)
        own = [launch for of, launch in looked if of == place]
        # A record without configurations has one class of all launches.
        shapes = work.shapes or (_all_of(work, own),)
        classes += max(len(classes_of(shapes)), 1)
        for one in classes_of(shapes):
            held = [x for x in own if one.holds(x)]
            if not held:
                continue
            known, seen = known + 1, seen + one.weight
            samples = sum(launch.samples for launch in held)
            found += [(x, Fraction(one.launches * x.samples, samples * runs)) for x in held]
    share = seen / whole if whole else 1.0
    of_time = _("{known} of {classes} configurations were profiled, {share} of their time")
    of_work = _("{known} of {classes} configurations were profiled, {share} of their work")
    lacking = (of_time if survey.timed else of_work).format(
        known=known, classes=classes, share=quantity(100 * share, "%")
    )
    return Looked(
        launches=tuple(launch for launch, __ in found),
        often=tuple(often for __, often in found),
        seconds=1e-9 * seen / runs,
        share=share,
        lacking=lacking if seen < whole else "",
    )


def _all_of(work: Work, own: Sequence[Launch]) -> Shape:
    return Shape(
        *(own[0] if own else Launch("", 0)).config,
        launches=sum(work.launches),
        total_ns=sum(work.total_ns),
        counted=work.counted,
    )


def weigh_alike(
    sides: tuple[Looked, Looked],
) -> tuple[tuple[tuple[Launch, ...], ...], str]:
    """The launches of both sides as often as in the programs, and their part of a run.

    It is the smallest part of a run that has whole launches of each: ``1/31 of all launches``.
    """
    every = [often for side in sides for often in side.often]
    # The greatest common divisor of fractions.
    unit = Fraction(
        gcd(*(one.numerator for one in every)), lcm(*(one.denominator for one in every))
    )
    launches = tuple(
        tuple(
            multiplied(launch, int(often / unit))
            for launch, often in zip(side.launches, side.often, strict=True)
        )
        for side in sides
    )
    part = 1 / unit
    if part.denominator > 1:
        return launches, _("{part} of all launches").format(part=part)
    return launches, _("all launches") if part == 1 else _("all launches of {part} runs").format(
        part=part
    )
