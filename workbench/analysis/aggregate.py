"""Several launches of one profile: how to combine them into one number, and how to pair them.

A version may launch several kernels (im2col, then GEMM). Over its launches, counts
and times add; rates are means weighted by duration (without durations, by
instructions); values that the compiler and the launch fix (registers, block size) have neither sum
nor mean, so one launch represents all. Every combined number says so in its `rule`. Launches of a
report may be samples: `launches.side_by_side` first.
"""

from __future__ import annotations

import math
import re
import weakref
from bisect import bisect
from collections import Counter as Bag
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import product
from typing import Generic, Literal, NamedTuple, TypeVar

from msgspec import structs

from workbench.counters import Counter, Missing, Reading, catalog, read, read_all, spread
from workbench.language import _, told
from workbench.model import Dim3, Launch, Number, Profile, Record, Spread

How = Literal["signature", "name", "renamed", "order", "added", "removed"]

#: The emulator's metric of a kernel's machine code: its SHA-256.
COMPILED = "ptxas__code"
#: Part of the name of every metric that is derived from warp samples.
_SAMPLED = "pcsamp"
#: Kernels whose names and work are less alike than this (0-1) were not renamed.
_ALIKE = 0.6
#: A name of at least this many letters inside another is not an accident.
_WORD = 4
#: Grids whose numbers of blocks differ by at most this fraction are in one class.
_NEAR = 0.02


class LaunchPair(Record, frozen=True):
    """Launches that correspond: indices into `Profile.launches`; None: added or removed.

    `how` says what matched them: the full signature, the name alone (other
    template arguments), likeness under another name, or only their order.
    """

    kernel: str
    old: int | None
    new: int | None
    how: How = "signature"

    @property
    def matched(self) -> bool:
        """True if both sides have it."""
        return self.old is not None and self.new is not None

    def of(self, old: Profile, new: Profile) -> tuple[Launch | None, Launch | None]:
        """The launches."""
        return (
            old.launches[self.old] if self.old is not None else None,
            new.launches[self.new] if self.new is not None else None,
        )


class Combined(NamedTuple):
    """A counter over all launches of a profile; `rule` is empty for a single launch.

    `derived`: as in `Reading`, for at least one launch.
    """

    value: Number
    unit: str
    ncu: str
    rule: str = ""
    spread: Spread | None = None
    derived: bool = False


def seconds_of(launch: Launch) -> float | None:
    """A launch's duration under the profiler, in seconds; None if it has none."""
    return _value(read(launch, "duration"))


def kernel_seconds(profile: Profile) -> float | None:
    """All measured launches' durations under the profiler, added up, in seconds.

    None if one of them lacks it, or nothing was measured.
    """
    found = [seconds_of(launch) for launch in profile.launches if launch.profiled]
    known = [seconds for seconds in found if seconds is not None]
    return sum(known) if known and len(known) == len(found) else None


def metric_sum(profile: Profile, name: str) -> float | None:
    """A metric over all measured launches, added up; None if one of them lacks it."""
    found = [launch.metrics.get(name) for launch in profile.launches if launch.profiled]
    known = [float(each.value) for each in found if each and not isinstance(each.value, str)]
    return sum(known) if known and len(known) == len(found) else None


def value_of(launch: Launch, counter: str) -> Number | None:
    """A counter's value in one launch; None if it is missing."""
    reading = readings_of(launch)[counter]
    return reading.value if isinstance(reading, Reading) else None


def main_launch(profile: Profile) -> Launch | None:
    """The measured launch with the largest weight, to represent a profile."""
    launches = [launch for launch in profile.launches if launch.profiled]
    if not launches:
        return None
    weights, __ = weights_of(launches)
    return launches[max(range(len(launches)), key=lambda n: weights[n])]


def weights_of(launches: Sequence[Launch]) -> tuple[list[float], str]:
    """The weight of each launch, and the name of the weights: ``duration`` or ``instructions``.

    Where a duration is missing (older captures, the emulator), instructions take its place,
    so that a kernel that only clears a buffer never represents the others. If those are missing
    too, weights are equal, and the name is empty.
    """
    for counter, word in (("duration", "duration"), ("instructions", "instructions")):
        found = [_value(read(launch, counter)) for launch in launches]
        known = [value for value in found if value is not None]
        if len(known) == len(found) and any(known):
            return known, word
    return [1.0] * len(launches), ""


