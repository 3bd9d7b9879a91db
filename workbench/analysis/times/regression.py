"""Slow-downs of one version since an earlier state of it, with their certainty.

It takes times of two states: pairs that were measured in turn (`slowdown`), or one run and the runs
of a baseline (`judge_run`). Both give one interval of the slow-down, new time over old, and
`verdict` judges it: pass, fail or inconclusive.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, median, stdev
from typing import Literal

from workbench.analysis.times.timing import median_interval, minimum_samples
from workbench.language import _
from workbench.model import DeviceState, Estimate, Notice, Record
from workbench.units import quantity, several, signed, span

# --- The verdict from an interval of a slow-down: one rule for all ways to take times -------------
#
# A gate *fails* if the whole interval is beyond the limit, and *passes* if the whole interval lies
# below the limit plus `resolution`: a pass therefore excludes a slow-down larger than ``allowed +
# resolution``. Any other interval is *inconclusive*. So a noisy machine, whose intervals are wide,
# gives neither pass nor fail.
#
# This is the test of non-inferiority with a margin (S. Wellek, *Testing Statistical Hypotheses of
# Equivalence and Noninferiority*, 2nd ed., 2010, chapter 2), read off a confidence interval, with
# the test for a difference beside it.

Status = Literal["pass", "fail", "inconclusive"]

#: Confidence of the intervals that gates use: one in two hundred lies entirely above the truth.
CONFIDENCE = 0.99
#: Percent. Two builds of one source differ by up to this much (where code and buffers lie, what ran
#: before), so a smaller slow-down is never reported, however narrow the interval.
LEAST = 0.5
#: Percent by which a pass may be wrong, unless the project says otherwise.
RESOLUTION = 2.0


def limits(allowed: float, resolution: float) -> tuple[float, float]:
    """The slow-downs, in percent, above which a gate fails and below which it passes."""
    floor = max(allowed, LEAST)
    return floor, floor + resolution


def verdict(slowdown: Estimate, allowed: float, resolution: float = RESOLUTION) -> Status:
    """Judge a slow-down.

    `allowed` is the percentage by which the new side may be slower, `resolution` the further
    percentage that a pass must exclude.
    """
    floor, ceiling = limits(allowed, resolution)
    if slowdown.low > 1 + floor / 100:
        return "fail"
    return "pass" if slowdown.high <= 1 + ceiling / 100 else "inconclusive"


def in_words(slowdown: Estimate, status: Status, allowed: float, resolution: float) -> str:
    """The slow-down, its interval, and the conclusion, for a gate's message."""
    floor, ceiling = limits(allowed, resolution)
    seen = f"{_change(slowdown.value)} ({span(_change(slowdown.low), _change(slowdown.high))})"
    if status == "fail":
        return _("slower than allowed ({floor}): {seen}").format(
            floor=quantity(floor, "%"), seen=seen
        )
    if status == "pass":
        return _("{seen}: no slow-down of more than {ceiling}").format(
            seen=seen, ceiling=quantity(ceiling, "%")
        )
    return _("{seen}: neither within {ceiling} nor beyond {floor}").format(
        seen=seen, ceiling=quantity(ceiling, "%"), floor=quantity(floor, "%")
    )


def _change(ratio: float) -> str:
    """A ratio of times as a change: a plus is slower."""
    return signed(100 * (ratio - 1), "%")


# --- Two states that ran in turn in one process ------------------------------------------------
#
# Both partners of a pair ran within a millisecond, on the same buffers, at the same clock: a
# disturbance of the machine reaches both, and their quotient stays the same. Consecutive pairs are
# still not independent, because a disturbance lasts. So consecutive pairs are grouped into blocks,
# each block is one observation (its median), and the interval is the distribution-free one of the
# median of blocks (`workbench.analysis.times.timing.median_interval`). Batch means serve
# simulations in the same way: A. M. Law, *Simulation Modeling and Analysis*, 5th ed., 2015, section
# 9.5.3.

#: The number of blocks of pairs, if there are enough pairs.
BLOCKS = 20
#: The fewest pairs that give an interval.
LEAST_PAIRS = minimum_samples(CONFIDENCE)


