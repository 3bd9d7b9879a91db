"""Statistics of repeated timings: medians, their intervals, ratios. Pure functions.

GPU times are skewed (a floor plus rare delays) and so are summarized by the median,
with an interval that assumes no distribution. Between two order statistics the
population median lies with a probability that depends on the binomial distribution
alone (H. A. David and H. N. Nagaraja, *Order Statistics*, 3rd ed., 2003, section 7.1;
for benchmarks: T. Hoefler and R. Belli, "Scientific Benchmarking of Parallel Computing
Systems", SC 2015, rule 6). The samples must be independent; `drifted` looks for the
most common way in which they are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median

from workbench.model import Estimate, Record, Timing

#: Confidence of every interval in this program.
CONFIDENCE = 0.95


@lru_cache(maxsize=256)
def interval_rank(n: int, confidence: float = CONFIDENCE) -> int:
    """The rank k whose order statistics x(k) and x(n+1-k) enclose the median.

    The enclosed probability is ``1 − 2·P(B < k)`` with B binomial(n, ½); k is the
    largest rank that still reaches `confidence`. Computed in whole numbers.

    Returns:
        k from 1 to n/2, or 0 if n is too small for this confidence (below 6 samples for 95%).
    """
    # P(B < k) <= (1 - confidence) / 2, both sides multiplied by 2**n.
    allowed = math.floor((1.0 - confidence) / 2.0 * 2**53) * 2**n // 2**53
    tail = 0
    term = 1  # comb(n, 0)
    rank = 0
    while 2 * rank < n:
        tail += term
        if tail > allowed:
            return rank
        rank += 1
        term = term * (n - rank + 1) // rank
    return rank


def minimum_samples(confidence: float = CONFIDENCE) -> int:
    """The fewest samples for which an interval of this confidence exists."""
    n = 1
    while interval_rank(n, confidence) == 0:
        n += 1
    return n


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """The median with its distribution-free confidence interval.

    `confidence` is the wanted coverage; the true one is at least this. Raises ValueError: fewer
    samples than `minimum_samples(confidence)`.
    """
    n = len(samples)
    rank = interval_rank(n, confidence)
    if rank == 0:
        raise ValueError(f"{n} samples give no {confidence:.0%} interval of the median")
    ordered = sorted(samples)
    return Estimate(value=median(ordered), low=ordered[rank - 1], high=ordered[n - rank], n=n)


def relative_width(estimate: Estimate) -> float:
    """Width of the interval relative to the median; infinity for a median of zero."""
    if estimate.value <= 0:
        return math.inf
    return (estimate.high - estimate.low) / estimate.value


def speed_beside(timing: Timing, baseline: Timing | None) -> float | None:
    """Speed relative to the baseline: as measured side by side, else from two runs; or None."""
    if timing.ratio:
        return timing.ratio.value
    return baseline.time.value / timing.time.value if baseline is not None else None


def paired_ratio(
    numerators: Sequence[float], denominators: Sequence[float], confidence: float = CONFIDENCE
) -> Estimate:
    """The median ratio of pairs that were measured one right after the other.

    A slow change of the chip's clock moves both partners of a pair but not their quotient, so the
    interval is narrower than that of two separate medians. It is the order-statistic interval of
    the logarithms, mapped back: the logarithm keeps the order, and makes a ratio and its inverse
    agree.

    Both are in seconds, partners at the same position. Raises ValueError: different lengths, too
    few pairs, or a time that is not positive.
    """
    if len(numerators) != len(denominators):
        raise ValueError(f"{len(numerators)} numerators, {len(denominators)} denominators")
    if any(value <= 0 for value in (*numerators, *denominators)):
        raise ValueError("a time that is not positive has no ratio")
    logs = [math.log(a / b) for a, b in zip(numerators, denominators, strict=True)]
    inner = median_interval(logs, confidence)
    return Estimate(
        value=math.exp(inner.value), low=math.exp(inner.low), high=math.exp(inner.high), n=inner.n
    )


def drifted(samples: Sequence[float], least: float = 0.01) -> bool:
    """True if the first and the second half of the samples disagree.

    True if the intervals of the two halves do not touch and their medians differ by more than
    `least`: the chip warmed up or changed its clock, the samples are not independent, and the
    interval of the whole is too narrow.
    """
    half = len(samples) // 2
    if half < minimum_samples():
        return False
    first = median_interval(samples[:half])
    second = median_interval(samples[half:])
    apart = first.high < second.low or second.high < first.low
    return apart and abs(second.value / first.value - 1.0) > least


def moved(low: float, high: float) -> float:
    """The range of a clock, relative to its highest value."""
    return (high - low) / high if high > 0 else 0.0


class TimeChange(Record, frozen=True):
    """Median times in seconds, and old/new with a conservative interval.

    `low` is old.low / new.high and `high` is old.high / new.low: it contains the
    true ratio whenever both 95% intervals contain their true times. For
    independent measurements of equal width that is wider than a 95% interval of
    the ratio (by a factor of about 1.4), so a reported speed-up is real.
    """

    old_s: float
    new_s: float
    speedup: float
    low: float
    high: float

    @property
    def moved(self) -> bool:
        """True if the interval excludes "equally fast"."""
        return not self.low <= 1.0 <= self.high


class Speed(Record, frozen=True):
    """Seconds on both sides, and whether they are apart; `profiled`: measured by the profiler."""

    old_s: float
    new_s: float
    moved: bool
    profiled: bool

    @property
    def speedup(self) -> float:
        """Old over new: above 1 the new side is faster."""
        return self.old_s / self.new_s


def time_change(
    old: Timing | None, new: Timing | None, *, across: bool = False
) -> TimeChange | None:
    """The change in time; None if a side has no timing, or they are not comparable.

    `across`: two devices were requested.
    """
    if old is None or new is None or (old.problem, old.cache) != (new.problem, new.cache):
        return None
    if old.device.name != new.device.name and not across:
        return None
    a, b = old.time, new.time
    if min(a.low, b.low) <= 0:  # not a time that a clock could give
        return None
    return TimeChange(
        old_s=a.value,
        new_s=b.value,
        speedup=a.value / b.value,
        low=a.low / b.high,
        high=a.high / b.low,
    )
