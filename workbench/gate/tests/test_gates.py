"""Gates: what passes, what fails, what cannot be judged; and the settings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import make_launch, make_profile, make_timing, padded, with_metrics
from workbench.analysis.compare import Comparison, compare
from workbench.analysis.expectations import judge
from workbench.errors import UsageError
from workbench.gate.rules import Gate, Rules, check_step, inconclusive, overall, read_rules
from workbench.model import InstructionTable, Metric, Number, Profile
from workbench.specs import Expectation


def step(old: float = 310e-6, new: float = 206e-6, **more: Any) -> Comparison:
    return compare(
        make_profile(),
        padded(make_profile(version="v3")),
        old_time=make_timing(old, **more),
        new_time=make_timing(new, version="v3", **more),
    )


NO_RULES = Rules()


def gates(
    comparison: Comparison, rules: Rules = NO_RULES, *expected: Expectation
) -> dict[str, Gate]:
    found = check_step(
        comparison, judge(expected, comparison), rules, version="demo/v3", file="v3.cu"
    )
    return {gate.name: gate for gate in found}


def test_slower_step_fails_beyond_its_interval_only() -> None:
    assert gates(step(200e-6, 210e-6))["duration"].status == "fail"
    # 5% slower with intervals of ±5% is no regression that anybody has seen, and none excluded.
    wide = gates(step(200e-6, 210e-6, width=0.05))["duration"]
    assert wide.status == "inconclusive" and "neither within 2.50% nor beyond" in wide.message


def test_a_pass_excludes_a_slow_down_of_the_resolution() -> None:
    equal = step(200e-6, 200e-6, width=0.006)  # the ratio is known to ±1.2%
    assert gates(equal)["duration"].status == "pass"
    finer = read_rules({"check": {"resolution": "0.5%"}})
    assert gates(equal, finer)["duration"].status == "inconclusive"


def test_an_allowed_regression_is_one_of_time_not_of_speed() -> None:
    # Twice the time is allowed: a speed of one half, not of none.
    rules = read_rules({"check": {"max_regression": "100%"}})
    assert gates(step(200e-6, 390e-6, width=0.001), rules)["duration"].status == "pass"
    assert gates(step(200e-6, 410e-6, width=0.001), rules)["duration"].status == "fail"


def test_a_counter_may_get_worse_by_what_is_allowed_and_no_more() -> None:
    worse = with_metrics(make_profile(version="v3"), memory_l1_wavefronts_shared=33792 * 5 // 4)
    changed = with_metrics(make_profile(version="v3"), launch__grid_size=64)
    for profile, name, allowed, status in (
        (worse, "shared_wavefronts", "24%", "fail"),
        (worse, "shared_wavefronts", "25%", "pass"),
        (worse, "shared_wavefronts", "26%", "pass"),
        (changed, "blocks", "0%", "pass"),  # neither better nor worse
    ):
        rules = read_rules({"check": {"counters": {name: allowed}}})
        comparison = compare(make_profile(), profile)
        assert comparison[name].moved
        assert gates(comparison, rules)[name].status == status, (name, allowed)


@pytest.mark.parametrize(
    ("bound", "status"),
    [
        ("<= 30", "pass"), ("< 30", "fail"), (">= 30", "pass"), ("> 30", "fail"),
        ("<= 29.5", "fail"), ("< 30.5", "pass"), (">= 30.5", "fail"), ("> 29.5", "pass"),
    ],
)  # fmt: skip
def test_limits_hold_at_their_bound_as_written(bound: str, status: str) -> None:
    rules = read_rules({"check": {"limits": {"registers": bound}}})
    assert gates(step(), rules)["registers"].status == status


def test_expectations_are_gates_with_their_line() -> None:
    found = gates(
        step(),
        NO_RULES,
        Expectation(counter="shared_wavefronts", change="-90%", line=7),
        Expectation(counter="registers", change="to 16", line=11),
        Expectation(counter="dram_bytes", change="up", line=15),
    )
    states = {name: (gate.status, gate.line) for name, gate in found.items()}
    assert states["shared_wavefronts"] == ("pass", 7)
    assert states["registers"] == ("fail", 11)
    assert states["dram_bytes"] == ("inconclusive", 15)
    assert overall(list(found.values())) == "fail"


def test_a_gate_that_refuses_what_was_predicted_says_so() -> None:
    slower = step(200e-6, 206e-6, width=0.001)
    allowed = Expectation(counter="duration", change="< 1.05x", line=7)

    def regression(*expected: Expectation) -> str:
        judged = judge(expected, slower)
        found = check_step(slower, judged, NO_RULES, version="demo/v3", file="v3.cu")
        assert [gate.status for gate in found if gate.kind == "regression"] == ["fail"]
        return next(gate.message for gate in found if gate.kind == "regression")

    assert "the prediction duration < 1.05x allows it" in regression(allowed)
    assert "widen max_regression" in regression(allowed)
    # Refuted itself, it contradicts nothing; nor does a prediction of something else.
    assert "allows" not in regression(Expectation(counter="duration", change="down", line=7))
    assert "allows" not in regression(Expectation(counter="registers", change="< 2x", line=7))


def test_required_expectations() -> None:
    rules = read_rules({"check": {"require_expectations": True}})
    assert gates(step(), rules)["expectations"].status == "fail"


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ({"max_regresion": "2%"}, "max_regresion"),
        ({"max_regression": 2}, "max_regression"),
        ({"max_regression": "two"}, "'two'"),
        ({"require_expectations": "yes"}, "require_expectations"),
        ({"counters": {"shared_wavefront": "1%"}}, "shared_wavefront"),
        ({"counters": ["shared_wavefronts"]}, "counters"),
        ({"limits": {"registers": "few"}}, "few"),
        ("2%", "table"),
    ],
)
def test_wrong_settings_are_named(table: object, word: str) -> None:
    with pytest.raises(UsageError) as error:
        read_rules({"check": table})
    assert word in error.value.message and error.value.hint


def test_overall() -> None:
    open_gate = inconclusive("v3", "v3.cu", "why")
    passed = next(iter(gates(step()).values()))
    assert overall([]) == "inconclusive"
    assert overall([passed]) == "pass"
    assert overall([passed, open_gate]) == "inconclusive"


def counted(version: str, estimate: float | None = 1300, **changes: Number) -> Profile:
    """What the emulator counted of one launch."""
    values: dict[str, Number] = {
        "ptx__inst_executed": 1000,
        "memory_l2_theoretical_sectors_global": 4096,
        "memory_l1_wavefronts_shared": 0,
        "memory_l1_wavefronts_shared_ideal": 0,
        **changes,
    }
    if estimate is not None:
        values["ptx__machine_inst_estimate"] = estimate
    metrics = {name: Metric(value=value) for name, value in values.items()}
    launch = make_launch(metrics=metrics, instructions=InstructionTable())
    return make_profile(version=version, engine="emulator", launches=(launch,))


def told(old: Profile, new: Profile, *expected: Expectation) -> dict[tuple[str, str], Gate]:
    comparison = compare(old, new)
    judged = judge(expected, comparison)
    found = check_step(comparison, judged, NO_RULES, version="demo/v3", file="v3.cu")
    return {(gate.kind, gate.name): gate for gate in found}


def statuses(old: Profile, new: Profile, *expected: Expectation) -> dict[str, str]:
    found = told(old, new, *expected)
    return {name: gate.status for (kind, name), gate in found.items() if kind == "regression"}


def test_what_has_no_time_is_judged_by_its_counts() -> None:
    same = {"instructions": "pass", "global_sectors": "pass", "shared_wavefronts": "pass"}
    assert statuses(counted("v2"), counted("v3")) == same
    few = counted("v2", memory_l1_wavefronts_shared=400)
    many = counted("v3", memory_l1_wavefronts_shared=900)
    assert statuses(few, many) == {**same, "shared_wavefronts": "fail"}
    predicted = Expectation(counter="shared_wavefronts", change="up")
    assert statuses(few, many, predicted) == same
    message = told(few, many, predicted)["regression", "shared_wavefronts"].message
    assert message == "Shared wavefronts: ×2.25, as predicted"


def test_instructions_are_the_machines() -> None:
    """PTX says +3.5%, and ptxas made 6% fewer of it."""
    found = told(counted("v2"), counted("v3", 1222, ptx__inst_executed=1035))
    gate = found["regression", "instructions"]
    assert gate.status == "pass"
    assert gate.message == "Instructions executed (estimated): −6.0%"
    few = counted("v2", 1222, ptx__inst_executed=1035)
    for most, status in ((1400, "pass"), (1500, "fail")):  # 15% may be the estimate's error
        gate = told(few, counted("v3", most))["regression", "instructions"]
        assert gate.status == status
    without = told(counted("v2", None), counted("v3", None, ptx__inst_executed=1035))
    gate = without["regression", "instructions"]
    assert gate.status == "inconclusive" and "not known on both sides" in gate.message


def test_to_begin_with_shared_memory_is_not_worse_and_conflicts_are() -> None:
    ideal = {"memory_l1_wavefronts_shared": 900, "memory_l1_wavefronts_shared_ideal": 900}
    comparison = compare(counted("v2"), counted("v3", **ideal))
    assert comparison["shared_wavefronts"].verdict == "changed"
    assert statuses(counted("v2"), counted("v3", **ideal))["shared_wavefronts"] == "pass"
    excess = compare(counted("v2"), counted("v3", memory_l1_wavefronts_shared=900))
    assert excess["shared_wavefronts_excess"].verdict == "worse"
