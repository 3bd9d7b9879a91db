"""A launch under the roofline, or the reason why it has no place there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.factories import H200, make_launch, make_metrics
from workbench.analysis.limits.roofline import Position, Roof, position, roof, roofs, traffic, work
from workbench.counters import Missing
from workbench.gpus import chip_for
from workbench.model import Column, InstructionTable

FLOPS = {
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1000,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 24,
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 24,
}
BYTES = {"dram__bytes_read.sum": 600, "dram__bytes_write.sum": 424, "lts__t_sectors.sum": 64}


STORES = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
LOCAL = "memory_l2_theoretical_sectors_local"


def place(**metrics: float | None) -> Position | Missing:
    return position(
        make_launch(metrics=make_metrics(**{**FLOPS, **BYTES, LOCAL: 0, STORES: 0, **metrics}))
    )


def test_a_multiply_add_is_two_operations() -> None:
    found = place()
    assert isinstance(found, Position)
    assert found.flops == 2048
    assert found.rate == pytest.approx(2048 / 312e-6)
    assert found.intensity("DRAM") == 2.0 and found.intensity("L2") == 1.0


def test_a_level_that_nobody_measured_has_no_intensity() -> None:
    found = place(**{"lts__t_sectors.sum": None})
    assert isinstance(found, Position)
    assert found.intensity("L2") is None and "L2" not in found.traffic
    assert traffic(make_launch(metrics={}, instructions=InstructionTable())) == {}


def test_shared_memory_is_a_level_with_the_roof_of_the_l1() -> None:
    launch = make_launch(metrics=make_metrics(memory_l1_wavefronts_shared=32))
    assert traffic(launch)["shared"] == 32 * 128
    found = roof(chip_for(H200), launch, "float32")
    assert found.slope("shared") == found.slope("L1") > 0


def test_bulk_copies_leave_no_traffic_at_the_l1() -> None:
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    seen, passed = place(**{sectors: 32}), place(**{sectors: 1})
    assert isinstance(seen, Position) and seen.traffic["L1"] == 1024
    assert isinstance(passed, Position) and "L1" not in passed.traffic and "L2" in passed.traffic


def test_a_tenth_of_the_device_traffic_is_enough_at_the_l1() -> None:
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    for count, kept in ((4, True), (3, False)):  # 128 and 96 of 1,024 bytes
        found = place(**{sectors: count})
        assert isinstance(found, Position) and ("L1" in found.traffic) == kept


def test_local_accesses_cross_the_l1_as_well() -> None:
    metrics = {
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 32,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": 16,
        "memory_l2_theoretical_sectors_local": 8,
    }
    found = traffic(make_launch(metrics=make_metrics(**metrics)))
    assert found["L1"] == 32 * (32 + 16 + 8)


def test_no_traffic_at_any_level_is_no_place() -> None:
    found = place(
        **dict.fromkeys(BYTES, 0), **{"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 0}
    )
    assert isinstance(found, Missing) and "no memory traffic" in found.reason


@pytest.mark.parametrize(
    ("metrics", "word"),
    [
        ({"gpu__time_duration.sum": None}, "duration"),
        ({"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 40.0}, "tensor"),
        ({"smsp__sass_thread_inst_executed_op_dfma_pred_on.sum": 5000}, "float64"),
        (dict.fromkeys(FLOPS, 0), "no float32"),
    ],
)
def test_a_launch_without_a_place_says_why(metrics: dict[str, float | None], word: str) -> None:
    found = place(**metrics)
    assert isinstance(found, Missing) and word in found.reason


def test_the_ladder_does_the_work_of_a_matrix_product(report: Callable[[str], Path]) -> None:
    from workbench.ncurep.read import read_report

    for launch in read_report(report("ladder_full")).launches:
        found = position(launch)
        assert isinstance(found, Position)
        assert found.flops == pytest.approx(2 * 1024**3, rel=1e-9)
        inner, outer = found.intensity("L1"), found.intensity("DRAM")
        assert inner is not None and outer is not None and inner < outer


def table(*rows: tuple[str, int, int]) -> InstructionTable:
    """Rows of (SASS, executions by warps, executions by threads)."""
    every = tuple(range(len(rows)))
    return InstructionTable(
        address=tuple(16 * row for row in every),
        text=tuple(row[0] for row in rows),
        columns={
            "inst_executed": Column(rows=every, values=tuple(row[1] for row in rows)),
            "thread_inst_executed_true": Column(rows=every, values=tuple(row[2] for row in rows)),
        },
    )


def work_of(*rows: tuple[str, int, int]) -> Mapping[Any, float] | Missing:
    launch = make_launch(metrics=make_metrics(**{**FLOPS, **BYTES}))
    return work(msgspec.structs.replace(launch, instructions=table(*rows)))


@pytest.mark.parametrize(
    ("sass", "unit", "operations"),
    [
        ("HMMA.16816.F32 R4, R8, R10, R4", "tensor half", 4096),
        ("@!P0 HMMA.16816.F32.BF16 R4, R8, R10, R4", "tensor half", 4096),
        ("HMMA.1688.F32.TF32 R4, R8, R10, R4", "tensor TF32", 2048),
        ("IMMA.16832.S8.S8 R4, R8.ROW, R10.COL, R4", "tensor int8", 8192),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", "tensor half", 2 * 64 * 128 * 16 / 4),
    ],
)
def test_a_matrix_product_counts_by_the_shape_in_its_opcode(
    sass: str, unit: str, operations: float
) -> None:
    assert work_of((sass, 10, 320)) == {"float32": 2048, unit: 10 * operations}


def test_a_byte_dot_product_is_eight_operations_of_a_thread() -> None:
    assert work_of(("IDP.4A.S8.S8 R0, R1, R2, R0", 10, 300)) == {"float32": 2048, "dp4a": 2400}


@pytest.mark.parametrize(
    "sass", ["HMMA.SP.16832.F32 R4, R8", "QGMMA.64x8x32.F32 R4", "IMMA.16864.S4.S4 R"]
)
def test_tensor_work_that_cannot_be_counted_has_no_place(sass: str) -> None:
    metrics = {
        **FLOPS,
        **BYTES,
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 40,
    }
    launch = make_launch(metrics=make_metrics(**metrics))
    found = position(msgspec.structs.replace(launch, instructions=table((sass, 10, 320))))
    assert isinstance(found, Missing) and sass.split()[0] in found.reason


def test_the_unit_that_did_most_sets_the_roof() -> None:
    launch = make_launch(metrics=make_metrics(**{**FLOPS, **BYTES}))
    mixed = table(("HMMA.16816.F32 R4, R8, R10, R4", 10, 320))
    found = position(msgspec.structs.replace(launch, instructions=mixed))
    assert isinstance(found, Position)
    assert found.unit == "tensor half" and found.flops == 2048 + 40960


def test_the_roof_is_the_units_at_the_clock_that_was_seen() -> None:
    chip = chip_for(H200)
    assert chip is not None
    slow = make_launch(metrics=make_metrics(**{"smsp__cycles_elapsed.avg.per_second": 1e9}))
    found = roof(chip, slow, "float32")
    assert (found.flops, found.bandwidth) == (chip.fp32_peak(1e9), chip.memory_bandwidth)
    assert roof(chip, slow, "tensor half").flops == chip.tensor_peak(chip.tensor_half, 1e9)
    assert roof(None, slow, "float32") == Roof()


def test_device_memory_bounds_the_rate_below_the_ridge_alone() -> None:
    found = Roof(flops=60e12, bandwidth=4e12)
    assert found.above(10.0, "DRAM") == 40e12 and found.above(100.0, "DRAM") == 60e12
    assert found.above(10.0, "L1") == 60e12  # nobody knows its bandwidth
    steep = Roof(flops=60e12, bandwidth=4e12, l1=30e12, l2=8e12)
    assert steep.above(1.0, "L1") == 30e12 and steep.above(1.0, "L2") == 8e12
    assert steep.above(10.0, "L1") == steep.above(10.0, "L2") == 60e12


def test_launches_share_a_roof_for_each_unit_at_the_highest_clock() -> None:
    chip, at = chip_for(H200), place()
    assert chip is not None and isinstance(at, Position)
    clocks = (1.2e9, 1.5e9, 1.1e9)
    name = "smsp__cycles_elapsed.avg.per_second"
    launches = [make_launch(metrics=make_metrics(**{name: clock})) for clock in clocks]
    (only,) = roofs([(launch, at) for launch in launches], chip)
    assert only.flops == chip.fp32_peak(1.5e9)
