"""Of ncu's set *basic* no step says that no counter explains it where a share of a peak does.

A unit near its peak that had more or less to do takes as much more or less time. How much it had to
do is its share times the cycles; that is worked out here from the report's own metrics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from itertools import pairwise, permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.analysis.test_attribution import recorded_ladders
from tests.analysis.test_derived import SHARE, basic, profile
from workbench.analysis.story import Step
from workbench.model import InstructionTable, Launch, Profile
from workbench.ncurep.read import read_report

DATA = Path(__file__).resolve().parents[1] / "data"
#: Its sections are SpeedOfLight, LaunchStats, Occupancy and WorkloadDistribution.
_KEPT = re.compile(
    r".*\.pct_of_peak_sustained_elapsed|(launch|device)__.*|gpu__time_duration.*"
    r"|(sm|smsp|l1tex|lts|dram)__cycles_(active|elapsed).*|sm__(warps_active|maximum_warps).*"
)
#: Units that do a kernel's work, each by the metric of its share.
UNITS = (
    *("sm__issue_active", "dram__cycles_active", "lts__t_sectors"),
    *("l1tex__data_pipe_lsu_wavefronts", "sm__pipe_tensor_cycles_active"),
    *("sm__pipe_fma_cycles_active", "sm__pipe_alu_cycles_active"),
    *("sm__inst_executed_pipe_xu", "sm__pipe_fp64_cycles_active"),
)
#: From this share a unit binds whatever else is near its peak; what is derived errs by so much.
_FULL, _ERROR = 70.0, 0.03
_NONE = "No counter"
#: What a report has of the same unit beside its share.
_BESIDE = {
    "sm__issue_active": ("sm__inst_executedX",),
    "dram__cycles_active": ("gpu__dram_throughputX", "dram__throughputX"),
}


def reduced(side: Profile) -> Profile:
    """As if ncu had been asked for that set alone."""

    def own(launch: Launch) -> Launch:
        kept = {n: metric for n, metric in launch.metrics.items() if _KEPT.fullmatch(n)}
        return replace(launch, metrics=kept, instructions=InstructionTable())

    return replace(side, launches=tuple(map(own, side.launches)))


def done(side: Profile, unit: str) -> tuple[float, float, float] | None:
    """Cycles that a unit needs at its peak, all cycles, and its highest share."""
    work = whole = share = 0.0
    for launch in side.launches:
        cycles, own = (
            launch.metrics.get(name) for name in ("sm__cycles_elapsed.max", unit + SHARE)
        )
        if cycles is None or own is None:
            return None
        work += float(own.value) / 100 * float(cycles.value)
        whole += float(cycles.value)
        share = max(share, float(own.value))
    return work, whole, share


def explaining(old: Profile, new: Profile) -> Iterator[str]:
    """Units that were full on both sides, and whose work makes half of the change or more."""
    for unit in UNITS:
        sides = done(old, unit), done(new, unit)
        if sides[0] is None or sides[1] is None or min(x[2] for x in sides if x) < _FULL:
            continue
        work, cycles = (math.log(sides[1][n] / sides[0][n]) for n in (0, 1))
        if abs(work) > math.log1p(_ERROR) and work * cycles > 0 and abs(work) >= abs(cycles) / 2:
            yield unit


def check(old: Profile, new: Profile) -> bool:
    """Whether a unit explains the step; then the sentence may not deny it."""
    old, new = reduced(old), reduced(new)
    found = list(explaining(old, new))
    if found:
        step = Step(old, new, ("old", "new"))
        speed = step.comparison.speed
        if speed is not None and speed.moved:
            assert _NONE not in step.story.sentence, (found, step.story.sentence)
    return bool(found)


def captured() -> Iterator[tuple[Profile, Profile]]:
    """What was profiled in the captures that are kept."""
    from workbench.programs.capture.capture_store import Shelf
    from workbench.programs.compared.program import compare_programs
    from workbench.programs.compared.steps import closer, told
    from workbench.programs.recalled import open_capture

    shelf = Shelf(DATA / "programs")
    names = sorted({name.rpartition("-")[0] for name in shelf.names()})
    for name in names:
        if not {f"{name}-before", f"{name}-after"} <= set(shelf.names()):
            continue
        old, new = (open_capture(shelf, f"@{name}-{side}") for side in ("before", "after"))
        difference = compare_programs(old.capture, new.capture)
        for row in told(difference):
            near = closer(row, difference, (old.detail, new.detail))
            if near.old is not None and near.new is not None:
                yield near.old, near.new


@pytest.mark.slow
def test_no_capture_denies_what_a_share_explains() -> None:
    found = [check(*pair) for pair in captured()]
    assert any(found)


def test_no_report_denies_what_a_share_explains(report: Callable[[str], Path]) -> None:
    names = ("ladder_full", "ladder_focus", "sgemm_v3", "sgemm_samples_v4", "sgemm_samples_v10")
    sides = [read_report(report(name)) for name in names]
    for old, new in permutations(sides, 2):
        check(old, new)


@pytest.mark.slow
def test_no_recorded_step_denies_what_a_share_explains(repo: Path) -> None:
    """Of one device; in most of them no unit is full, and there is nothing to be denied."""
    steps = [pair for ladder in recorded_ladders(repo) for pair in pairwise(ladder)]
    assert sum(check(old, new) for old, new in steps if old.engine == "ncu") >= 20


@settings(max_examples=25, deadline=None)
@given(
    unit=st.sampled_from(UNITS),
    shares=st.tuples(st.floats(90.0, 99.0), st.floats(90.0, 99.0)),
    factor=st.one_of(st.floats(0.2, 0.8), st.floats(1.25, 5.0)),
)
def test_a_full_unit_with_other_work_is_never_denied(
    unit: str, shares: tuple[float, float], factor: float
) -> None:
    units = ("sm__inst_executedX", "sm__issue_activeX", "dram__cycles_activeX")
    own = (unit + "X", *_BESIDE.get(unit, ()))
    idle = {name: 10.0 for name in units if name not in own}
    old, new = (
        profile(
            basic(
                **{n: value * much for n, value in idle.items()},
                **dict.fromkeys(own, share),
                **{"gpu__time_duration.sum": 1e-3 * time, "sm__cycles_elapsed.max": 1e6 * time},
            )
        )
        for share, time, much in ((shares[0], 1.0, 1.0), (shares[1], factor, 1 / factor))
    )
    assert unit in explaining(old, new)
    assert check(old, new)