def combine(profile: Profile, speaker: int | None = None) -> Mapping[str, Combined | Missing]:
    """Every catalog counter over all profiled launches, by id. Shared, and so read-only.

    `speaker` is the position of the launch whose values are used if there is neither sum nor mean;
    None: the launch with the largest weight.
    """
    # One launch always represents itself.
    several = sum(launch.profiled for launch in profile.launches) > 1
    return _combine(profile, speaker) if several and speaker is not None else _combined(profile)


def _combine(profile: Profile, speaker: int | None = None) -> Mapping[str, Combined | Missing]:
    launches = [launch for launch in profile.launches if launch.profiled]
    if not launches:
        reason = Missing(_("no launch of this profile has counters"))
        return {counter.id: reason for counter in catalog()}
    weights, word = weights_of(launches)
    heaviest = launches[max(range(len(launches)), key=lambda n: weights[n])]
    longest = _("of the longest launch, {kernel}")
    largest = _("of the largest launch, {kernel}")
    rule = (longest if word == "duration" else largest).format(kernel=heaviest.kernel)
    chosen = heaviest
    if speaker is not None and profile.launches[speaker].profiled:
        chosen = profile.launches[speaker]
        rule = _("of {kernel}").format(kernel=chosen.kernel)
    weighted, readings = _Weighted(launches, weights, word), readings_of(chosen)
    out: dict[str, Combined | Missing] = {}
    for counter in catalog():
        if len(launches) > 1 and counter.over_launches != "longest":
            out[counter.id] = weighted.combine(counter)
            continue
        one = readings[counter.id]
        if isinstance(one, Reading):
            ranges = spread(chosen, counter) if chosen.spreads else None
            out[counter.id] = Combined(
                *(one.value, one.unit, one.ncu, rule if len(launches) > 1 else ""),
                spread=ranges,
                derived=one.derived,
            )
        else:
            out[counter.id] = one
    return out


class _Weighted:
    """Launches of one profile with their weights."""

    def __init__(self, launches: Sequence[Launch], weights: Sequence[float], word: str) -> None:
        self._launches, self._weights, self._word = launches, weights, word

    def combine(self, counter: Counter) -> Combined | Missing:
        """The counter's sum or mean over the launches."""
        readings = [read(launch, counter) for launch in self._launches]
        weights, word = self._weights, self._word
        below = [_value(read(launch, counter.below)) or 0.0 for launch in self._launches]
        if all(below) and counter.below != "duration":
            weights, word = below, catalog()[counter.below].phrase
        known: list[tuple[Reading, float]] = []
        number = 0
        for launch, reading, weight in zip(self._launches, readings, weights, strict=True):
            if isinstance(reading, Reading):
                known.append((reading, weight))
                number += launch.samples
            elif not reading.undefined:
                return Missing(
                    _("launch {index} ({kernel}): {reason}").format(
                        index=launch.index, kernel=launch.kernel, reason=told(reading.reason)
                    )
                )
        if not known:
            first = readings[0]
            return first if isinstance(first, Missing) else Missing(_("no launch has it"))
        ncu, derived = known[0][0].ncu, any(reading.derived for reading, __ in known)
        several = _("{known} launches").format(known=number)
        whole = sum(weight for __, weight in known)
        total = sum(reading.value for reading, __ in known)
        if len(known) == 1:
            at = next(n for n, reading in enumerate(readings) if isinstance(reading, Reading))
            value, rule = total, _("of {kernel}").format(kernel=self._launches[at].kernel)
        elif counter.over_launches == "sum":
            value, rule = total, _("sum of {several}").format(several=several)
        elif not word or not whole:
            value, rule = total / len(known), _("plain mean of {several}").format(several=several)
        else:
            value = sum(reading.value * weight for reading, weight in known) / whole
            rule = _("mean of {several}, by {word}").format(several=several, word=word)
        return Combined(value, counter.unit, ncu, rule, derived=derived)


