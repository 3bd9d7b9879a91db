"""Several launches of one profile: how they make one number, and how they pair up.

A version may launch several kernels (im2col, then GEMM). Over its launches, counts
and times add; rates are means weighted by duration; what the compiler and the launch
fix (registers, block size) has neither sum nor mean, so the longest launch speaks.
Every number that was made this way says so in its `rule`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from workbench.counters import Counter, Missing, Reading, catalog, read, spread
from workbench.model import Launch, Number, Profile, Record, Spread


class LaunchPair(Record, frozen=True):
    """Launches that correspond: indices into `Profile.launches`; None: added or removed."""

    kernel: str
    old: int | None
    new: int | None


class Combined(NamedTuple):
    """A counter over all launches of a profile; `rule` is empty for a single launch."""

    value: Number
    unit: str
    ncu: str
    rule: str = ""
    spread: Spread | None = None


def kernel_seconds(profile: Profile) -> float | None:
    """All measured launches' durations under the profiler, added up, in seconds.

    None where one of them lacks it, or nothing was measured.
    """
    found = [read(launch, "duration") for launch in profile.launches if launch.profiled]
    known = [float(each.value) for each in found if isinstance(each, Reading)]
    return sum(known) if known and len(known) == len(found) else None


def machine_code(old: Profile, new: Profile) -> tuple[float, float] | None:
    """Machine instructions that the emulator estimated of both; None where one has no estimate."""
    sums = []
    for profile in (old, new):
        launches = [launch.metrics for launch in profile.launches if launch.profiled]
        found = [metrics.get("ptx__machine_inst_estimate") for metrics in launches]
        known = [float(each.value) for each in found if each and not isinstance(each.value, str)]
        if not known or len(known) < len(found):
            return None
        sums.append(sum(known))
    return sums[0], sums[1]


def combine(profile: Profile) -> dict[str, Combined | Missing]:
    """Every catalog counter over all profiled launches, by id."""
    launches = [launch for launch in profile.launches if launch.profiled]
    if not launches:
        reason = Missing("no launch of this profile was profiled")
        return {counter.id: reason for counter in catalog()}
    duration = catalog()["duration"]
    weights = [_value(read(launch, duration)) for launch in launches]
    return {counter.id: _combine(counter, launches, weights) for counter in catalog()}


def _combine(
    counter: Counter, launches: list[Launch], weights: list[float | None]
) -> Combined | Missing:
    readings = [read(launch, counter) for launch in launches]
    if len(launches) == 1:
        one = readings[0]
        if isinstance(one, Missing):
            return one
        return Combined(*one, spread=spread(launches[0], counter))
    how = counter.over_launches
    if how == "longest":
        longest = max(range(len(launches)), key=lambda i: weights[i] or 0.0)
        one = readings[longest]
        if isinstance(one, Missing):
            return one
        return Combined(*one, rule=f"of the longest launch, {launches[longest].kernel}")
    known: list[tuple[Reading, float | None]] = []
    for launch, reading, weight in zip(launches, readings, weights, strict=True):
        if isinstance(reading, Reading):
            known.append((reading, weight))
        elif not reading.undefined:
            return Missing(f"launch {launch.index} ({launch.kernel}): {reading.reason}")
    if not known:
        first = readings[0]
        return first if isinstance(first, Missing) else Missing("no launch holds it")
    ncu = known[0][0].ncu
    several = "1 launch" if len(known) == 1 else f"{len(known)} launches"
    if how == "sum":
        total = sum(reading.value for reading, _ in known)
        return Combined(total, counter.unit, ncu, f"sum of {several}")
    if any(weight is None for _, weight in known):
        mean = sum(reading.value for reading, _ in known) / len(known)
        return Combined(mean, counter.unit, ncu, f"plain mean of {several}")
    whole = sum(weight or 0.0 for _, weight in known)
    mean = sum(reading.value * (weight or 0.0) for reading, weight in known) / (whole or 1.0)
    return Combined(mean, counter.unit, ncu, f"mean of {several}, by duration")


def _value(reading: Reading | Missing) -> float | None:
    return None if isinstance(reading, Missing) else float(reading.value)


def pair_launches(old: tuple[Launch, ...], new: tuple[Launch, ...]) -> tuple[LaunchPair, ...]:
    """Match launches: the n-th of a kernel name with the n-th of the same name.

    Names that only one side has are matched in order if both sides have as many of
    them (a kernel that was renamed); otherwise they stand as removed or added.
    """
    waiting: dict[str, list[int]] = defaultdict(list)
    for position, launch in enumerate(new):
        waiting[launch.kernel].append(position)
    pairs: list[LaunchPair] = []
    left: list[int] = []
    for position, launch in enumerate(old):
        if waiting[launch.kernel]:
            match = waiting[launch.kernel].pop(0)
            pairs.append(LaunchPair(kernel=launch.kernel, old=position, new=match))
        else:
            left.append(position)
    right = sorted(position for rest in waiting.values() for position in rest)
    if len(left) == len(right):
        pairs += [
            LaunchPair(kernel=new[b].kernel, old=a, new=b) for a, b in zip(left, right, strict=True)
        ]
    else:
        pairs += [LaunchPair(kernel=old[a].kernel, old=a, new=None) for a in left]
        pairs += [LaunchPair(kernel=new[b].kernel, old=None, new=b) for b in right]
    pairs.sort(key=lambda pair: (pair.old is None, pair.old or 0, pair.new or 0))
    return tuple(pairs)
