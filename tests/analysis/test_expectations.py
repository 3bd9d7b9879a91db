"""Expectations: the grammar, the rule that decides, and what nobody expected."""

from __future__ import annotations

import pytest

from tests.factories import make_launch, make_profile, make_timing, padded, with_metrics
from workbench.analysis.compare import Comparison, compare
from workbench.analysis.expectations import Judgement, judge, side_effects
from workbench.counters import catalog
from workbench.errors import UsageError
from workbench.model import Metric, Number, Profile, Spread
from workbench.specs import Expectation, parse_prediction

WAVEFRONTS = "memory_l1_wavefronts_shared"


def compared(old: Number | None, new: Number | None, metric: str = WAVEFRONTS) -> Comparison:
    sides = [
        make_profile(
            launches=(
                make_launch(metrics={metric: Metric(value=value)} if value is not None else {}),
            )
        )
        for value in (old, new)
    ]
    # The line sums would stand in for a counter that is missing.
    bare = [
        make_profile(launches=(make_launch(metrics=s.launches[0].metrics, instructions=_NONE),))
        for s in sides
    ]
    return compare(bare[0], bare[1], old_time=None, new_time=None)


_NONE = type(make_launch().instructions)()


def verdict(change: str, old: Number | None, new: Number | None, counter: str = "") -> str:
    (found,) = judge(
        [Expectation(counter=counter or "shared_wavefronts", change=change)], compared(old, new)
    )
    return found.verdict


@pytest.mark.parametrize(
    ("change", "old", "new", "expected"),
    [
        ("-50%", 1000, 500, "confirmed"),
        ("-50%", 1000, 100, "confirmed"),  # more than predicted
        ("-50%", 1000, 550, "confirmed"),  # nine tenths of the way
        ("-50%", 1000, 551, "refuted"),
        ("-50%", 1000, 640, "refuted"),
        ("-50%", 1000, 1000, "refuted"),
        ("-50%", 1000, 2000, "refuted"),
        ("-50%", 0, 10, "inconclusive"),
        ("+2x", 1000, 2000, "confirmed"),
        ("+2x", 1000, 1500, "refuted"),
        ("-4x", 1000, 250, "confirmed"),
        ("to 0", 1000, 0, "confirmed"),
        ("to 0", 1000, 7, "confirmed"),
        ("to 0", 1000, 300, "refuted"),
        ("to 0", 0, 0, "confirmed"),
        ("to 500", 1000, 451, "confirmed"),  # beyond an exact value, by a tenth of the way
        ("to 500", 1000, 449, "refuted"),
        ("< 0.1x", 1000, 99, "confirmed"),
        ("< 0.1x", 1000, 150, "refuted"),
        ("< 0.1x", 0, 0, "inconclusive"),
        ("<= 32", 1000, 32, "confirmed"),
        ("<= 32", 1000, 40, "refuted"),
        ("> 0", 0, 0, "refuted"),  # zeros have no noise
        ("up", 1000, 2000, "confirmed"),
        ("up", 1000, 500, "refuted"),
        ("up", 1000, 1000, "refuted"),  # an exact count
        ("down", 0, 0, "refuted"),
        ("down", 1000, 500, "confirmed"),
        ("same", 1000, 1000, "confirmed"),
        ("same", 1000, 2000, "refuted"),
        ("same", 100_000, 100_049, "confirmed"),  # shown as ±0%
        ("same", 100_000, 100_051, "refuted"),
        ("same", 0, 1, "refuted"),
        ("down", None, 500, "inconclusive"),
        ("down", 1000, None, "inconclusive"),
        (">= 0.9 of peak", 1000, 950, "inconclusive"),  # no percentage of a peak
    ],
)
def test_rule(change: str, old: Number | None, new: Number | None, expected: str) -> None:
    assert verdict(change, old, new) == expected


def one(change: str, metric: str, counter: str, old: float, new: float) -> Judgement:
    (found,) = judge([Expectation(counter=counter, change=change)], compared(old, new, metric))
    return found


def test_of_peak_reads_percentages() -> None:
    metric = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    assert one(">= 0.9 of peak", metric, "sm_throughput", 50.0, 93.0).verdict == "confirmed"
    assert one(">= 0.9 of peak", metric, "sm_throughput", 50.0, 70.0).verdict == "refuted"


def test_within_the_noise_nothing_is_decided() -> None:
    metric = "gpu__time_duration.sum"
    # Durations under the profiler carry a noise of some percent by default.
    found = one("-1%", metric, "duration", 1e-3, 0.9999e-3)
    assert found.verdict == "inconclusive" and "noise" in found.reason


def test_what_is_equal_did_not_change() -> None:
    (found,) = judge([Expectation(counter="shared_wavefronts", change="up")], compared(7, 7))
    assert (found.verdict, found.reason) == ("refuted", "it did not change")
    noisy = one("up", CONFLICTS, "shared_bank_conflicts", 1000, 1000)
    assert (noisy.verdict, noisy.reason) == ("inconclusive", "it did not change")