def _value(reading: Reading | Missing) -> float | None:
    return None if isinstance(reading, Missing) else float(reading.value)


def multiplied(launch: Launch, times: int) -> Launch:
    """Several launches like this one as a single one: values that add over launches are summed.

    Warp samples stay as they are: they only divide the time, and no further samples were taken.
    """
    if times == 1:
        return structs.replace(launch, samples=1)
    adding = {
        name for counter in catalog() if counter.over_launches == "sum" for name in counter.names
    }

    metrics, spreads = dict(launch.metrics), dict(launch.spreads)
    columns = dict(launch.instructions.columns)
    for name, metric in launch.metrics.items():
        if (name in adding or name.endswith(".sum")) and _SAMPLED not in name:
            if not isinstance(metric.value, str):
                metrics[name] = structs.replace(metric, value=metric.value * times)
            if found := spreads.get(name):
                low, median, high = (n * times for n in (found.low, found.median, found.high))
                spreads[name] = structs.replace(found, low=low, median=median, high=high)
    for name, column in columns.items():
        if _SAMPLED not in name:
            columns[name] = structs.replace(column, values=tuple(n * times for n in column.values))
    table = structs.replace(launch.instructions, columns=columns)
    return structs.replace(launch, samples=1, metrics=metrics, spreads=spreads, instructions=table)


def pair_launches(old: Sequence[Launch], new: Sequence[Launch]) -> tuple[LaunchPair, ...]:
    """Match launches: by signature, by name, by likeness, then the longest of the rest.

    1. The n-th launch of a signature (template arguments included) and configuration with the n-th
       of the same; then with any configuration.
    2. Equal names whose template arguments differ only in number types and sizes; then in any way,
       where each side has one such launch left.
    3. A kernel under another name: if both sides have equally many, those whose names are most
       alike; then those whose name and work (instruction mix, threads, duration) are alike, the
       most alike first. Then equal names in one configuration.
    4. Where equally many are left on both sides, between the same two kernels or overall: in order,
       if all have the same shape, no time, or equally many samples; else the longest of either
       side, if both are among them. The rest was added or removed.
    """
    matching = _Matching(old, new)
    matching.same("signature", lambda x: (x.workload, x.kernel, x.signature, *x.config))
    matching.same("signature", lambda x: (x.workload, x.kernel, x.signature))
    matching.same("name", lambda x: (x.workload, x.kernel, typeless(x.signature), *x.config))
    matching.same("name", lambda x: (x.workload, x.kernel, typeless(x.signature)), even=True)
    matching.same("name", lambda x: (x.workload, x.kernel), alone=True)
    matching.alike()
    matching.same("name", lambda x: (x.workload, x.kernel, *x.config), even=True)
    matching.same("name", lambda x: (x.workload, x.kernel), alone=True)
    matching.in_turn(gaps_of(matching.pairs, matching.left, matching.right))
    matching.in_turn([(tuple(matching.left), tuple(matching.right))])
    found = matching.pairs
    found += [
        LaunchPair(kernel=old[a].kernel, old=a, new=None, how="removed") for a in matching.left
    ]
    found += [
        LaunchPair(kernel=new[b].kernel, old=None, new=b, how="added") for b in matching.right
    ]
    found.sort(key=lambda pair: (pair.old is None, pair.old or 0, pair.new or 0))
    return tuple(found)


def gaps_of(
    pairs: Sequence[LaunchPair], left: Sequence[int], right: Sequence[int]
) -> list[tuple[list[int], list[int]]]:
    """Launches of both sides without a partner, by the two pairs that they lie between."""
    out: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    whole = [(p.old, p.new) for p in pairs if p.old is not None and p.new is not None]
    for side, own in enumerate((left, right)):
        known = sorted((pair[side], n) for n, pair in enumerate(whole))
        for at in own:
            place = bisect(known, (at, -1))
            ends = [-1, *(n for __, n in known), -1][place : place + 2]
            out[tuple(ends)][side].append(at)
    return list(out.values())


