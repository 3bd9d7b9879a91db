"""Metric values and units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ncurep.fake_reader import Broken, FakeAction, FakeMetric
from workbench.model import Metric
from workbench.ncurep.values import base_unit, clean, read_metric, read_metrics, to_base


@pytest.mark.parametrize(
    ("unit", "value", "base", "expected"),
    [
        ("ns", 433632.0, "s", 433.632e-6),
        ("nsecond", 1.0, "s", 1e-9),
        ("usecond", 2.5, "s", 2.5e-6),
        ("msecond", 3, "s", 0.003),
        ("second", 2, "s", 2),
        ("Kbyte", 1.5, "byte", 1500),
        ("Gbyte/second", 2.0, "byte/s", 2e9),
        ("byte/ns", 1.0, "byte/s", 1e9),
        ("Ghz", 1.98, "hz", 1.98e9),
        ("cycle/nsecond", 1.5, "cycle/s", 1.5e9),
        ("%", 12.5, "%", 12.5),
        ("byte/block", 4096, "byte/block", 4096),
        ("register/thread", 32, "register/thread", 32),
        ("sectors", 7, "sector", 7),
        ("", 7, "", 7),
        ("furlong", 7, "furlong", 7),
    ],
)
def test_base_units(unit: str, value: float, base: str, expected: float) -> None:
    name, divisor, multiplier = base_unit(unit)
    assert name == base
    assert to_base(value, divisor, multiplier) == expected


def test_integers_stay_integers() -> None:
    metric = read_metric("inst_executed", FakeMetric(2**60 + 1, "inst"))
    assert metric == Metric(value=2**60 + 1, unit="inst")
    assert isinstance(metric.value, int)


@pytest.mark.parametrize(
    ("native", "reason"),
    [
        (None, "not collected for this launch"),
        (FakeMetric(None), "no value"),
        (FakeMetric(""), "no value"),
        (FakeMetric(float("nan"), "%"), "NaN"),
        (FakeMetric(float("inf")), "infinite"),
    ],
)
def test_every_kind_of_no_number_is_named(native: FakeMetric, reason: object) -> None:
    assert read_metric("x", native) == reason


def test_old_launch_integers_and_true_fractions() -> None:
    assert read_metric("launch__registers_per_thread", FakeMetric(32.0)) == Metric(value=32)
    waves = read_metric("launch__waves_per_multiprocessor", FakeMetric(4.0))
    cycles = read_metric("sm__cycles.avg", FakeMetric(4.0))
    assert isinstance(waves, Metric) and isinstance(waves.value, float)
    assert isinstance(cycles, Metric) and isinstance(cycles.value, float)


def test_one_bad_metric_does_not_lose_the_others() -> None:
    action = FakeAction({"good": FakeMetric(1), "bad": Broken(), "gone": None})
    metrics, absent = read_metrics(action)
    assert metrics == {"good": Metric(value=1)}
    assert absent == {"bad": "unreadable: bad variant access", "gone": absent["gone"]}


@pytest.mark.parametrize(
    "name",
    [
        "breakdown:sm__throughput.avg",
        "group:memory__dram_table",
        "SM_A.TriageCompute.sm__inst_executed_realtime.sum",
        "pmsampling:sm__cycles_active.avg",
        "launch__occupancy_per_register_count",
        "derived__pct_occupancy_per_block_size",
        "launch__function_pcs",
    ],
)
def test_what_is_no_measurement_is_left_out(name: str) -> None:
    assert read_metrics(FakeAction({name: FakeMetric(1)})) == ({}, {})


@given(st.text())
def test_cleaned_text_can_always_be_encoded(text: str) -> None:
    assert clean(text + "\udc80").encode() == (text + "?").encode()
