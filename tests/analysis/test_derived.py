"""Counts that follow from shares of peaks, where a report holds no counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.factories import make_launch, make_profile
from workbench.analysis.compare import compare
from workbench.analysis.limits.limit import works_of
from workbench.analysis.story import Step
from workbench.counters import Missing, Reading, read
from workbench.model import InstructionTable, Launch, Metric, Profile
from workbench.ncurep.read import read_report
from workbench.views.html.parts import text

SHARE = ".avg.pct_of_peak_sustained_elapsed"
#: One launch as the set *basic* has it: 1,000 cycles, 10 SMs, a bus of 32 bytes.
BASIC = {
    "gpu__time_duration.sum": 1e-6,
    "sm__cycles_elapsed.max": 1000.0,
    "sm__cycles_active.avg": 800.0,
    f"sm__inst_executed{SHARE}": 50.0,
    f"sm__issue_active{SHARE}": 60.0,
    f"dram__cycles_active{SHARE}": 25.0,
    "dram__cycles_elapsed.avg.per_second": 1e9,
    "device__attribute_multiprocessor_count": 10,
    "device__attribute_max_ipc_per_multiprocessor": 4,
    "device__attribute_fb_bus_width": 256,
}


def basic(**changes: float) -> Launch:
    values = {**BASIC, **{name.replace("X", SHARE): value for name, value in changes.items()}}
    metrics = {name: Metric(value=value) for name, value in values.items()}
    return make_launch(metrics=metrics, instructions=InstructionTable())


def profile(launch: Launch) -> Profile:
    return make_profile(study="", version="", problem="", sources=(), launches=(launch,))


def test_a_share_of_a_known_peak_is_a_count() -> None:
    launch = basic()
    for counter, value in (("instructions", 20000), ("dram_bytes", 16000), ("issue_active", 75.0)):
        found = read(launch, counter)
        assert isinstance(found, Reading) and found.derived
        assert found.value == pytest.approx(value)
    assert text(launch, "instructions") == "≈20.0 k"


def test_what_was_counted_is_not_derived() -> None:
    counted = replace(basic(), metrics={**basic().metrics, "smsp__inst_executed.sum": Metric(7)})
    found = read(counted, "instructions")
    assert isinstance(found, Reading) and (found.value, found.derived) == (7, False)


def test_what_is_made_of_something_derived_is_derived() -> None:
    launch = basic()
    found = read(launch, "dram_bandwidth")
    assert isinstance(found, Missing) or found.derived


def test_a_derived_counter_says_so_and_moves_beyond_its_error() -> None:
    delta = compare(profile(basic()), profile(basic(sm__inst_executedX=25.0)))["instructions"]
    assert delta.derived and delta.moved and delta.title == "Instructions executed (derived)"
    assert delta.words == "20.0 k → 10.0 k (−50.0%)"
    near = compare(profile(basic()), profile(basic(sm__inst_executedX=51.0)))["instructions"]
    assert near.derived and not near.moved and near.noise == pytest.approx(0.03 * 20400)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("sm__pipe_fp64_cycles_active", "Cycles of the FP64 pipe at its peak rate"),
        ("lts__t_sectors", "Cycles of the L2 at its peak rate"),
        ("l1tex__data_pipe_lsu_wavefronts", "Cycles of the L1 data stage at its peak rate"),
    ],
)
def test_the_work_of_a_full_unit_explains_the_time(unit: str, words: str) -> None:
    faster = {"gpu__time_duration.sum": 0.5e-6, "sm__cycles_elapsed.max": 500.0}
    still = {"sm__inst_executedX": 100.0, "sm__issue_activeX": 100.0, "dram__cycles_activeX": 50.0}
    idle = {name: value / 10 for name, value in still.items()}
    old = basic(**{unit + "X": 95.0, **{n: v / 2 for n, v in idle.items()}})
    new = basic(**{unit + "X": 80.0, **idle, **faster})
    sides = works_of(profile(old)), works_of(profile(new))
    name, before = max(sides[0].items(), key=lambda each: each[1])
    assert sides[1][name] / before == pytest.approx(80 / 95 / 2)
    step = Step(profile(old), profile(new), ("a", "b"))
    assert words in step.story.sentence and "No counter" not in step.story.sentence
    assert step.story.cause.proofs[0].counter.derived


#: What a report of ncu's basic set does not hold.
_COUNTS = ("inst_executed", "dram__bytes", "dram__sectors", "smsp__inst", "sm__inst_executed.")


def without_counts(launch: Launch) -> Launch:
    metrics = {
        name: metric
        for name, metric in launch.metrics.items()
        if not name.startswith(_COUNTS) or "pct_of_peak" in name
    }
    return replace(launch, metrics=metrics, instructions=InstructionTable())


REPORTS = (
    "ladder_full", "cutlass-before", "cutlass-after", "fortran-division", "fortran-multiplication",
    "gemm-v8", "gemm-v9", "full-then-basic-before", "unequal-launches-v1", "unequal-launches-v2",
    "rtx4090-ncu2023.1-transpose-source-no-rules", "v100-ncu2022.2-source-rules",
)  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
def test_derived_counts_agree_with_those_of_the_chip(
    report: Callable[[str], Path], name: str
) -> None:
    compared = 0
    for launch in read_report(report(name)).launches:
        for counter, error in (("instructions", 0.025), ("dram_bytes", 0.01)):
            true, found = read(launch, counter), read(without_counts(launch), counter)
            if isinstance(true, Reading) and isinstance(found, Reading) and true.value:
                assert found.derived and not true.derived
                assert found.value == pytest.approx(true.value, rel=error)
                compared += 1
    assert compared


def test_a_reduction_of_the_basic_set_has_its_cause(report: Callable[[str], Path]) -> None:
    old, new = (read_report(report(f"basic-modulo-{side}")) for side in ("before", "after"))
    story = Step(old, new, ("before", "after")).story
    counter = story.cause.proofs[0].counter
    assert counter.id == "instructions" and counter.relative == pytest.approx(-0.69, abs=0.01)
    assert "(derived)" in story.sentence and "No counter" not in story.sentence
