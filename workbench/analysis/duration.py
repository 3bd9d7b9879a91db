"""Duration split over hunks and stall reasons, by warp samples: an estimate with its error.

At a fixed interval the profiler records the state of one warp of each scheduler. A line's share of
a launch's samples, times the duration, is the time that warps spent on it. A sample lies on the
instruction that waits; it is charged to the line of the instruction that made it wait
(`workbench.analysis.blame`), and its own line is kept too. A wait at a barrier is charged to it if
a hunk changed it, otherwise to the late warps' work before it.

Samples are counts, so a share is known only to a sampling error: Wilson's interval
for each share, combined for sums and differences after R. G. Newcombe (1998). The interval covers
that error alone, not the run-to-run spread of the duration; it treats samples as independent, which
neighbouring ones are not quite. With fewer samples than `limit.LEAST_SAMPLES` on both sides
together, it always contains zero.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from workbench.analysis.attribution import Linked, in_order, names_of
from workbench.analysis.blame import UNITS, Account, Culprit, Debt, blame_launch
from workbench.analysis.limits.limit import LEAST_SAMPLES, UNSAMPLED
from workbench.analysis.placing import PartKey, Placed, Placing, Twins
from workbench.counters import Reading, read
from workbench.language import N_, _, told
from workbench.model import Estimate, Profile, Record

#: 95% of a normal distribution lies within this many standard deviations.
_Z = 1.959963984540054

METHOD = N_(
    "estimate: the share of the warp samples that a line is to blame for, "
    "times the duration; the 95% intervals cover only the sampling error"
)
#: Added if one side's instructions do not show which waits for which.
UNFOLLOWED = N_("; without SASS, time stays on the lines that waited")

#: The maximum number of paths kept for a part, and of lines of a queue on either end of one.
_PATHS, _ENDS = 4, 6


class StallDelta(Record, frozen=True):
    """Seconds of one warp state (catalog id, or ncu's name without its prefix)."""

    stall: str
    delta_s: float
    low_s: float
    high_s: float


class CodeLine(Record, frozen=True):
    """A line's number on either side (None: not there; 0: not known); `file` is the new side's."""

    old: int | None
    new: int | None
    file: str


class WaitPath(Record, frozen=True):
    """Time that warps waited on one line because of another, `via` a register or a queue."""

    stall: str
    waited: CodeLine
    blamed: CodeLine
    via: str
    delta_s: float


class TimePart(Linked, frozen=True):
    """Seconds that one part of the source change is linked to; stalls by size.

    `delta_s` is the time charged to its lines, `waited_s` the time that samples lay on them.
    `paths` are the largest parts of the charged time by pair of lines: the line that waited, and
    the line to blame.
    """

    delta_s: float
    low_s: float
    high_s: float
    stalls: tuple[StallDelta, ...]
    waited_s: float = 0.0
    paths: tuple[WaitPath, ...] = ()

    @property
    def error_s(self) -> float:
        """The longer side of the interval."""
        return Estimate(value=self.delta_s, low=self.low_s, high=self.high_s).error

    @property
    def certain(self) -> bool:
        """True if the sign is certain despite the sampling error."""
        return not self.low_s <= 0.0 <= self.high_s


class TimeSplit(Record, frozen=True):
    """The change of the profiled duration."""

    old_s: float
    new_s: float
    delta_s: float
    samples_old: int
    samples_new: int
    parts: tuple[TimePart, ...]
    method: str = METHOD


class _Whole(NamedTuple):
    """The whole that a launch's samples share; `unit` is the signed time of one of `UNITS`."""

    sign: int
    duration: Fraction
    total: int
    unit: Fraction


# Number of a whole (hashing its fraction each time would cost more than the sum) -> units
_Amounts = dict[int, int]


def wilson(count: float, total: int) -> tuple[float, float]:
    """Wilson's 95% score interval of a share (E. B. Wilson, 1927), valid at 0 and 1 too."""
    share, z2 = count / total, _Z * _Z
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def _interval(shares: _Amounts, wholes: Sequence[_Whole]) -> tuple[float, float, float]:
    """(sum, low, high) of signed shares times durations."""
    value = float(sum(wholes[number].unit * units for number, units in shares.items()))
    down = up = 0.0
    # One share per launch and side: counts of the same launch add before the error is taken.
    for number, units in shares.items():
        sign, time, total, __ = wholes[number]
        low, high = wilson(units / UNITS, total)
        share, seconds = units / (UNITS * total), float(time)
        below, above = (share - low) * seconds, (high - share) * seconds
        down += (below if sign > 0 else above) ** 2
        up += (above if sign > 0 else below) ** 2
    low, high = value - math.sqrt(down), value + math.sqrt(up)
    if sum(shares.values()) < LEAST_SAMPLES * UNITS:
        return value, min(low, 0.0), max(high, 0.0)
    return value, low, high


class _Spent:
    """Time by part, state, launch and side, while it is added up."""

    def __init__(self, placing: Placing) -> None:
        self.placing = placing
        #: The launches' wholes: each has its own error, however alike they are.
        self.wholes: list[_Whole] = []
        self.blamed: dict[PartKey, dict[str, _Amounts]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(int))
        )
        self.waited: dict[PartKey, Fraction] = defaultdict(Fraction)
        # Entry of `placed` -> seconds for which it is to blame, or waited
        self.lines: dict[int, Fraction] = defaultdict(Fraction)
        # (entry of `placed` that waited, entry to blame, state) -> seconds by `via`
        self.paths: dict[tuple[int, int, str], dict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )

    def add(self, side: int, launch: int, blame: Account, whole: _Whole) -> None:
        """Place all samples of one launch."""
        places = self.placing.rows(side, launch)
        waited: dict[int, int] = defaultdict(int)
        spent: dict[tuple[int, str], int] = defaultdict(int)
        for state, rows in blame.own.items():
            for row, count in rows.items():
                waited[places[row]] += count
                spent[places[row], state] += count * UNITS
        for debt in blame.debts:
            for row, count in debt.waited.items():
                waited[places[row]] += count
            causes = self._causes(debt, places)
            for cause in causes:
                spent[places[cause.row], debt.state] += cause.units
            self._follow(debt, causes, places, whole)
        number = len(self.wholes)
        self.wholes.append(whole)
        # Integers are added up first: a fraction costs a hundred times as much.
        on_line: dict[int, int] = defaultdict(int)
        on_part: dict[PartKey, int] = defaultdict(int)
        for (place, state), units in spent.items():
            self.blamed[self.placing.placed[place].key][state][number] += units
            on_line[place] += units
        for place, count in waited.items():
            on_part[self.placing.placed[place].key] += count * UNITS
            on_line[place] += 0
        for place, units in on_line.items():
            self.lines[place] += whole.unit * units
        for key, units in on_part.items():
            self.waited[key] += whole.unit * units

    def _causes(self, debt: Debt, places: list[int]) -> tuple[Culprit, ...]:
        """The instructions to blame: a barrier that no hunk changed passes the blame on."""
        if not debt.passed:
            return debt.causes
        placed = self.placing.placed
        changed = any(placed[places[cause.row]].key.link == "hunk" for cause in debt.causes)
        return debt.causes if changed else debt.passed

    def _follow(
        self, debt: Debt, causes: tuple[Culprit, ...], places: list[int], whole: _Whole
    ) -> None:
        sign, seconds, total, __ = whole
        waited: dict[int, int] = defaultdict(int)
        blamed: dict[int, tuple[int, str]] = {}
        for row, count in debt.waited.items():
            waited[places[row]] += count
        for cause in causes:
            units, via = blamed.get(places[cause.row], (0, cause.via))
            blamed[places[cause.row]] = units + cause.units, via
        per_unit = sign * float(seconds) / total / UNITS / debt.samples
        ends = sorted(waited.items(), key=lambda item: -item[1])[:_ENDS]
        origins = sorted(blamed.items(), key=lambda item: -item[1][0])[:_ENDS]
        for end, count in ends:
            for origin, (units, via) in origins:
                if origin != end:
                    self.paths[end, origin, debt.state][via] += per_unit * units * count


