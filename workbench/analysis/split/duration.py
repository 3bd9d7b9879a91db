"""Duration split over hunks and stall reasons, by warp samples: an estimate with its error.

At a fixed interval the profiler notes what one warp of each scheduler does. A line's
share of a launch's samples, times the duration, is the time that warps spent on it.
Samples are counts, so a share is known only to a sampling error: Wilson's interval
for each share, combined for sums and differences after R. G. Newcombe (1998). The
interval speaks of that error alone, not of the run-to-run spread of the duration; it
takes samples as independent, which neighbouring ones are not quite. Where fewer samples
than `stalls.LEAST_SAMPLES` stand on both sides together, it holds zero whatever they say.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

from workbench.analysis.aggregate import pair_launches
from workbench.analysis.source.files import SourceDiff, compare_sources
from workbench.analysis.split.attribution import Linked, in_order, names_of
from workbench.analysis.split.placing import PartKey, Placed, Placing
from workbench.analysis.stalls import LEAST_SAMPLES
from workbench.counters import Reading, catalog, read
from workbench.model import Launch, Profile, Record

STALLED = "smsp__pcsamp_warps_issue_stalled_"
#: 95% of a normal distribution lie within this many standard deviations.
_Z = 1.959963984540054

METHOD = (
    "estimate: a line's share of the warp samples times the duration; "
    "intervals are 95% and cover the sampling error alone"
)


class StallDelta(Record, frozen=True):
    """Seconds of one warp state (catalog id, or ncu's name without its prefix)."""

    stall: str
    delta_s: float
    low_s: float
    high_s: float


class TimePart(Linked, frozen=True):
    """Seconds that one part of the source change is linked to; stalls by size."""

    delta_s: float
    low_s: float
    high_s: float
    stalls: tuple[StallDelta, ...]

    @property
    def certain(self) -> bool:
        """Whether the sampling error leaves the sign in no doubt."""
        return not self.low_s <= 0.0 <= self.high_s


class TimeSplit(Record, frozen=True):
    """The change of the profiled duration.."""

    old_s: float
    new_s: float
    delta_s: float
    samples_old: int
    samples_new: int
    parts: tuple[TimePart, ...]
    method: str = METHOD


# One count's contribution: (sign, duration of the launch, samples on the part, all samples)
_Term = tuple[int, Fraction, Fraction, int]


def wilson(count: float, total: int) -> tuple[float, float]:
    """Wilson's 95% score interval of a share (E. B. Wilson, 1927), right at 0 and 1 as well."""
    share, z2 = count / total, _Z * _Z
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def _interval(terms: list[_Term]) -> tuple[float, float, float]:
    """(sum, low, high) of signed shares times durations."""
    value = float(sum(sign * time * count / total for sign, time, count, total in terms))
    # One share per launch and side: counts of the same launch add before the error is taken.
    shares: dict[tuple[int, Fraction, int], Fraction] = defaultdict(Fraction)
    for sign, time, count, total in terms:
        shares[sign, time, total] += count
    down = up = 0.0
    for (sign, time, total), count in shares.items():
        low, high = wilson(float(count), total)
        share, seconds = float(count / total), float(time)
        below, above = (share - low) * seconds, (high - share) * seconds
        down += (below if sign > 0 else above) ** 2
        up += (above if sign > 0 else below) ** 2
    low, high = value - math.sqrt(down), value + math.sqrt(up)
    if sum(shares.values()) < LEAST_SAMPLES:
        return value, min(low, 0.0), max(high, 0.0)
    return value, low, high


def _samples(launch: Launch) -> dict[str, dict[tuple[int, int], int]]:
    """Warp state -> line -> samples."""
    table = launch.instructions
    out: dict[str, dict[tuple[int, int], int]] = {}
    for name, column in table.columns.items():
        if not name.startswith(STALLED) or name.endswith("_not_issued"):
            continue
        counter = catalog().by_line(name)
        state = counter.id if counter is not None else name.removeprefix(STALLED)
        lines: dict[tuple[int, int], int] = out.setdefault(state, defaultdict(int))
        for row, value in zip(column.rows, column.values, strict=True):
            lines[table.file[row], table.line[row]] += int(value)
    return out


def split_time(old: Profile, new: Profile, diff: SourceDiff | None = None) -> TimeSplit | str:
    """Split the change in duration over the parts of attribution and the warp states.

    Returns:
        The split, or a sentence that says what is missing for it.
    """
    launches = pair_launches(old.launches, new.launches)
    if diff is None:
        diff = compare_sources(old, new, launches)
    placing = Placing(old, new, diff, launches)
    terms: dict[PartKey, dict[str, list[_Term]]] = defaultdict(lambda: defaultdict(list))
    seconds: dict[int, Fraction] = defaultdict(Fraction)  # by number of a line pair
    durations, counts = [Fraction(0), Fraction(0)], [0, 0]
    for side, profile in ((0, old), (1, new)):
        for number, launch in enumerate(profile.launches):
            if not launch.profiled:
                continue
            where = f"the {'new' if side else 'old'} side's {launch.kernel}"
            reading = read(launch, "duration")
            if not isinstance(reading, Reading):
                return f"time cannot be split: {where} has no duration ({reading.reason})"
            states = _samples(launch)
            total = sum(sum(lines.values()) for lines in states.values())
            if not total:
                return f"time cannot be split: {where} has no warp samples by line"
            duration = Fraction(reading.value)
            durations[side] += duration
            counts[side] += total
            for state, sampled in states.items():
                for line, count in sampled.items():
                    place = placing.place(side, number, line)
                    sign = 1 if side else -1
                    term = (sign, duration, Fraction(count), total)
                    terms[placing.placed[place].key][state].append(term)
                    seconds[place] += sign * duration * count / total
    lines: dict[PartKey, list[tuple[Fraction, Placed]]] = defaultdict(list)
    for place, amount in seconds.items():
        lines[placing.placed[place].key].append((amount, placing.placed[place]))
    return TimeSplit(
        old_s=float(durations[0]),
        new_s=float(durations[1]),
        delta_s=float(durations[1] - durations[0]),
        samples_old=counts[0],
        samples_new=counts[1],
        parts=tuple(
            _part(key, names_of(lines[key]), terms[key]) for key in sorted(terms, key=in_order)
        ),
    )


def _part(key: PartKey, symbols: tuple[str, ...], states: dict[str, list[_Term]]) -> TimePart:
    stalls = []
    for stall, terms in states.items():
        value, low, high = _interval(terms)
        stalls.append(StallDelta(stall=stall, delta_s=value, low_s=low, high_s=high))
    whole = _interval([term for terms in states.values() for term in terms])
    return TimePart(
        link=key.link,
        hunks=key.hunks,
        symbols=symbols,
        note=key.note,
        delta_s=whole[0],
        low_s=whole[1],
        high_s=whole[2],
        stalls=tuple(sorted(stalls, key=lambda s: (-abs(s.delta_s), s.stall))),
    )
