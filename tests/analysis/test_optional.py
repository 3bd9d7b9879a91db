"""Absent is not zero: what nobody counted is nothing, and so is whatever is computed of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.factories import make_instructions, make_launch, make_metrics, make_profile
from workbench.analysis.cause.hypotheses import behaviour_of
from workbench.analysis.compare import compare
from workbench.analysis.limits.limit import loads, state_seconds
from workbench.analysis.limits.roofline import traffic
from workbench.analysis.story import Step
from workbench.analysis.weight import tells
from workbench.model import Launch, Profile
from workbench.ncurep.read import read_report

Given = Mapping[str, float | None]
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
MIO, LONG = STALL.format("mio_throttle"), STALL.format("long_scoreboard")
DURATION = "gpu__time_duration.sum"


def sampled(seconds: float, stalls: bool = True, metrics: Given | None = None) -> Profile:
    """One launch; without stalls neither samples nor ratios were collected."""
    bare = {name: None for name in make_metrics() if "stalled" in name or "pcsamp" in name}
    columns = {"inst_executed": {0: 1024, 1: 1024}}
    launch = make_launch(
        metrics=make_metrics(**{DURATION: seconds, **({} if stalls else bare), **(metrics or {})}),
        **({} if stalls else {"instructions": make_instructions(**columns)}),
    )
    return make_profile(launches=(launch,))


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True), (False, False)])
def test_stalls_that_a_side_did_not_count_moved_by_nothing(before: bool, after: bool) -> None:
    story = Step(sampled(3e-3, before), sampled(1e-3, after), ("v0", "v1")).story
    assert story.cause.stalls == ()
    assert not [proof for proof in story.cause.proofs if proof.way == "wait"]
    assert "stalls" not in story.sentence.split("The limit")[0]


def test_stalls_that_both_sides_counted_are_told() -> None:
    story = Step(sampled(3e-3), sampled(1e-3), ("v0", "v1")).story
    assert {move.stall for move in story.cause.stalls} >= {"mio_throttle"}
    assert all(move.old_s > move.new_s for move in story.cause.stalls)


def test_a_state_that_one_side_does_not_know_did_not_vanish() -> None:
    """Ratios are collected one by one: a chip may lack one that another has."""
    ratios: Given = {"smsp__pcsamp_sample_count": None}
    old = sampled(3e-3, metrics=ratios)
    new = sampled(1e-3, metrics={**ratios, MIO: None})
    bare = make_instructions(inst_executed={0: 1024})
    sides = [
        replace(side, launches=(replace(side.launches[0], instructions=bare),))
        for side in (old, new)
    ]
    seconds = [state_seconds(side) for side in sides]
    assert seconds[0] is not None and seconds[1] is not None
    assert "mio_throttle" in seconds[0] and "mio_throttle" not in seconds[1]
    moves = Step(sides[0], sides[1], ("v0", "v1")).story.cause.stalls
    assert "mio_throttle" not in {move.stall for move in moves}


def test_states_are_unknown_where_most_of_the_time_was_not_looked_at() -> None:
    seen, unseen = sampled(1e-3).launches[0], sampled(3e-3, stalls=False).launches[0]
    both = make_profile(launches=(seen, replace(unseen, index=1)))
    assert state_seconds(both) is None
    short = sampled(0.5e-3, stalls=False).launches[0]
    assert state_seconds(make_profile(launches=(seen, replace(short, index=1)))) is not None


def test_a_counter_that_a_side_lacks_has_no_change() -> None:
    old, new = sampled(3e-3), sampled(1e-3, metrics={"smsp__inst_executed.sum": None})
    bare = make_instructions(smsp__pcsamp_sample_count={0: 100})
    new = replace(new, launches=(replace(new.launches[0], instructions=bare),))
    delta = compare(old, new)["instructions"]
    assert (delta.delta, delta.verdict, delta.moved) == (None, "missing", False)
    assert delta.words == "20.5 k → —" and not tells(delta)


def bare_launch(**metrics: float | None) -> Launch:
    return make_launch(metrics=make_metrics(**metrics))


def test_a_unit_that_nobody_looked_at_is_not_idle() -> None:
    name = "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed"
    idle, unseen, device = bare_launch(**{name: 0.0}), bare_launch(), make_profile().device
    assert [load.active for load in loads(idle) if load.resource.id == "fp64"] == [0.0]
    assert not [load for load in loads(unseen) if load.resource.id == "fp64"]
    assert behaviour_of({}, device, None, idle).share("fp64") == 0.0
    assert behaviour_of({}, device, None, unseen).share("fp64") is None


def test_bytes_that_were_counted_in_part_are_no_traffic() -> None:
    stores = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
    local = "memory_l2_theoretical_sectors_local"
    assert traffic(bare_launch(**{stores: 8.0, local: 0.0}))["L1"] == 32 * (4096 + 8)
    assert "L1" not in traffic(bare_launch(**{local: 0.0}))


def test_a_report_with_stalls_against_one_without(report: Callable[[str], Path]) -> None:
    sides = [read_report(report(f"full-then-basic-{side}")) for side in ("before", "after")]
    assert state_seconds(sides[0]) is not None and state_seconds(sides[1]) is None
    for old, new in (sides, sides[::-1]):
        story = Step(old, new, ("a", "b")).story
        assert story.cause.stalls == ()
        assert "stalls" not in story.sentence.split("The limit")[0]