class _Matching:
    """Launches of two sides that have no partner yet, in order, and the pairs made so far."""

    def __init__(self, old: Sequence[Launch], new: Sequence[Launch]) -> None:
        self.old, self.new = old, new
        self.left, self.right = list(range(len(old))), list(range(len(new)))
        self.pairs: list[LaunchPair] = []

    def take(self, a: int, b: int, how: How) -> None:
        self.pairs.append(LaunchPair(kernel=self.new[b].kernel, old=a, new=b, how=how))
        self.left.remove(a)
        self.right.remove(b)

    def same(
        self,
        how: How,
        key: Callable[[Launch], Hashable],
        *,
        alone: bool = False,
        even: bool = False,
    ) -> None:
        """Match launches that have the same key, in order.

        `alone`: only if both sides have it once; `even`: only if both have it equally often.
        """
        before, after = by_key(self.old, self.left, key), by_key(self.new, self.right, key)
        for name, mine in before.items():
            others = after.get(name, [])
            if alone and (len(mine), len(others)) != (1, 1):
                continue
            if even and len(mine) != len(others):
                continue
            for a, b in zip(mine, others, strict=False):
                self.take(a, b, how)

    def in_turn(self, gaps: Iterable[tuple[Sequence[int], Sequence[int]]]) -> None:
        """Match the launches of one gap if both sides have equally many.

        In order if all have the same shape, no time, or equally many samples; otherwise only those
        that take longest.
        """
        (before, timed), (after, too) = weights_of(self.old), weights_of(self.new)
        for left, right in gaps:
            pairs = list(zip(left, right, strict=False))
            alike = all(self.old[a].config == self.new[b].config for a, b in pairs)
            often = [(self.old[a].samples, self.new[b].samples) for a, b in pairs]
            alike = alike or (max(often, default=(1, 1)) > (1, 1) and all(a == b for a, b in often))
            if timed and too and not alike:
                pairs = [(before.index(max(before)), after.index(max(after)))]
            for a, b in pairs if len(left) == len(right) else ():
                if a in left and b in right:
                    self.take(a, b, "order")

    def alike(self) -> None:
        """Match namesakes and similar kernels, down to `_ALIKE`; two kernels first by shape."""
        twins, best = self.namesakes(), dict[tuple[str, str], tuple[float, int, int]]()
        found = []
        for a, b in product(self.left, self.right):
            first, second = self.old[a], self.new[b]
            scored = likeness(first, second), -a, -b
            names = first.kernel, second.kernel
            if scored[0] >= _ALIKE or (scored[0] and names in twins):
                best[names] = max(scored, best.get(names, scored))
                found.append((names in twins, names, first.config == second.config, scored))
        found.sort(key=lambda x: (x[0], best[x[1]], *x[1:]), reverse=True)
        for *__, (like, a, b) in found:
            if -a in self.left and -b in self.right:
                self.take(-a, -b, "renamed" if like >= _ALIKE else "order")

    def namesakes(self) -> set[tuple[str, str]]:
        """Kernels, equally many on both sides, whose names are more alike than any others."""
        mine = Bag(self.old[at].kernel for at in self.left)
        others = Bag(self.new[at].kernel for at in self.right)
        like = {names: _names_alike(*names) for names in product(mine, others)}
        best = {
            (a, b)
            for (a, b), most in like.items()
            if all(most > n for (c, d), n in like.items() if (c == a) != (d == b))
        }
        return {x for x in best if len(mine) == len(others) and mine[x[0]] == others[x[1]]}


#: Compiled only when launches of two sides are paired, not for every command.
_NUMBERS = (
    r"\b(?:(?:unsigned )?(?:long long|long|int|short|char)|u?int\d+_t|(?:float|double|half|int)\d?"
    r"|__half2?|(?:__)?nv_bfloat16\d?|BFloat16|Half)\b|\b\d+u?l?l?\b"
)


def near(grid: Dim3, other: Dim3) -> bool:
    """True if launches in two grids are in the same class."""
    return abs(math.prod(grid) - math.prod(other)) <= _NEAR * math.prod(other)


