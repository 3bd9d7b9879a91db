"""Verdicts from intervals: pairs in turns, rolling baselines, and how often they are wrong."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest

from workbench.analysis.times.regression import (
    _T,
    CONFIDENCE,
    LEAST_PAIRS,
    MAX_RUNS,
    Status,
    in_words,
    judge_run,
    judged_words,
    mann_whitney,
    pooled,
    slowdown,
    verdict,
)
from workbench.model import Estimate


def ratio(low: float, high: float) -> Estimate:
    return Estimate(value=math.sqrt(low * high), low=low, high=high)


def run(seconds: float, width: float = 0.001) -> Estimate:
    return Estimate(value=seconds, low=seconds * (1 - width), high=seconds * (1 + width), n=50)


@pytest.mark.parametrize(
    ("low", "high", "allowed", "status"),
    [
        (0.99, 1.01, 0.0, "pass"),
        (0.5, 0.6, 0.0, "pass"),
        (1.003, 1.004, 0.0, "pass"),  # sure, and smaller than what two builds differ by
        (1.006, 1.02, 0.0, "fail"),
        (1.004, 1.026, 0.0, "inconclusive"),
        (0.9, 1.1, 0.0, "inconclusive"),
        (1.015, 1.03, 2.0, "pass"),
        (1.025, 1.03, 2.0, "fail"),
        (1.015, 1.05, 2.0, "inconclusive"),
    ],
)
def test_a_verdict_needs_the_whole_interval(
    low: float, high: float, allowed: float, status: Status
) -> None:
    assert verdict(ratio(low, high), allowed, 2.0) == status
    words = in_words(ratio(low, high), status, allowed, 2.0)
    assert {"fail": "slower than", "pass": "no slow-down", "inconclusive": "neither"}[
        status
    ] in words


def pairs(
    chance: random.Random, slower: float, noise: float, count: int = 100
) -> tuple[list[float], list[float]]:
    """Pairs on a machine whose noise is common in part, lasts, and has rare delays."""
    old: list[float] = []
    new: list[float] = []
    wander = own = 0.0
    for _ in range(count):
        wander = 0.98 * wander + chance.gauss(0, noise)
        own = 0.7 * own + chance.gauss(0, noise)
        for times, factor, drift in ((old, 1.0, 0.0), (new, slower, own)):
            late = 1.3 if chance.random() < 0.02 else 1.0
            noisy = math.exp(wander + drift + chance.gauss(0, noise))
            times.append(1e-4 * factor * late * noisy)
    return old, new


@pytest.mark.parametrize(
    ("slower", "noise", "status", "least"),
    [
        (1.0, 0.003, "pass", 0.98),
        (1.03, 0.003, "fail", 0.95),
        (1.0, 0.1, "inconclusive", 0.9),  # a deliberately noisy machine
        (1.03, 0.1, "inconclusive", 0.9),
    ],
)
def test_how_often_pairs_are_judged_so(
    slower: float, noise: float, status: Status, least: float
) -> None:
    chance = random.Random(5)
    ends = Counter(verdict(slowdown(*pairs(chance, slower, noise)), 0.0, 2.0) for _ in range(100))
    assert ends[status] >= 100 * least, ends
    assert slower > 1 or ends["fail"] <= 2, ends


def test_what_disturbs_both_partners_is_left_alone() -> None:
    old = [1e-4 * (1 + 0.5 * math.sin(place)) for place in range(100)]
    estimate = slowdown(old, [1.02 * each for each in old])
    assert estimate.low == pytest.approx(1.02) and estimate.high == pytest.approx(1.02)


def test_pairs_that_give_no_interval() -> None:
    few = [1e-4] * (LEAST_PAIRS - 1)
    for old, new in ((few, few), ([1.0] * 9, [1.0] * 8), ([1.0] * 9, [0.0] * 9)):
        with pytest.raises(ValueError, match=r"interval|times before|not positive"):
            slowdown(old, new)
    assert slowdown([*few, 1e-4], [*few, 1e-4]).n == LEAST_PAIRS


def test_the_quantiles_of_student_are_right() -> None:
    def density(t: float, df: int) -> float:
        norm = math.gamma((df + 1) / 2) / (math.sqrt(df * math.pi) * math.gamma(df / 2))
        return float(norm * (1 + t * t / df) ** (-(df + 1) / 2))

    assert len(_T) == MAX_RUNS - 1
    for df, quantile in enumerate(_T, 1):
        steps = 4000
        width = quantile / steps
        ends = density(0, df) + density(quantile, df)
        inside = sum((4 if n % 2 else 2) * density(n * width, df) for n in range(1, steps))
        covered = 2 * width / 3 * (ends + inside)  # Simpson's rule, both sides
        assert covered == pytest.approx(CONFIDENCE, abs=2e-5), df


@pytest.mark.parametrize(("m", "n"), [(3, 3), (3, 5), (4, 4)])
def test_the_exact_test_counts_every_order(m: int, n: int) -> None:
    def wins(one: tuple[int, ...]) -> int:
        return sum(a > b for a in one for b in range(m + n) if b not in one)

    every = list(itertools.combinations(range(m + n), m))
    for chosen in every:
        own = min(wins(chosen), m * n - wins(chosen))
        as_far = sum(min(wins(each), m * n - wins(each)) <= own for each in every)
        found = mann_whitney(chosen, [place for place in range(m + n) if place not in chosen])
        # In the very middle both sides overlap, and the p-value is 1 either way.
        assert found == pytest.approx(as_far / len(every)) or found == 1.0 >= as_far / len(every)


@pytest.mark.parametrize(
    ("slower", "noise", "kept", "status", "least"),
    [
        (1.0, 0.002, 20, "pass", 0.98),
        (1.03, 0.002, 20, "fail", 0.95),
        (1.03, 0.002, 10, "fail", 0.95),
        (1.0, 0.03, 20, "inconclusive", 0.9),
        (1.03, 0.03, 20, "inconclusive", 0.9),
        (1.0, 0.002, 2, "inconclusive", 0.6),  # two runs know little
    ],
)
def test_how_often_a_run_is_judged_so(
    slower: float, noise: float, kept: int, status: Status, least: float
) -> None:
    chance = random.Random(11)

    def one(factor: float = 1.0) -> Estimate:
        return run(1e-4 * factor * math.exp(chance.gauss(0, noise)))

    ends = Counter(
        judge_run(one(slower), [one() for _ in range(kept)], 0.0, 2.0).status for _ in range(100)
    )
    assert ends[status] >= 100 * least, ends
    assert slower > 1 or ends["fail"] <= 4, ends


def steady(level: float, count: int) -> list[Estimate]:
    return [run(level * (1 + 0.001 * (place % 3 - 1))) for place in range(count)]


def test_only_the_newest_level_counts() -> None:
    runs = [*steady(1e-4, 8), *steady(1.05e-4, 5)]
    pool = pooled(runs)
    assert (pool.earlier, len(pool.logs)) == (8, 5)
    # A third change of level, and back to the first.
    assert pooled([*runs, *steady(1e-4, 6)]).earlier == 13
    # What was good for the old level is a slow-down of the new one.
    assert (
        judge_run(run(1.05e-4), [*steady(1.05e-4, 9), *steady(1e-4, 9)], 0.0, 2.0).status == "fail"
    )
    assert pooled(steady(1e-4, 20)).earlier == 0


def test_a_slow_drift_makes_no_false_alarm() -> None:
    """3% slower in the course of 200 runs: each is beside its neighbours."""
    chance = random.Random(2)
    runs = [run(1e-4 * (1 + 0.03 * n / 200) * math.exp(chance.gauss(0, 0.002))) for n in range(200)]
    ends = Counter(judge_run(runs[n], runs[n - 20 : n], 0.0, 2.0).status for n in range(20, 200))
    assert ends["fail"] <= 4 and ends["pass"] >= 150, ends


def test_outliers_are_set_aside_and_a_new_one_is_no_failure() -> None:
    runs = [*steady(1e-4, 10), run(1.08e-4), *steady(1e-4, 4)]
    pool = pooled(runs)
    assert len(pool.aside) == 1 and len(pool.logs) == 14
    spared = judge_run(run(1.07e-4), runs, 0.0, 2.0)
    assert spared.status == "inconclusive" and spared.spared
    assert "measure again" in judged_words(spared, run(1.07e-4), 0.0, 2.0)
    failed = judge_run(run(1.1e-4), runs, 0.0, 2.0)
    assert failed.status == "fail"
    words = judged_words(failed, run(1.1e-4), 0.0, 2.0)
    assert "14 runs; 1 outlier set aside" in words and "slower than allowed" in words


def test_a_run_that_is_less_known_than_the_others_widens_the_interval() -> None:
    runs = steady(1e-4, 10)
    assert judge_run(run(1e-4), runs, 0.0, 2.0).status == "pass"
    assert judge_run(run(1e-4, width=0.05), runs, 0.0, 2.0).status == "inconclusive"


@pytest.mark.parametrize("count", [0, 1])
def test_one_run_is_no_baseline(count: int) -> None:
    judged = judge_run(run(1e-4), steady(1e-4, count), 0.0, 2.0)
    assert judged.status == "inconclusive" and judged.slowdown is None
    assert f"{count} run" in judged_words(judged, run(1e-4), 0.0, 2.0)


def test_runs_without_any_scatter_divide_by_nothing() -> None:
    same = [run(1e-4, width=0.0)] * 5
    assert judge_run(run(1e-4, width=0.0), same, 0.0, 2.0).status == "pass"
