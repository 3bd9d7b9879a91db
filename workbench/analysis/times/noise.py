"""The noise of a number without a change of the code, and the test that it moved more.

Counters of repeated captures (``--repeat``, or several launches of one kernel in a report)
have their own spread. For all others the catalog states the noise of two captures of one
kernel: a relative and an absolute floor.

Some of the emulator's counts are chance in part: it runs one order of the warps, and a chip has
many. It marks the instructions whose executions depend on that order (`model.ByTiming`). From a
profile with such marks this module derives the `Chance` of every counter that counts them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from msgspec import structs

from workbench.analysis.aggregate import Combined, combine
from workbench.counters import DERIVED_NOISE, Counter, Missing, catalog
from workbench.language import _
from workbench.model import (
    Column,
    Estimate,
    Launch,
    Metric,
    Number,
    Profile,
    Record,
    SourceFile,
    Spread,
)
from workbench.units import listed, quantity

#: Even if repeated captures lie close together, a change below this share of the default noise does
#: not count: captures of one session share their clocks and their addresses.
_SHARE = 0.1
#: Ratio new/old of sums over paired launches if any one pair is left out: least, greatest.
Steady = tuple[float, float]


def noise_of(counter: Counter, old: Number, new: Number, derived: bool = False) -> float:
    """The largest change, in the counter's unit, that two captures of the same kernel explain.

    `derived`: one side was derived, with an error of up to the share `DERIVED_NOISE`.
    """
    scale = max(abs(old), abs(new))
    # 1e-9: counters without noise are still ratios of floats.
    noise = max(counter.noise, DERIVED_NOISE if derived else 1e-9) * scale
    if counter.unit == "sample":
        noise = max(noise, 2.0 * math.sqrt(old + new))
    return max(noise, counter.floor)


def left_noise(
    counter: Counter,
    old: Number,
    new: Number,
    spreads: tuple[Spread | None, Spread | None] = (None, None),
    derived: bool = False,
    steady: Steady | None = None,
) -> bool:
    """True if a change is larger than its noise.

    `spreads` are those of repeated captures of either side, if there are any; `derived`: as for
    `noise_of`. Launches with different inputs are far apart on each side, which is not noise: if
    they are paired, `steady` says whether they moved without any one of them.
    """
    noise, delta = noise_of(counter, old, new, derived), abs(new - old)
    before, after = spreads
    if before and after and min(before.n, after.n) >= 2:
        if _apart(before, after):
            return delta > _SHARE * noise
        low, high = steady or (1.0, 1.0)
        share = noise / (max(abs(old), abs(new)) or 1.0)
        return low > 1.0 + share or high < 1.0 - share
    return delta > noise


def _apart(a: Spread, b: Spread) -> bool:
    """True if two spreads are apart after both are widened, because they rest on few captures.

    The range of n captures holds the next one only with probability (n - 1)/(n + 1): half of the
    time for three. So each end is moved outwards by 2/(n - 1) of the range.
    """
    more = [2.0 * (each.high - each.low) / (each.n - 1) for each in (a, b)]
    return a.high + more[0] < b.low - more[1] or b.high + more[1] < a.low - more[0]


# --- The range of a chip's possible counts --------------------------------------------------------
#
# It is unknown how often marked lines would run: in recorded kernels with such lines, a chip took
# from a twentieth to eight times as many wavefronts as the emulator, and hundreds of times as many
# instructions if ptxas makes an atomic a loop (`moments` v1). So if they hold more than `MATERIAL`
# of a counter, any number above the count of the other lines is possible. If they hold less, they
# would have to run a hundred times as often to double it; up to `_OFTEN` times is assumed possible.

#: From this part of a counter on, the share of such lines in it matters.
MATERIAL = 0.01
_OFTEN = 10.0
#: A factor so large that a larger one changes no verdict. Not infinity, which has no tenth.
_ANY = 1e6
#: Sums of floats are equal within this part.
_EQUAL = 1e-9


class Chance(Record, frozen=True):
    """The range of a chip's possible counts for one number of the emulator.

    `low` and `high` are in the counter's unit. `words` name the lines that cause it, as a clause.
    """

    low: float
    high: float
    words: str


class Chances(Record, frozen=True):
    """The ranges of two compared sides; None: the side is certain.

    `together`: the same code ran on both, so chance makes no difference between them.
    """

    old: Chance | None
    new: Chance | None
    together: bool = False


class CountedSide(NamedTuple):
    """One side: a profile, its counters by `combine`, and the launch that represents it."""

    profile: Profile
    values: Mapping[str, Combined | Missing]
    speaker: int | None = None


def of_both(old: CountedSide, new: CountedSide) -> dict[str, Chances]:
    """The ranges of two sides, by the ids of counters that are uncertain on either side."""
    before, after = chances(*old), chances(*new)
    together = _same_code(old.profile, new.profile)
    return {
        name: Chances(old=before.get(name), new=after.get(name), together=together)
        for name in {**before, **after}
    }


def chances(
    profile: Profile, values: Mapping[str, Combined | Missing], speaker: int | None = None
) -> dict[str, Chance]:
    """The range of each counter of a `CountedSide` in which marked instructions are counted."""
    if not _marked(profile):
        return {}
    bare = structs.replace(profile, launches=tuple(map(_bare, profile.launches)))
    rest = combine(bare, speaker)
    out = {}
    for counter in catalog():
        value = values[counter.id]
        # Only the compiler and the launch decide counters that have neither sum nor mean.
        if isinstance(value, Combined) and counter.over_launches != "longest":
            if counter.over_launches == "sum":
                found = _of_sum(profile, value.ncu, value.value, _number(rest[counter.id]))
            else:
                found = _of_mean(profile, counter, value, _number(rest[counter.id]))
            if found is not None:
                out[counter.id] = found
    return out


def _marked(profile: Profile) -> bool:
    return any(launch.by_timing is not None for launch in profile.launches)


def _same_code(old: Profile, new: Profile) -> bool:
    """True if the same instructions ran in launches of the same shape."""
    shapes = [[(x.config, x.instructions.text) for x in profile.launches] for profile in (old, new)]
    return _marked(old) and shapes[0] == shapes[1]


def _number(value: Combined | Missing) -> Number | None:
    return value.value if isinstance(value, Combined) else None


def _of_sum(profile: Profile, ncu: str, value: Number, rest: Number | None) -> Chance | None:
    rest = 0 if rest is None else rest
    most = max(abs(value), abs(rest))
    if abs(value - rest) <= _EQUAL * most:
        return None
    share = abs(value - rest) / most
    often = _ANY if share > MATERIAL else _OFTEN
    low, high = sorted((float(rest), rest + often * (value - rest)))
    who, run, hold = _who(profile, ncu)
    part = _("{hold} {share} of the count").format(hold=hold, share=quantity(100 * share, "%"))
    return Chance(
        low=low,
        high=high,
        words=_("{who} {run} a number of times that depends on timing, and {part}").format(
            who=who, run=run, part=part
        ),
    )


def _of_mean(
    profile: Profile, counter: Counter, value: Combined, rest: Number | None
) -> Chance | None:
    """The range of a share or ratio: any value if marked instructions of unknown weight move it."""
    now = value.value
    if rest is not None and abs(now - rest) <= _EQUAL * abs(now):
        return None
    who, run, __ = _who(profile, value.ncu)
    words = _("{who} {run} a number of times that depends on timing").format(who=who, run=run)
    if rest is None or abs(now - rest) > max(noise_of(counter, now, rest), MATERIAL * abs(now)):
        high = 100.0 if counter.unit == "%" else _ANY * abs(now)
        return Chance(low=0.0, high=high, words=words)
    low, high = sorted((float(now), float(rest)))
    return Chance(low=low, high=high, words=words)


def _bare(launch: Launch) -> Launch:
    """A launch without its marked instructions and their counts."""
    timed = launch.by_timing
    if timed is None:
        return launch
    metrics = dict(launch.metrics)
    for name, value in timed.without.items():
        if value is None:
            metrics.pop(name, None)
        else:
            metrics[name] = Metric(value=value, unit=metrics[name].unit if name in metrics else "")
    table, gone = launch.instructions, set(timed.rows)
    columns = {}
    for name, column in table.columns.items():
        kept = [
            (row, value)
            for row, value in zip(column.rows, column.values, strict=True)
            if row not in gone
        ]
        rows, values = tuple(row for row, __ in kept), tuple(value for __, value in kept)
        columns[name] = Column(rows=rows, values=values, unit=column.unit)
    instructions = structs.replace(table, columns=columns)
    return structs.replace(launch, metrics=metrics, instructions=instructions, by_timing=None)


def lines_by_timing(
    launches: Iterable[Launch], sources: Sequence[SourceFile], ncu: str = ""
) -> tuple[str, int]:
    """Marked lines in words, and their number: ``lines 63, 66 and 67 of kernels/scan/v3.cu``.

    `ncu`: only lines that count towards this metric, if instructions have it.
    """
    lines: dict[int, set[int]] = defaultdict(set)
    for launch in launches:
        if launch.by_timing is None:
            continue
        table, rows = launch.instructions, launch.by_timing.rows
        column = table.columns.get(ncu)
        counted = rows if column is None else sorted(set(column.rows) & set(rows))
        for row in counted:
            lines[table.file[row]].add(table.line[row])
    words = [
        f"line{'s' * (len(own) > 1)} {listed([str(line) for line in sorted(own)])} of "
        f"{sources[file].path if file >= 0 else '?'}"
        for file, own in sorted(lines.items())
    ]
    return listed(words), sum(map(len, lines.values()))


def _who(profile: Profile, ncu: str) -> tuple[str, str, str]:
    """The lines that count towards a metric, and their verbs: ``run`` and ``hold``."""
    words, many = lines_by_timing(profile.launches, profile.sources, ncu)
    if not many:
        words, many = lines_by_timing(profile.launches, profile.sources)
    return (words, "runs", "holds") if many == 1 else (words, "run", "hold")


#: 97.5% quantiles of Student's t with 1, 2, … degrees of freedom; then the normal one.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
_NORMAL = 1.960


def student(freedom: int) -> float:
    """The 97.5% quantile of Student's t."""
    return _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL


def mean_interval(samples: Sequence[float]) -> Estimate:
    """The mean of times with its 95% interval, which a single sample does not have."""
    n, mean = len(samples), fmean(samples)
    margin = student(n - 1) * stdev(samples) / math.sqrt(n) if n > 1 else 0.0
    return Estimate(value=mean, low=max(mean - margin, 0.0), high=mean + margin, n=n)


def mean_change(before: Sequence[float], after: Sequence[float]) -> Estimate:
    """The change of a mean with Welch's standard error, at the smaller degrees of freedom."""
    change, least, margin = fmean(after) - fmean(before), min(len(before), len(after)), 0.0
    if least > 1:
        error = math.sqrt(stdev(before) ** 2 / len(before) + stdev(after) ** 2 / len(after))
        margin = student(least - 1) * error
    return Estimate(value=change, low=change - margin, high=change + margin, n=max(least, 1))