def split_time(old: Profile, new: Profile, placing: Placing | None = None) -> TimeSplit | str:
    """Split the change in duration over the parts of attribution and the warp states.

    `placing`: the placement of their lines, if already computed. Returns a sentence if the split
    lacks some data.
    """
    spent = _Spent(placing or Placing(old, new))
    durations, counts = [Fraction(0), Fraction(0)], [0, 0]
    short, which = [Fraction(0), Fraction(0)], ""
    followed = True
    for side, profile in ((0, old), (1, new)):
        for number, launch in enumerate(profile.launches):
            if not launch.profiled:
                continue
            where = _((N_("the old side's {kernel}"), N_("the new side's {kernel}"))[side]).format(
                kernel=launch.kernel
            )
            reading = read(launch, "duration")
            if not isinstance(reading, Reading):
                return _("time cannot be split: {where} has no duration ({reason})").format(
                    where=where, reason=told(reading.reason)
                )
            blame = blame_launch(launch)
            duration = Fraction(reading.value)
            durations[side] += duration
            if not blame.samples:
                short[side] += duration
                which = which or where
                continue
            counts[side] += blame.samples
            followed = followed and blame.known
            sign = 1 if side else -1
            unit = sign * duration / (UNITS * blame.samples)
            spent.add(side, number, blame, _Whole(sign, duration, blame.samples, unit))
    if any(part > UNSAMPLED * whole for part, whole in zip(short, durations, strict=True)):
        return _("time cannot be split: {which} has no warp samples per line").format(which=which)
    lines: dict[PartKey, list[tuple[Fraction, Placed]]] = defaultdict(list)
    for place, amount in spent.lines.items():
        placed = spent.placing.placed[place]
        lines[placed.key].append((amount, placed))
    paths = _paths(spent, old, new)
    return TimeSplit(
        old_s=float(durations[0]),
        new_s=float(durations[1]),
        delta_s=float(durations[1] - durations[0]),
        samples_old=counts[0],
        samples_new=counts[1],
        parts=(
            *(
                _part(key, names_of(lines[key]), spent, paths[key])
                for key in sorted(lines, key=in_order)
            ),
            *([_unsampled(float(short[1] - short[0]))] if any(short) else []),
        ),
        method=_(METHOD) if followed else _(METHOD) + _(UNFOLLOWED),
    )


