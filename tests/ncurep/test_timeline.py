"""PM samples: series that start with the kernel, whatever pass they were taken in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ncurep.fake_reader import FakeAction, FakeMetric
from workbench.model import Timeline
from workbench.ncurep.extract import read_timeline
from workbench.ncurep.read import read_report

T0 = 1_795_331_374_504_875_552
SHARE = "avg.pct_of_peak_sustained_elapsed"
BUSY = f"TPC.TriageCompute.sm__inst_executed_realtime.{SHARE}"


def sampled(values: list[float], start: int = T0, step: int = 1500) -> FakeMetric:
    """As ncu writes it: a sum that means nothing at id 0, then the samples."""
    return FakeMetric(0.0, "%", {0: 7.0, **{start + n * step: v for n, v in enumerate(values)}})


def timeline(**metrics: FakeMetric | None) -> Timeline | None:
    return read_timeline(FakeAction(metrics))


def test_what_lies_around_the_kernel_is_cut_away() -> None:
    found = timeline(
        **{
            BUSY: sampled([0, 0, 10, 20, 30, 0]),
            f"FBSP.TriageCompute.dramc__throughput.{SHARE}": sampled([9, 9, 1, 2, 3, 9]),
        }
    )
    assert found is not None
    assert found.samples == 3 and found.interval == pytest.approx(1.5e-6)
    assert found.columns[f"dramc__throughput.{SHARE}"].values == (1, 2, 3)
    assert found.columns[f"sm__inst_executed_realtime.{SHARE}"].rows == (0, 1, 2)


def test_passes_with_clocks_of_their_own_start_together() -> None:
    stalls = "pmsampling:smsp__warps_issue_stalled_barrier.avg"
    found = timeline(
        **{BUSY: sampled([0, 5, 6, 7]), stalls: sampled([0, 0, 0, 1, 0, 3, 0], start=T0 + 10**9)}
    )
    assert found is not None
    column = found.columns["smsp__warps_issue_stalled_barrier.avg"]
    assert (column.rows, column.values) == ((0, 2), (1, 3))  # zeros are left out


def test_passes_of_other_intervals_share_one_grid() -> None:
    """Six samples of 1 µs and three of 2 µs cover the same run."""
    stalls = "pmsampling:smsp__warps_issue_stalled_barrier.avg"
    found = timeline(
        **{
            BUSY: sampled([1, 3, 5, 7, 9, 11], step=1000),
            stalls: sampled([10, 20, 30], start=T0 + 10**9, step=2000),
        }
    )
    assert found is not None
    assert found.samples == 3 and found.interval == pytest.approx(2e-6)
    assert found.columns[f"sm__inst_executed_realtime.{SHARE}"].values == (2, 6, 10)
    assert found.columns["smsp__warps_issue_stalled_barrier.avg"].values == (10, 20, 30)


def test_a_pass_that_ends_early_is_absent_behind_its_end() -> None:
    """A pass in which the kernel took twelve times as long as in the other one."""
    l2, l1 = (f"{unit}__throughput.{SHARE}" for unit in ("lts", "l1tex"))
    found = timeline(
        **{
            BUSY: sampled([50.0] * 24),
            f"FBSP.TriageCompute.{l2}": sampled([50.0, 50.4], T0 + 10**9),
            f"FBSP.TriageCompute.{l1}": sampled([1.0, 1.0], T0 + 10**9),
        }
    )
    assert found is not None
    assert found.samples == 24 and found.reached == {l2: 2, l1: 2}
    assert found.columns[l2].values == (50.0, 50.4)


def test_a_pass_of_states_that_nobody_was_in_at_the_end_saw_zeros() -> None:
    stalls = "pmsampling:smsp__warps_issue_stalled_barrier.avg"
    found = timeline(
        **{BUSY: sampled([5.0] * 6), stalls: sampled([0, 4, 4, 0, 0, 0, 0, 0, 0], T0 + 10**9)}
    )
    assert found is not None
    assert (found.samples, found.reached) == (6, {})
    assert found.columns["smsp__warps_issue_stalled_barrier.avg"].rows == (0, 1)


def test_many_samples_are_merged_by_their_mean() -> None:
    found = timeline(**{BUSY: sampled([float(n % 2 + 1) for n in range(1000)])})
    assert found is not None
    assert found.samples == 256 and found.interval == pytest.approx(1000 / 256 * 1.5e-6)
    (column,) = found.columns.values()
    assert sum(column.values) / 256 == pytest.approx(1.5, abs=0.02)


@pytest.mark.parametrize(
    "metric",
    [
        None,
        FakeMetric(1.0),
        FakeMetric(1.0, "", {1: 2.0, 2: 3.0}),  # instances, but no times
        FakeMetric(1.0, "", {"a": 2.0, "b": 3.0}),
        sampled([float("nan"), 1, 2]),
        sampled([0, 0, 0, 0]),  # no SM was ever active
        sampled([0, 1, 0]),  # one sample
    ],
)
def test_what_is_no_series_is_none(metric: FakeMetric | None) -> None:
    assert timeline(**{BUSY: metric, "gpu__time_duration.sum": FakeMetric(1.0)}) is None


@pytest.mark.parametrize("name", ["sgemm_samples_v4", "sgemm_samples_v10"])
def test_a_real_report_covers_the_kernel_s_run(report: Callable[[str], Path], name: str) -> None:
    (launch,) = read_report(report(name)).launches
    found = launch.timeline
    assert found is not None
    duration = float(launch.metrics["gpu__time_duration.sum"].value)
    assert found.interval * found.samples == pytest.approx(duration, rel=0.02)
    states = [name for name in found.columns if "__warps_issue_stalled_" in name]
    assert len(states) >= 14
    # All passes end with the kernel, whatever they were sampled at.
    for series in (f"sm__inst_executed_realtime.{SHARE}", "smsp__warps_issue_stalled_wait.avg"):
        assert found.columns[series].rows[-1] >= 0.97 * found.samples
    for column in found.columns.values():
        assert all(0 <= row < found.samples for row in column.rows)
    # The mean over time is the launch's own number, for what both speak of.
    share = found.columns[f"sm__inst_executed_realtime.{SHARE}"]
    assert 5 < sum(share.values) / found.samples < 100


def test_a_report_of_everything_has_throughputs_and_no_states(
    report: Callable[[str], Path],
) -> None:
    launches = read_report(report("ladder_full")).launches
    for launch in launches:
        assert launch.timeline is not None
        duration = float(launch.metrics["gpu__time_duration.sum"].value)
        found = launch.timeline.interval * launch.timeline.samples
        assert found == pytest.approx(duration, rel=0.05)
        assert not any("stalled" in name for name in launch.timeline.columns)


def test_a_report_without_samples_has_no_timeline(report: Callable[[str], Path]) -> None:
    assert read_report(report("sgemm_v3")).launches[0].timeline is None
