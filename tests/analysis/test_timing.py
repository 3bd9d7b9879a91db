"""Medians and their intervals: exact ranks, coverage by simulation, properties."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.times.timing import (
    drifted,
    interval_rank,
    median_interval,
    minimum_samples,
    moved,
    paired_ratio,
    relative_width,
)
from workbench.model import Estimate

times = st.lists(st.floats(1e-7, 10.0), min_size=6, max_size=60)


def enclosed(n: int, rank: int) -> float:
    """Probability that x(rank) … x(n+1-rank) enclose the median, from the binomial."""
    tail = sum(math.comb(n, i) for i in range(rank))
    return 1.0 - 2.0 * tail / float(2**n)


def test_ranks_agree_with_a_published_table() -> None:
    # H. A. David and H. N. Nagaraja, Order Statistics, section 7.1; also the usual tables
    # of the sign test at a two-sided level of at most 5%.
    known = {5: 0, 6: 1, 8: 1, 9: 2, 12: 3, 15: 4, 20: 6, 25: 8, 30: 10, 40: 14, 50: 18}
    assert {n: interval_rank(n) for n in known} == known
    assert minimum_samples() == 6


@given(st.integers(1, 400), st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]))
def test_the_rank_is_the_largest_that_reaches_the_confidence(n: int, confidence: float) -> None:
    rank = interval_rank(n, confidence)
    assert 0 <= rank <= n // 2 or (n == 1 and rank == 0)
    if rank:
        assert enclosed(n, rank) >= confidence - 1e-12
    if 2 * (rank + 1) <= n:
        assert enclosed(n, rank + 1) < confidence + 1e-12


def test_thousands_of_samples_overflow_nothing() -> None:
    rank = interval_rank(2560)
    # Normal approximation: n/2 - 1.96·sqrt(n)/2.
    assert abs(rank - (1280 - 0.98 * math.sqrt(2560))) < 2


def skewed(rng: random.Random) -> float:
    """What GPU times look like: a floor, a little noise, rare long delays."""
    return 100.0 + rng.expovariate(1.0) + (rng.random() < 0.03) * rng.uniform(20, 60)


@pytest.mark.parametrize(
    ("draw", "true_median"),
    [
        (lambda rng: rng.gauss(10.0, 1.0), 10.0),
        (lambda rng: rng.uniform(0.0, 1.0), 0.5),
        (lambda rng: rng.expovariate(1.0), math.log(2.0)),
    ],
    ids=["normal", "uniform", "exponential"],
)
@pytest.mark.parametrize("n", [6, 20, 41])
def test_the_interval_covers_the_median_as_often_as_it_says(
    draw: Callable[[random.Random], float], true_median: float, n: int
) -> None:
    rng = random.Random(20261121 + n)
    rounds = 4000
    hits = 0
    for _ in range(rounds):
        interval = median_interval([draw(rng) for _ in range(n)])
        hits += interval.low <= true_median <= interval.high
    # Four standard errors of a share of 0.95 over 4000 rounds.
    assert hits / rounds > 0.95 - 4 * math.sqrt(0.95 * 0.05 / rounds)
    assert hits / rounds == pytest.approx(enclosed(n, interval_rank(n)), abs=0.015)


@given(times)
def test_more_confidence_is_never_narrower(samples: list[float]) -> None:
    if len(samples) >= minimum_samples(0.99):
        wide, narrow = median_interval(samples, 0.99), median_interval(samples, 0.8)
        assert wide.low <= narrow.low and narrow.high <= wide.high


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="5 samples give no 95% interval"):
        median_interval([1.0] * 5)
    assert relative_width(Estimate(value=0.0, low=0.0, high=1.0)) == math.inf


@given(st.lists(st.tuples(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0)), min_size=6, max_size=40))
def test_a_ratio_and_its_inverse_agree(pairs: list[tuple[float, float]]) -> None:
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    there, back = paired_ratio(a, b), paired_ratio(b, a)
    assert there.value * back.value == pytest.approx(1.0)
    assert there.low * back.high == pytest.approx(1.0)
    assert there.low <= there.value <= there.high


def test_a_drift_that_both_share_leaves_the_ratio_sharp() -> None:
    clock = [1.0 + 0.3 * i / 100 for i in range(100)]
    version = [1e-3 * c for c in clock]
    baseline = [5e-4 * c for c in clock]
    ratio = paired_ratio(baseline, version)
    assert ratio.value == pytest.approx(0.5) and relative_width(ratio) < 1e-9
    assert relative_width(median_interval(version)) > 0.03


@pytest.mark.parametrize(
    ("a", "b", "word"),
    [([1.0] * 6, [1.0] * 7, "7 denominators"), ([1.0] * 6, [0.0] * 6, "not positive")],
)
def test_pairs_that_make_no_ratio_are_refused(a: list[float], b: list[float], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        paired_ratio(a, b)


def test_a_step_is_a_drift_and_noise_is_not() -> None:
    rng = random.Random(3)
    noise = [1.0 + 0.01 * rng.random() for _ in range(60)]
    assert not drifted(noise)
    assert drifted([*noise[:30], *(x * 1.05 for x in noise[30:])])
    assert drifted([*(x * 1.05 for x in noise[:30]), *noise[30:]])
    # Half a percent is apart, but too little to speak of.
    assert not drifted([1.0] * 30 + [1.005] * 30)
    assert not drifted([1.0] * 5 + [2.0] * 5)  # too few to say


def test_drift_is_seldom_seen_where_there_is_none() -> None:
    rng = random.Random(11)
    false = sum(drifted([skewed(rng) for _ in range(40)]) for _ in range(1000))
    assert false < 20


def test_a_clock_moves_relative_to_its_highest_value() -> None:
    assert moved(0.99e9, 1.98e9) == pytest.approx(0.5)
    assert moved(0.0, 0.0) == 0.0
