"""A rolling baseline: the last good runs of a version, and what a new run says beside them.

A run is one process that took a version's time; its median is one observation. Two runs of
one binary differ by more than their own intervals say, because clocks, heat and addresses differ
from process to process: so the scatter of the baseline's runs is the noise, not the width of one.

1. *Level*: machines are repaired and drivers exchanged. Where the later runs and the earlier ones
   differ at the 1% level (the exact test of Mann and Whitney, Annals of Mathematical Statistics 18,
   1947) and by more than `LEAST`, only the later ones are taken, again and again.
2. *Outliers*: a run further from the median than 3.5 robust standard deviations (1.4826 times the
   median absolute deviation; F. R. Hampel, JASA 69, 1974) and `LEAST` is set aside.
3. *Interval*: of what is left, mean and standard deviation of the logarithms give the 99%
   prediction interval of one more run, ``t(n−1) · s · sqrt(1 + 1/n)`` (G. J. Hahn and
   W. Q. Meeker, *Statistical Intervals*, 1991, section 4.7). It assumes that runs of one level are
   normally distributed on that scale; with few runs t is large, and the answer inconclusive.

A run that is slow, but no slower than one that was set aside, may be the next of these: it is
inconclusive, and never a failure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, median, stdev

from workbench.analysis.regression.verdict import LEAST, Status, in_words, verdict
from workbench.model import Estimate, Record
from workbench.units import quantity, several

#: Runs that a baseline may be asked to keep.
MIN_RUNS, MAX_RUNS = 4, 30
#: The fewest runs on either side of a change of level, and how sure it must be.
_SIDE, _SURE = 3, 0.01
_FAR, _MAD_TO_SIGMA = 3.5, 1.4826
#: 0.995 quantiles of Student's t for 1, 2, … degrees of freedom (99%, two-sided).
_T = (
    *(63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169),
    *(3.106, 3.055, 3.012, 2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845),
    *(2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756),
)


class Pool(Record, frozen=True):
    """The runs of a baseline that speak: logarithms of their medians, from old to new.

    `aside` are the outliers of this level; `earlier` how many runs are of an earlier one;
    `own` is the median uncertainty of one run by itself (half of its relative interval).
    """

    logs: tuple[float, ...]
    aside: tuple[float, ...] = ()
    earlier: int = 0
    own: float = 0.0


class RunVerdict(Record, frozen=True):
    """What a run says beside a baseline; `slowdown` is None where that has too few runs."""

    status: Status
    slowdown: Estimate | None
    pool: Pool
    spared: bool = False  # slow, but no slower than runs that were set aside


def pooled(runs: Sequence[Estimate]) -> Pool:
    """The runs that a new one is compared with.

    Args:
        runs: Medians with their intervals, in the order in which they were taken.
    """
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
    """What a new run says beside the runs of a baseline.

    Args:
        new: The run's median with its interval, in seconds.
        runs: The baseline's, in the order in which they were taken.
        allowed: Percent that the new run may be slower.
        resolution: Percent beyond that which a pass must exclude.
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
    """The verdict for a gate's message: what was compared, what was left out, what follows."""
    pool = judged.pool
    said = [f"{several(pool.earlier, 'run')} of an earlier level left out"] if pool.earlier else []
    if pool.aside:
        said.append(f"{several(len(pool.aside), 'outlier')} set aside")
    beside = f"; {', '.join(said)}" if said else ""
    if judged.slowdown is None:
        count = len(pool.logs)
        return f"{quantity(new.value, 's')}, and {several(count, 'run')} to compare with{beside}"
    text = f"{quantity(math.exp(fmean(pool.logs)), 's')} ({several(len(pool.logs), 'run')}{beside})"
    text += f" → {quantity(new.value, 's')}, "
    if judged.spared:
        return f"{text}slower, but no slower than an outlier of the baseline: measure again"
    return text + in_words(judged.slowdown, judged.status, allowed, resolution)


def _predicted(new: Estimate, pool: Pool) -> Estimate:
    """New over baseline, with the interval that one more run of the baseline would lie in."""
    n = len(pool.logs)
    # Runs that agree better than each is known by itself agree by chance.
    scatter = max(stdev(pool.logs), pool.own)
    # This run may be worse known than those were.
    extra = max(0.0, _uncertainty(new) ** 2 - pool.own**2)
    half = _T[min(n - 1, len(_T)) - 1] * math.sqrt(scatter**2 * (1 + 1 / n) + extra)
    middle = math.log(new.value) - fmean(pool.logs)
    ends = (math.exp(middle + side) for side in (0.0, -half, half))
    value, low, high = ends
    return Estimate(value=value, low=low, high=high, n=n)


def _uncertainty(run: Estimate) -> float:
    """One standard deviation of a run's median, from its 95% interval (normal)."""
    return math.log(run.high / run.low) / (2 * 1.96) if 0 < run.low < run.high else 0.0


# --- has the level changed? --------------------------------------------------------------------


def _level(logs: Sequence[float]) -> int:
    """Where the newest level begins: 0 where all runs are of one."""
    start = 0
    while (further := _change(logs[start:])) is not None:
        start += further
    return start


def _change(logs: Sequence[float]) -> int | None:
    """The place of the largest change of level that is sure; None where there is none.

    All runs from a place on are held against those before it, as far back as one likes: a level
    may be one that was there before the last.
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
    """The two-sided p-value of the exact test that neither tends to be larger.

    Equal values count as half of a win, rounded up, which makes the test careful.
    """
    wins = sum((a > b) + 0.5 * (a == b) for a in one for b in other)
    extreme = math.ceil(min(wins, len(one) * len(other) - wins))
    ways = sum(_ways(len(one), len(other), u) for u in range(extreme + 1))
    return min(1.0, 2 * ways / math.comb(len(one) + len(other), len(one)))


@cache
def _ways(m: int, n: int, u: int) -> int:
    """Orders of m and n values in which `u` pairs have the first one larger."""
    if u < 0 or u > m * n:
        return 0
    if m == 0 or n == 0:
        return 1
    return _ways(m - 1, n, u - n) + _ways(m, n - 1, u)