def typeless(signature: str) -> str:
    """A signature without number types and sizes: ``f<float, 4>`` equals ``f<double, 2>``."""
    return re.sub(_NUMBERS, "#", signature)


def by_key(
    launches: Sequence[Launch], among: Iterable[int], key: Callable[[Launch], Hashable]
) -> dict[Hashable, list[int]]:
    """The positions of launches by a key, in order."""
    out: dict[Hashable, list[int]] = defaultdict(list)
    for position in among:
        out[key(launches[position])].append(position)
    return out


def likeness(a: Launch, b: Launch) -> float:
    """The likelihood (0-1) that two kernels are one that was renamed.

    It is the smaller of two likenesses: that of their names, and the mean for their work
    (instruction mix, threads, duration), as far as that is known.
    """
    if not (a.profiled and b.profiled) or a.workload != b.workload:
        return 0.0
    names = _names_alike(a.kernel.lower(), b.kernel.lower())
    if names < _ALIKE:
        return 0.0
    work = [_of_larger(_threads(a), _threads(b)), _of_larger(seconds_of(a), seconds_of(b))]
    mixes = _mix(a), _mix(b)
    if all(mixes):
        common = sum((mixes[0] & mixes[1]).values())
        work.append(common / max(mixes[0].total(), mixes[1].total()))
    known = [part for part in work if part is not None]
    return min(names, sum(known) / len(known)) if known else names


def _names_alike(a: str, b: str) -> float:
    """The common part (0-1) of two names; 1 if one only adds a word before or after."""
    short, long = sorted((a, b), key=len)
    if len(short) >= _WORD and (long.startswith(short) or long.endswith(short)):
        return 1.0
    return SequenceMatcher(None, a, b, autojunk=False).ratio()


def _threads(launch: Launch) -> float:
    return float(math.prod(max(extent, 1) for extent in (*launch.grid, *launch.block)))


def _of_larger(a: float | None, b: float | None) -> float | None:
    """The smaller of two values as a part of the larger."""
    return min(a, b) / max(a, b) if a and b else None


def _mix(launch: Launch) -> Bag[str]:
    """Instructions of the code, by operation."""
    words = (text.split() for text in launch.instructions.text)
    operations = (next((w for w in line if not w.startswith("@")), "") for line in words)
    return Bag(name.split(".")[0] for name in operations if name)


_Of = TypeVar("_Of", bound=Record)
_Found = TypeVar("_Found")
#: Large results are kept for as many launches as a ladder has: its page needs all of its steps, and
#: each step's page needs its own again.
LADDER = 32


class Recent(Generic[_Of, _Found]):
    """A function of a launch, or profile, that remembers its results.

    A step's page asks for both sides, its neighbours' pages for one of them again, a version's page
    for one launch only. Records are compared by identity: comparing two by value costs as much as
    is saved.

    Args:
        find: The function. Neither a record nor its result is ever changed, so results stay valid.
        most: The maximum number of records that it holds, if results are large. None: each result
            is kept for as long as other code holds its record, so that memory does not grow.
    """

    def __init__(self, find: Callable[[_Of], _Found], most: int | None = None) -> None:
        self._find = find
        self._most = most
        # By identity, which is unique while this record exists.
        self._known: dict[int, tuple[Callable[[], _Of | None], _Found]] = {}

    def __call__(self, record: _Of) -> _Found:
        """The function's result for a record."""
        name = id(record)
        known = self._known.get(name)
        if known is not None and known[0]() is record:
            return known[1]
        found = self._find(record)
        if self._most is None:
            there = weakref.ref(record, lambda _: self._known.pop(name, None))
            self._known[name] = there, found
            return found
        self._known[name] = lambda: record, found
        # A copy: another thread may add to it meanwhile.
        for oldest in tuple(self._known)[: -self._most]:
            self._known.pop(oldest, None)
        return found

    def forget(self) -> None:
        """Drop all results, so that a measurement starts without them."""
        self._known.clear()


#: Every counter of one launch.
readings_of = Recent(read_all)
#: All launches of a profile.
_combined = Recent(_combine)