def slowdown(old: Sequence[float], new: Sequence[float]) -> Estimate:
    """New over old, with its 99% interval.

    Seconds are in the order in which they were taken, each of `new` next to its partner in `old`.

    Returns:
        The median ratio of all pairs, and the interval of the median of blocks; `n` pairs.

    Raises ValueError: different lengths, fewer pairs than `LEAST_PAIRS`, or no positive time.
    """
    if len(old) != len(new):
        raise ValueError(_("{old} times before, {new} after").format(old=len(old), new=len(new)))
    if any(value <= 0 for value in (*old, *new)):
        raise ValueError(_("a time that is not positive has no ratio"))
    logs = [math.log(b / a) for a, b in zip(old, new, strict=True)]
    inner = median_interval([median(block) for block in blocks(logs)], CONFIDENCE)
    middle = min(max(median(logs), inner.low), inner.high)
    return Estimate(
        value=math.exp(middle), low=math.exp(inner.low), high=math.exp(inner.high), n=len(logs)
    )


def blocks(values: Sequence[float], count: int = BLOCKS) -> list[Sequence[float]]:
    """Consecutive values in at most `count` blocks, whose sizes differ by at most one."""
    count = min(count, len(values))
    cuts = [len(values) * place // count for place in range(count + 1)]
    return [values[first:last] for first, last in itertools.pairwise(cuts)]


class Turns(Record, frozen=True):
    """Two states of one version, measured in turn on one problem.

    `samples` are the single times in seconds, pair by pair, the earlier state first. `slowdown` is
    None if the earlier state could not run beside the new one, or if there are too few pairs:
    `silence` says which.
    """

    version: str
    problem: str
    device: str
    samples: tuple[tuple[float, ...], tuple[float, ...]]
    slowdown: Estimate | None
    silence: str = ""
    state: DeviceState | None = None
    notices: tuple[Notice, ...] = ()


# --- A rolling baseline: the last good runs of a version, and a new run compared with them ------
#
# A run is one process that took a version's time; its median is one observation. Two runs of one
# binary differ by more than their own intervals suggest, because clocks, heat and addresses differ
# from process to process: so the scatter of the baseline's runs is the noise, not the width of one.
#
# 1. *Level*: machines are repaired and drivers exchanged. If the later runs and the earlier ones
#    differ at the 1% level (the exact test of Mann and Whitney, Annals of Mathematical Statistics
#    18, 1947) and by more than `LEAST`, only the later ones are taken, repeatedly.
# 2. *Outliers*: a run further from the median than 3.5 robust standard deviations (1.4826 times the
#    median absolute deviation; F. R. Hampel, JASA 69, 1974) and `LEAST` is set aside.
# 3. *Interval*: of the rest, mean and standard deviation of the logarithms give the 99%
#    prediction interval of one more run, ``t(n−1) · s · sqrt(1 + 1/n)`` (G. J. Hahn and
#    W. Q. Meeker, *Statistical Intervals*, 1991, section 4.7). It assumes that runs of one level
#    are normally distributed on that scale; with few runs t is large, and the answer inconclusive.
#
# A run that is slow, but no slower than one that was set aside, may be another outlier: it is
# inconclusive, and never a failure.

#: The limits of the number of runs that a baseline keeps.
MIN_RUNS, MAX_RUNS = 4, 30
#: The fewest runs on either side of a change of level, and its significance level.
_SIDE, _SURE = 3, 0.01
_FAR, _MAD_TO_SIGMA = 3.5, 1.4826
#: 0.995 quantiles of Student's t for 1, 2, … degrees of freedom (99%, two-sided).
_T = (
    *(63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169),
    *(3.106, 3.055, 3.012, 2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845),
    *(2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756),
)


class Pool(Record, frozen=True):
    """The valid runs of a baseline: logarithms of their medians, from old to new.

    `aside` are the outliers of this level; `earlier` is the number of runs at an earlier one; `own`
    is the median uncertainty of one run by itself (half of its relative interval).
    """

    logs: tuple[float, ...]
    aside: tuple[float, ...] = ()
    earlier: int = 0
    own: float = 0.0


class RunVerdict(Record, frozen=True):
    """The verdict on a run against a baseline; `slowdown` is None if it has too few runs."""

    status: Status
    slowdown: Estimate | None
    pool: Pool
    spared: bool = False  # slow, but no slower than runs that were set aside


def pooled(runs: Sequence[Estimate]) -> Pool:
    """The runs that a new one is compared with, in the order in which they were taken."""
    logs = [math.log(run.value) for run in runs]
    start = _level(logs)
    level = logs[start:]
    if not level:
        return Pool(logs=())
    middle = median(level)
    far = _FAR * _MAD_TO_SIGMA * median(abs(each - middle) for each in level)
    far = max(far, math.log1p(LEAST / 100))
    near = tuple(each for each in level if abs(each - middle) <= far)
    return Pool(
        logs=near,
        aside=tuple(each for each in level if abs(each - middle) > far),
        earlier=start,
        own=median(_uncertainty(run) for run in runs[start:]),
    )


def judge_run(
    new: Estimate, runs: Sequence[Estimate], allowed: float, resolution: float
) -> RunVerdict:
    """Judge a new run against the runs of a baseline.

    `new` is the run's median with its interval, in seconds, `runs` the baseline's in the order in
    which they were taken. `allowed` and `resolution` are as for `verdict`.
    """
    pool = pooled(runs)
    if len(pool.logs) < 2:
        return RunVerdict(status="inconclusive", slowdown=None, pool=pool)
    slowdown = _predicted(new, pool)
    status = verdict(slowdown, allowed, resolution)
    spared = status == "fail" and math.log(new.value) <= max(pool.aside, default=-math.inf)
    return RunVerdict(
        status="inconclusive" if spared else status, slowdown=slowdown, pool=pool, spared=spared
    )


def judged_words(judged: RunVerdict, new: Estimate, allowed: float, resolution: float) -> str:
    """The verdict for a gate's message: the compared runs, the omitted ones, the conclusion."""
    pool = judged.pool
    said = (
        [_("{earlier} from an earlier level left out").format(earlier=several(pool.earlier, "run"))]
        if pool.earlier
        else []
    )
    if pool.aside:
        said.append(_("{aside} set aside").format(aside=several(len(pool.aside), "outlier")))
    beside = f"; {', '.join(said)}" if said else ""
    if judged.slowdown is None:
        count = len(pool.logs)
        return _("{value}, and {count} to compare with{beside}").format(
            value=quantity(new.value, "s"), count=several(count, "run"), beside=beside
        )
    text = f"{quantity(math.exp(fmean(pool.logs)), 's')} ({several(len(pool.logs), 'run')}{beside})"
    text += f" → {quantity(new.value, 's')}, "
    if judged.spared:
        return _(
            "{text}slower, but no slower than an outlier of the baseline: measure again"
        ).format(text=text)
    return text + in_words(judged.slowdown, judged.status, allowed, resolution)


def _predicted(new: Estimate, pool: Pool) -> Estimate:
    """New over baseline, with the interval in which one more run of the baseline would lie."""
    n = len(pool.logs)
    # If runs agree more closely than their own uncertainty, they do so by chance.
    scatter = max(stdev(pool.logs), pool.own)
    # This run may be less certain than those were.
    extra = max(0.0, _uncertainty(new) ** 2 - pool.own**2)
    half = _T[min(n - 1, len(_T)) - 1] * math.sqrt(scatter**2 * (1 + 1 / n) + extra)
    middle = math.log(new.value) - fmean(pool.logs)
    value, low, high = (math.exp(middle + side) for side in (0.0, -half, half))
    return Estimate(value=value, low=low, high=high, n=n)


def _uncertainty(run: Estimate) -> float:
    """One standard deviation of a run's median, from its 95% interval (normal)."""
    return math.log(run.high / run.low) / (2 * 1.96) if 0 < run.low < run.high else 0.0


def _level(logs: Sequence[float]) -> int:
    """The index at which the newest level begins: 0 if all runs are at one level."""
    start = 0
    while (further := _change_of_level(logs[start:])) is not None:
        start += further
    return start


def _change_of_level(logs: Sequence[float]) -> int | None:
    """The place of the largest certain change of level, or None.

    All runs from a place on are compared with those before it, however far back: a level may repeat
    an earlier one.
    """
    found: dict[int, float] = {}
    for place in range(_SIDE, len(logs) - _SIDE + 1):
        after = logs[place:]
        for start in range(place - _SIDE + 1):
            before = logs[start:place]
            shift = abs(median(after) - median(before))
            if shift > math.log1p(LEAST / 100) and mann_whitney(before, after) <= _SURE:
                found[place] = max(shift, found.get(place, 0.0))
    return max(found, key=lambda place: found[place]) if found else None


def mann_whitney(one: Sequence[float], other: Sequence[float]) -> float:
    """The two-sided p-value of the exact test that neither sample tends to be larger.

    Equal values count as half of a win, rounded up, which makes the test conservative.
    """
    wins = sum((a > b) + 0.5 * (a == b) for a in one for b in other)
    extreme = math.ceil(min(wins, len(one) * len(other) - wins))
    ways = sum(_ways(len(one), len(other), u) for u in range(extreme + 1))
    return min(1.0, 2 * ways / math.comb(len(one) + len(other), len(one)))


@cache
def _ways(m: int, n: int, u: int) -> int:
    """The number of orders of m and n values with `u` pairs whose first value is larger."""
    if u < 0 or u > m * n:
        return 0
    if m == 0 or n == 0:
        return 1
    return _ways(m - 1, n, u - n) + _ways(m, n - 1, u)