def test_overlapping_captures_are_not_called_a_change_below_the_noise() -> None:
    metric = "gpu__time_duration.sum"
    sides = [
        make_profile(
            launches=(
                make_launch(
                    metrics={metric: Metric(value=middle)},
                    spreads={
                        metric: Spread(n=3, low=middle - 1e-6, median=middle, high=middle + 1e-6)
                    },
                    instructions=_NONE,
                ),
            )
        )
        for middle in (70e-6, 72.2e-6)
    ]
    comparison = compare(sides[0], sides[1], old_time=None, new_time=None)
    (found,) = judge([Expectation(counter="duration", change="up")], comparison)
    assert found.verdict == "inconclusive"
    assert found.reason == "the ranges of the repeated captures overlap"


CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"


@pytest.mark.parametrize(
    ("change", "old", "new", "expected"),
    [
        # Noise of a tenth: 0 to 32,800 leaves it, although nothing was to change.
        ("to 0", 0, 32_800, "refuted"),
        ("to 1000", 1000, 5000, "refuted"),
        ("to 1000", 1000, 1050, "inconclusive"),
        ("-1%", 1000, 1500, "refuted"),
        ("-1%", 1000, 1050, "inconclusive"),
    ],
)
def test_what_was_hardly_to_move_and_left_its_noise(
    change: str, old: int, new: int, expected: str
) -> None:
    found = one(change, CONFLICTS, "shared_bank_conflicts", old, new)
    assert found.verdict == expected, found.reason


def test_an_unknown_counter_and_an_ncu_name() -> None:
    assert verdict("down", 10, 5, counter="no_such") == "inconclusive"
    assert verdict("down", 10, 5, counter=WAVEFRONTS) == "confirmed"


def test_measured_times_judge_the_duration() -> None:
    old, new = make_profile(), make_profile(version="v3")
    comparison = compare(
        old, new, old_time=make_timing(300e-6), new_time=make_timing(200e-6, version="v3")
    )
    # What was measured is in the unit of what was predicted.
    measured = {"-30%": "−33.3%", "< 0.7x": "0.667×", "< 0.00025": "300 µs → 200 µs"}
    for change, observed in measured.items():
        expected = Expectation(counter="duration", change=change, line=9, why="w")
        (found,) = judge([expected], comparison)
        assert (found.verdict, found.line, found.why) == ("confirmed", 9, "w")
        assert found.observed == observed


def test_what_was_covered_of_the_predicted_change_is_said() -> None:
    (still,) = judge([Expectation(counter="shared_wavefronts", change="-50%")], compared(9, 9))
    assert still.reason == "it did not move that way"
    (half,) = judge([Expectation(counter="shared_wavefronts", change="-50%")], compared(1000, 750))
    assert half.reason == "50% of the predicted change"


def test_a_measured_time_falls_short_by_more_than_its_interval_or_is_not_decided() -> None:
    times = make_timing(300e-6, 0.1), make_timing(200e-6, 0.1, version="v3")
    sides = make_profile(), make_profile(version="v3")
    comparison = compare(*sides, old_time=times[0], new_time=times[1])
    # A time of 200 µs ± 10% may be 22% less, if the old one was 10% more: 44 µs.
    changes = {"-46.6%": "inconclusive", "-48.5%": "refuted"}  # 40 and 45 µs short
    for change, expected in changes.items():
        (found,) = judge([Expectation(counter="duration", change=change)], comparison)
        assert found.verdict == expected, change


def emulated(ptx: float, estimate: float | None) -> Profile:
    metrics = {"ptx__inst_executed": Metric(value=ptx, unit="inst")}
    if estimate is not None:
        metrics["ptx__machine_inst_estimate"] = Metric(value=estimate, unit="inst")
    launch = make_launch(metrics=metrics, instructions=_NONE)
    return make_profile(engine="emulator", launches=(launch, launch))


@pytest.mark.parametrize(
    ("change", "old", "new", "expected"),
    [
        ("-5%", 1000, 560, "confirmed"),  # PTX says +2%
        ("-40%", 1000, 560, "inconclusive"),  # somewhere from -36% to -52%
        ("-70%", 1000, 560, "refuted"),
        ("down", 1000, 560, "confirmed"),
        ("down", 1000, 950, "inconclusive"),
        ("down", 1000, 1300, "refuted"),
        ("same", 1000, 560, "refuted"),
        ("same", 1000, 1010, "inconclusive"),
        ("< 0.9x", 1000, 560, "confirmed"),
        ("< 0.9x", 1000, 850, "inconclusive"),
        ("to 0", 1000, 560, "refuted"),
    ],
)
def test_instructions_of_ptx_are_judged_by_the_estimate_and_its_error(
    change: str, old: float, new: float, expected: str
) -> None:
    comparison = compare(emulated(400, old), emulated(408, new))
    (found,) = judge([Expectation(counter="instructions", change=change)], comparison)
    assert (found.verdict, found.observed[-11:]) == (expected, "(estimated)")
    assert (found.reason == "the estimate may be off by 15%") == (expected == "inconclusive")


