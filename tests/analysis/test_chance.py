"""Counts that hang on how warps meet: what a chip may count, and which verdicts stand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.factories import make_instructions, make_launch, make_profile
from workbench.analysis.aggregate import combine
from workbench.analysis.compare import Comparison, Delta, compare, doubt, possible
from workbench.analysis.expectations import Judgement, judge
from workbench.analysis.times.noise import chances, lines_by_timing
from workbench.model import ByTiming, Metric, Number, Profile
from workbench.specs import Expectation

WAVES, SECTORS = "memory_l1_wavefronts_shared", "memory_l2_theoretical_sectors_global"
ESTIMATE = "ptx__machine_inst_estimate"
#: Rows 0 and 1 are of line 3 of the factory's source, 2 of line 4, 3 and 4 of line 5.
LINES = "lines 3 and 5 of kernels/demo/v2_tile.cu run a number of times that depends on timing"
LINE = "line 5 of kernels/demo/v2_tile.cu runs a number of times that depends on timing"


def counted(
    metrics: Mapping[str, Number], without: Mapping[str, Number | None] | None = None
) -> Profile:
    """An emulated launch; of `without` (None: nothing is marked) rows 1 and 3 are the reason."""
    table = make_instructions(**{WAVES: {1: 1, 3: 1}, SECTORS: {0: 1, 3: 1}})
    launch = make_launch(
        metrics={name: Metric(value=value) for name, value in metrics.items()},
        instructions=table,
        by_timing=None if without is None else ByTiming(rows=(1, 3), without=dict(without)),
    )
    return make_profile(engine="emulator", launches=(launch,))


def other_code(profile: Profile) -> Profile:
    """The same counts of other instructions."""
    (launch,) = profile.launches
    table = structs.replace(launch.instructions, text=("NOP",) * len(launch.instructions.text))
    return structs.replace(profile, launches=(structs.replace(launch, instructions=table),))


def of_waves(whole: Number, rest: Number | None = None) -> Profile:
    return counted({WAVES: whole}, None if rest is None else {WAVES: rest})


def judged(comparison: Comparison, change: str, counter: str = "shared_wavefronts") -> Judgement:
    (found,) = judge([Expectation(counter=counter, change=change)], comparison)
    return found


def test_lines_that_hold_much_of_a_counter_may_make_anything_of_it() -> None:
    profile = of_waves(1000, 400)
    chance = chances(profile, combine(profile))["shared_wavefronts"]
    assert chance.low == 400 and chance.high > 1e6 * 500
    assert chance.words == f"{LINES}, and hold 60.0% of the count"


def test_lines_that_hold_little_of_it_are_taken_to_run_ten_times_as_often_at_most() -> None:
    profile = of_waves(1000, 995)
    chance = chances(profile, combine(profile))["shared_wavefronts"]
    assert (chance.low, chance.high) == (995, 995 + 10 * 5)


def test_a_counter_that_they_are_not_counted_in_is_certain() -> None:
    profile = counted({WAVES: 1000, SECTORS: 8000}, {WAVES: 400})
    assert set(chances(profile, combine(profile))) == {"shared_wavefronts"}
    plain = of_waves(1000)
    assert chances(plain, combine(plain)) == {}


def test_only_lines_that_count_to_the_counter_are_named() -> None:
    profile = counted({SECTORS: 100}, {SECTORS: 30})
    assert chances(profile, combine(profile))["global_sectors"].words.startswith(LINE)
    assert lines_by_timing(profile.launches, profile.sources)[1] == 2
    # No instruction has a column of it: they are all named.
    loads = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    profile = counted({loads: 100}, {loads: 30})
    assert chances(profile, combine(profile))["global_load_requests"].words.startswith(LINES)


def test_a_ratio_that_they_move_may_be_anything() -> None:
    ratio = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
    for rest, high in ((20.0, 1e6 * 32), (None, 1e6 * 32), (31.99, 32.0)):
        profile = counted({ratio: 32.0}, {ratio: rest})
        chance = chances(profile, combine(profile))["global_load_bytes_per_sector"]
        assert chance.high == pytest.approx(high) and chance.words == LINES
        share = chances(profile, combine(profile))["global_load_efficiency"]
        assert share.high == 100.0


def test_what_compiler_and_launch_fix_is_certain_in_the_larger_launch_too() -> None:
    small = make_launch(
        kernel="clear",
        metrics={ESTIMATE: Metric(value=50), "launch__registers_per_thread": Metric(value=8)},
    )
    (large,) = counted({ESTIMATE: 100, "launch__registers_per_thread": 40}, {ESTIMATE: 10}).launches
    profile = make_profile(engine="emulator", launches=(small, large))
    found = chances(profile, combine(profile))
    assert "registers" not in found
    issued = found["instructions"]
    assert (issued.low, issued.high > 1e6) == (60, True)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (">= 300", "confirmed"),  # the other lines alone are enough
        ("> 100", "confirmed"),
        ("<= 300", "refuted"),
        ("<= 2000", "inconclusive"),
        (">= 500", "inconclusive"),
        ("< 0.3x", "refuted"),
        ("< 0.6x", "inconclusive"),
        ("up", "inconclusive"),
        ("down", "inconclusive"),
        ("same", "inconclusive"),
        ("-50%", "inconclusive"),
        ("-70%", "refuted"),
        ("to 0", "refuted"),
        ("to 700", "inconclusive"),
        ("to 50000", "inconclusive"),  # both ends and what was counted are elsewhere
    ],
)
def test_a_prediction_is_judged_where_it_holds_whatever_a_chip_counts(
    change: str, expected: str
) -> None:
    comparison = compare(of_waves(1000), of_waves(450, 400))
    found = judged(comparison, change)
    assert found.verdict == expected, found.reason
    words = f"{LINES}, and hold 11.1% of the count"
    assert (found.reason == words) == (expected == "inconclusive")
    certain = judged(compare(of_waves(1000), of_waves(450)), change)
    assert certain.verdict != "inconclusive" and "timing" not in certain.reason


def test_the_same_of_the_version_before_and_of_both() -> None:
    before = compare(of_waves(450, 400), of_waves(500))
    assert judged(before, "up").verdict == "inconclusive"
    assert judged(compare(of_waves(450, 400), of_waves(390)), "down").verdict == "confirmed"
    both = compare(of_waves(450, 400), other_code(of_waves(450, 400)))
    # One order gave both sides the same; another one need not.
    assert judged(both, "same").verdict == "inconclusive"


def test_what_timing_does_to_the_same_code_is_no_difference() -> None:
    both = compare(of_waves(450, 400), of_waves(450, 400))
    assert judged(both, "same").verdict == "confirmed"
    # The number itself is as open as before.
    assert judged(both, "<= 500").verdict == "inconclusive"
    estimates = {"ptx__inst_executed": 800, ESTIMATE: 1000}
    alike = [counted(estimates, {"ptx__inst_executed": 500, ESTIMATE: 600}) for _ in range(2)]
    assert judged(compare(*alike), "same", "instructions").verdict == "confirmed"
    assert judged(compare(alike[0], other_code(alike[1])), "same", "instructions").verdict == (
        "inconclusive"
    )


def test_a_trifle_leaves_verdicts_that_are_far_from_it() -> None:
    comparison = compare(of_waves(1000), of_waves(500, 498))
    assert judged(comparison, "-40%").verdict == "confirmed"
    assert judged(comparison, "down").verdict == "confirmed"
    assert judged(comparison, "<= 501").verdict == "inconclusive"


@pytest.mark.parametrize(
    ("change", "rest", "expected"),
    [
        ("up", 1200, "confirmed"),
        ("up", 1100, "inconclusive"),  # within the estimate's own error of 1,000
        (">= 900", 1200, "confirmed"),
        ("down", 1200, "refuted"),
        ("<= 3000", 1200, "inconclusive"),
    ],
)
def test_an_estimate_has_its_error_and_its_chance(change: str, rest: float, expected: str) -> None:
    old = counted({"ptx__inst_executed": 800, ESTIMATE: 1000})
    new = counted(
        {"ptx__inst_executed": 1600, ESTIMATE: 2000}, {"ptx__inst_executed": 900, ESTIMATE: rest}
    )
    found = judged(compare(old, new), change, "instructions")
    assert found.verdict == expected, found.reason
    assert found.reason.startswith(LINES) == (expected == "inconclusive")


counts = st.integers(0, 10**9)


def loose(old: int, new: int, rest: int) -> Delta:
    return compare(of_waves(old), of_waves(max(new, rest), min(new, rest)))["shared_wavefronts"]


@given(old=counts, new=counts, rest=counts, bound=counts)
def test_a_verdict_that_stands_is_that_of_every_possible_count(
    old: int, new: int, rest: int, bound: int
) -> None:
    delta = loose(old, new, rest)
    if delta.chances is None or delta.chances.new is None:
        assert not list(possible(delta))
        return
    why = doubt(delta, lambda one: one.new is not None and one.new <= bound)
    inside = delta.chances.new.low <= bound < delta.chances.new.high
    assert bool(why) == inside


@given(old=counts, new=counts, rest=counts)
def test_other_counts_keep_what_a_counter_is(old: int, new: int, rest: int) -> None:
    delta = loose(old, new, rest)
    for other in possible(delta):
        assert (other.id, other.old, other.unit) == (delta.id, delta.old, delta.unit) or (
            other.old == other.new
        )
        assert other.moved == (other.verdict != "same")
    again = structs.replace(delta, chances=None)
    assert doubt(again, lambda one: one.new) == ""