def _unsampled(delta: float) -> TimePart:
    """The part for launches without a sample: only their durations are known."""
    return TimePart(
        link="elsewhere",
        hunks=(),
        symbols=(),
        note="no-samples",
        delta_s=delta,
        low_s=delta,
        high_s=delta,
        stalls=(),
        waited_s=delta,
    )


def _paths(spent: _Spent, old: Profile, new: Profile) -> dict[PartKey, list[WaitPath]]:
    """The largest paths from a waiting line to a line of each part."""
    found: dict[PartKey, list[tuple[float, tuple[int, int, str], str]]] = defaultdict(list)
    placed = spent.placing.placed
    for path, ways in spent.paths.items():
        seconds = sum(ways.values())
        via = max(ways, key=lambda name: abs(ways[name]))
        found[placed[path[1]].key].append((seconds, path, via))
    out: dict[PartKey, list[WaitPath]] = defaultdict(list)
    for key, ends in found.items():
        ends.sort(key=lambda entry: (-abs(entry[0]), entry[1]))
        for seconds, (end, origin, state), via in ends[:_PATHS]:
            waited, blamed = (_line(placed[n].twins, old, new) for n in (end, origin))
            out[key].append(
                WaitPath(stall=state, waited=waited, blamed=blamed, via=via, delta_s=seconds)
            )
    return out


def _line(unit: Twins, old: Profile, new: Profile) -> CodeLine:
    a, b = unit
    sources, line = (new.sources, b) if b is not None else (old.sources, a)
    known = line is not None and 0 <= line[0] < len(sources)
    return CodeLine(
        old=a[1] if a is not None else None,
        new=b[1] if b is not None else None,
        file=sources[line[0]].path if line is not None and known else "",
    )


def _part(
    key: PartKey, symbols: tuple[str, ...], spent: _Spent, paths: Sequence[WaitPath]
) -> TimePart:
    stalls = []
    every: _Amounts = defaultdict(int)
    for stall, own in spent.blamed[key].items():
        value, low, high = _interval(own, spent.wholes)
        stalls.append(StallDelta(stall=stall, delta_s=value, low_s=low, high_s=high))
        for number, units in own.items():
            every[number] += units
    whole = _interval(every, spent.wholes)
    return TimePart(
        link=key.link,
        hunks=key.hunks,
        symbols=symbols,
        note=key.note,
        delta_s=whole[0],
        low_s=whole[1],
        high_s=whole[2],
        stalls=tuple(sorted(stalls, key=lambda s: (-abs(s.delta_s), s.stall))),
        waited_s=float(spent.waited[key]),
        paths=tuple(paths),
    )
