"""A launch under the roofline, or the reason why it has no place there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from factories import make_launch, make_metrics

from workbench.analysis.roofline import Position, position, traffic
from workbench.counters import Missing

FLOPS = {
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1000,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 24,
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 24,
}
BYTES = {"dram__bytes_read.sum": 600, "dram__bytes_write.sum": 424, "lts__t_sectors.sum": 64}


def place(**metrics: float | None) -> Position | Missing:
    return position(make_launch(metrics=make_metrics(**{**FLOPS, **BYTES, **metrics})))


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
    assert traffic(make_launch(metrics={})) == {}


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
