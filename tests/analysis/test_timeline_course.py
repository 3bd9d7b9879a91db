"""A kernel over time: throughputs by their names, states as shares of all waiting warps."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.factories import make_launch, make_profile
from workbench.analysis.optional import plus
from workbench.analysis.timeline import Course, course, courses, telling
from workbench.model import Column, Launch, Timeline
from workbench.ncurep.read import read_report
from workbench.views.html.charts.drawn import timeline_view

PEAK = "avg.pct_of_peak_sustained_elapsed"


def sampled(columns: dict[str, dict[int, float]], samples: int = 4) -> Launch:
    """A launch with sparse series by ncu's name."""
    series = {
        name: Column(rows=tuple(cells), values=tuple(cells.values()))
        for name, cells in columns.items()
    }
    return replace(make_launch(), timeline=Timeline(interval=1e-6, samples=samples, columns=series))


STALL = "smsp__warps_issue_stalled_{}.avg"
BOTH = sampled(
    {
        f"sm__inst_executed_realtime.{PEAK}": {0: 20.0, 1: 40.0, 3: 60.0},
        f"dramc__throughput.{PEAK}": {1: 8.0},
        STALL.format("barrier"): {0: 30.0, 1: 10.0},
        STALL.format("long_scoreboard"): {0: 10.0, 1: 10.0, 2: 5.0},
    }
)


def of(launch: Launch) -> Course:
    found = course(launch)
    assert found is not None
    return found


def test_throughputs_are_dense_and_named() -> None:
    found = of(BOTH)
    assert found.seconds == pytest.approx(4e-6)
    issued, memory = found.throughputs
    assert (issued.title, issued.values) == ("Instructions issued", (20, 40, 0, 60))
    assert (issued.mean, issued.largest) == (30, 60)
    assert (memory.title, memory.mean) == ("Device memory", 2)


def test_states_are_shares_of_the_waiting_warps() -> None:
    first, second = of(BOTH).states
    assert (first.title, first.values) == ("Long scoreboard", (25, 50, 100, 0))
    assert (second.title, second.values) == ("Barrier", (75, 50, 0, 0))


def test_a_pass_that_was_over_has_a_mean_of_what_it_saw() -> None:
    """A twelfth of the run was sampled for the L2: its mean is not a twelfth of what it was."""
    l2 = f"lts__throughput.{PEAK}"
    launch = sampled({f"sm__inst_executed_realtime.{PEAK}": {0: 40.0}, l2: {0: 50.2}}, samples=12)
    assert launch.timeline is not None
    launch = replace(launch, timeline=replace(launch.timeline, reached={l2: 1}))
    issued, cache = of(launch).throughputs
    assert issued.mean == pytest.approx(40 / 12) and issued.sampled == 1.0
    assert (cache.mean, cache.largest) == (50.2, 50.2)
    assert cache.values == (50.2, *[None] * 11)
    assert (
        cache.origin.endswith("sampled for the first 8% of the run") and issued.origin == issued.ncu
    )
    area = timeline_view((of(launch),), ("v1",)).throughputs[1][0]
    assert area is not None and (area.path, area.points) == ("M0 100v-50h1V100z", 12)


def test_shares_of_waiting_warps_need_all_their_states() -> None:
    names = [STALL.format(name) for name in ("barrier", "wait")]
    launch = sampled({names[0]: {0: 3.0, 1: 3.0}, names[1]: {0: 1.0}}, samples=2)
    assert launch.timeline is not None
    launch = replace(launch, timeline=replace(launch.timeline, reached={names[1]: 1}))
    assert [lane.values for lane in of(launch).states] == [(75.0, None), (25.0, None)]


def test_a_state_that_matters_on_one_side_is_told_of_both() -> None:
    other = of(sampled({STALL.format(name): {0: 1.0} for name in ("barrier", "wait")}))
    assert set(telling((of(BOTH), other))) == {"Long scoreboard", "Barrier", "Wait"}
    view = timeline_view((of(BOTH), other), ("v1", "v2"))
    rows = {area.lane.title: row for row in view.states for area in row if area}
    assert [area.lane.mean for area in rows["Barrier"] if area] == [31.25, 12.5]
    assert rows["Wait"][0] is None  # that side was not sampled for it


def test_both_runs_are_drawn_on_one_scale_of_time() -> None:
    short, long = of(BOTH), replace(of(BOTH), seconds=16e-6)
    row = timeline_view((short, long), ("v1", "v2")).throughputs[0]
    assert [area.share for area in row if area] == [0.25, 1.0]
    area = row[0]
    # Up to each height, one step right, and back to the ground.
    assert area is not None and area.path == "M0 100v-20h1v-20h1v40h1v-60h1V100z"


@pytest.mark.parametrize(
    "launch", [make_launch(), sampled({}), sampled({}, 0), sampled({"x": {0: 1.0}})]
)
def test_without_a_known_series_there_is_no_course(launch: Launch) -> None:
    assert course(launch) is None
    assert courses(make_profile(launches=(launch,))) == ()


def test_real_reports(report: Callable[[str], Path]) -> None:
    runs = [courses(read_report(report(f"sgemm_samples_{v}")))[0] for v in ("v4", "v10")]
    for run in runs:
        assert [lane.title for lane in run.throughputs] == [
            *("Instructions issued", "FMA pipe", "Tensor pipe", "L1/TEX", "L2", "Device memory")
        ]
        known = [value for lane in run.throughputs for value in lane.values if value is not None]
        assert known and all(0 <= value <= 100.1 for value in known)
        told = [plus(*values) for values in zip(*(s.values for s in run.states), strict=True)]
        assert all(total is None or total in (0, pytest.approx(100)) for total in told)
        assert sum(total is not None for total in told) > 0.9 * len(told)
    means = [{lane.title: lane.mean for lane in run.throughputs + run.states} for run in runs]
    # v10 multiplies on tensor cores; v4 does not, and waits for its shared loads.
    assert means[0]["Tensor pipe"] < 0.1 and means[1]["Tensor pipe"] > 50
    assert runs[0].states[0].title == "Short scoreboard" and runs[0].states[0].mean > 40
    view = timeline_view(runs, ("v4", "v10"))
    for row in view.throughputs + view.states:
        for area in filter(None, row):
            steps = re.findall(r"h1", area.path)
            assert len(steps) == area.points <= 128