def test_the_same_ptx_is_the_same_machine_code() -> None:
    comparison = compare(emulated(400, 1000), emulated(400, 1000))
    (found,) = judge([Expectation(counter="instructions", change="same")], comparison)
    assert (found.verdict, found.observed) == ("confirmed", "±0% (estimated)")


def test_without_an_estimate_ptx_decides_nothing() -> None:
    for counter in ("instructions", "thread_instructions"):
        comparison = compare(emulated(400, None), emulated(100, None))
        (found,) = judge([Expectation(counter=counter, change="-50%")], comparison)
        assert (found.verdict, found.observed) == ("inconclusive", "—")


def test_the_largest_side_effects_come_first() -> None:
    new = padded(make_profile())
    found = side_effects(compare(make_profile(), new, old_time=None, new_time=None), [])
    for directed in (True, False):
        sizes = [
            abs(d.new / d.old - 1) if d.old and d.new is not None else float("inf")
            for d in found
            if bool(d.better) == directed
        ]
        assert sizes == sorted(sizes, reverse=True)
        assert not directed or len(set(sizes)) > 2


def test_what_rose_from_zero_is_the_largest_side_effect() -> None:
    comparison = compare(padded(make_profile()), make_profile(), old_time=None, new_time=None)
    first, *_ = side_effects(comparison, [])
    assert (first.old, first.better) == (0, "lower") and first.new


def test_side_effects_are_what_nobody_expected() -> None:
    comparison = compare(make_profile(), padded(make_profile()), old_time=None, new_time=None)
    every = {delta.id for delta in side_effects(comparison, [])}
    assert {"shared_wavefronts", "mio_throttle", "duration"} <= every
    expected = [Expectation(counter="shared_wavefronts", change="down")]
    rest = side_effects(comparison, expected)
    # Excess, and wavefronts over the ideal ones, are made of what was expected.
    implied = {"shared_wavefronts", "shared_wavefronts_excess", "shared_conflict_ways"}
    assert implied <= every
    assert {delta.id for delta in rest} == every - implied
    directed = [bool(delta.better) for delta in rest]
    assert directed == sorted(directed, reverse=True)


def test_what_goes_against_an_expected_counter_is_unexpected_all_the_same() -> None:
    store = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"
    new = with_metrics(make_profile(), **{store: 0.0, WAVEFRONTS: 50_000})
    comparison = compare(make_profile(), new, old_time=None, new_time=None)
    expected = [Expectation(counter="shared_store_bank_conflicts", change="to 0")]
    assert "shared_bank_conflicts" not in {d.id for d in side_effects(comparison, expected)}
    assert "shared_wavefronts" in {d.id for d in side_effects(comparison, expected)}


def test_what_follows_from_a_counter() -> None:
    following = catalog().following
    # Registers limit the blocks on an SM, those its warps.
    assert {"occupancy_limit_registers", "achieved_occupancy"} <= following("registers")
    assert "shared_wavefronts" in following("shared_store_bank_conflicts")
    assert {"flop_rate", "cycles"} <= following("duration")
    assert not following("duration") & {"instructions", "flops", "dram_bytes"}
    assert not following("mio_throttle")


@pytest.mark.parametrize(
    ("change", "form", "number", "sign"),
    [
        ("-50%", "relative", -50, ""),
        ("−50 %", "relative", -50, ""),
        ("+20%", "relative", 20, ""),
        ("+2x", "factor", 2, ""),
        ("2x", "factor", 2, ""),
        ("-4x", "factor", -4, ""),
        ("to 0", "to", 0, ""),
        ("to 100%", "to", 100, ""),
        ("< 0.1x", "ratio", 0.1, "<"),
        (">=2×", "ratio", 2, ">="),
        ("<= 32", "bound", 32, "<="),
        (">= 0.9 of peak", "peak", 0.9, ">="),
        (" up ", "up", 0, ""),
        ("down", "down", 0, ""),
        ("same", "same", 0, ""),
    ],
)
def test_grammar(change: str, form: str, number: float, sign: str) -> None:
    found = parse_prediction(change)
    assert (found.form, found.number, found.sign) == (form, number, sign)


@pytest.mark.parametrize("change", ["", "50%", "much", "-50", "0x", "> x", "to", "-50% or so"])
def test_what_cannot_be_read_is_refused(change: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_prediction(change)
    assert change in error.value.message and "to 0" in error.value.hint
