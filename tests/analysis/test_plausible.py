"""What no run can have is said, and fails a check; what lies within its bounds is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import workbench as wb
from tests.factories import (
    H200,
    make_instructions,
    make_launch,
    make_profile,
    make_timing,
    with_metrics,
)
from workbench.analysis.compare import compare, remarks
from workbench.analysis.limits.headroom import panel_of
from workbench.analysis.limits.limit import limit_of
from workbench.analysis.plausible import broken, implausible, implausible_time
from workbench.analysis.story import Step, telling
from workbench.counters import IMPLAUSIBLE
from workbench.errors import InconclusiveError
from workbench.frames import counters
from workbench.model import Launch, Metric, Profile
from workbench.views.html.parts import cell
from workbench.views.html.render import environment
from workbench.views.terminal.console import render
from workbench.views.terminal.show import show_view

OCCUPIED = "sm__warps_active.avg.pct_of_peak_sustained_active"


@pytest.mark.parametrize(
    ("metric", "value", "wrong"),
    [
        (OCCUPIED, 103.0, False),
        (OCCUPIED, 180.0, True),
        (OCCUPIED, -1.0, True),
        ("launch__registers_per_thread", 255, False),
        ("launch__registers_per_thread", 1000, True),
    ],
)
def test_a_reading_outside_of_its_range_is_said(metric: str, value: float, wrong: bool) -> None:
    profile = with_metrics(make_profile(), **{metric: value})
    assert bool(implausible(profile)) == wrong
    assert any(IMPLAUSIBLE in text for text in remarks(profile)) == wrong


@pytest.mark.parametrize(
    ("moved", "seconds", "wrong"),
    [
        (1_000_000_000, 1e-3, False),  # 1 TB/s
        (1_000_000_000, 25e-6, True),  # 40 TB/s out of device memory
        (10_000_000, 1e-6, False),  # 10 TB/s out of the L2, which holds it
        (10_000_000, 0.1e-6, True),
    ],
)
def test_a_time_cannot_beat_the_memory(moved: int, seconds: float, wrong: bool) -> None:
    timing = replace(make_timing(seconds), device=H200, bytes=moved, flops=0)
    assert bool(implausible_time(timing)) == wrong


def test_a_time_cannot_beat_the_fastest_unit() -> None:
    timing = replace(make_timing(1e-6), device=H200, bytes=0, flops=10**12)
    assert "fastest unit" in implausible_time(timing)[0]


HIT_RATE = "lts__t_sector_hit_rate.pct"


def hits(before: float, after: float) -> tuple[Profile, Profile]:
    """A step of which nothing moved but the time and the L2's hit rate."""
    duration = "gpu__time_duration.sum"
    return (
        with_metrics(make_profile(version="v0"), **{HIT_RATE: before, duration: 2e-3}),
        with_metrics(make_profile(version="v1"), **{HIT_RATE: after, duration: 1e-3}),
    )


def test_what_no_run_can_have_moved_nothing_and_is_no_cause() -> None:
    assert compare(*hits(60.0, 90.0))["l2_hit_rate"].moved
    step = Step(*hits(60.0, 113.0), ("v0", "v1"))
    delta = step.comparison["l2_hit_rate"]
    assert (delta.old, delta.new, delta.delta, delta.moved) == (60.0, 113.0, None, False)
    assert delta.reason == "new: not plausible; it must be at most 100%"
    assert "l2_hit_rate" not in [proof.counter.id for proof in step.story.cause.proofs]
    told = telling(step.comparison, step.story, step.scale, 60)
    assert told and "l2_hit_rate" not in [one.id for one in told]


def test_frames_and_cells_of_pages_mark_it() -> None:
    frame = counters(hits(60.0, 113.0), ["l2_hit_rate", "duration", HIT_RATE])
    marks = frame.loc[frame.counter == "l2_hit_rate", "implausible"].tolist()
    assert marks == ["", "at most 100%"]
    assert set(frame.loc[frame.counter == "duration", "implausible"]) == {""}
    launch = hits(60.0, 113.0)[1].launches[0]
    assert cell(launch, "l2_hit_rate").doubt == "not plausible: it must be at most 100%"
    assert cell(launch, "duration").doubt == ""
    html = environment().from_string("{% import 'macros.html' as m %}{{ m.value(c) }}")
    assert "113% (!)" in html.render(c=cell(launch, "l2_hit_rate"))
    assert "(!)" not in html.render(c=cell(launch, "duration"))


def test_units_that_are_no_counters_explain_a_step_as_before() -> None:
    recorded = wb.open(Path(__file__).parents[2])
    proofs = recorded.diff("sgemm/v9", "sgemm/v10").story.cause.proofs
    assert proofs and proofs[0].score > 0


STATES = ("wait", "long_scoreboard", "selected")


def ran(
    kernel: str, grid: int, seconds: float = 1.2e-3, waits: float = 3.0, **more: float
) -> Launch:
    """A launch whose counters are those of all others, unless told otherwise."""
    stalls = {
        f"smsp__average_warps_issue_stalled_{state}_per_issue_active.ratio": value
        for state, value in zip(STATES, (3.0, 1.5, 1.0), strict=True)
    }
    metrics = {
        "gpu__time_duration.sum": seconds,
        "sm__cycles_elapsed.max": 1.8e6,
        "smsp__inst_executed.sum": 491_622.0,
        "launch__grid_size": grid,
        **stalls,
        **{name.replace("X", ".sum"): value for name, value in more.items()},
    }
    return make_launch(
        kernel=kernel,
        grid=(grid, 1, 1),
        metrics={name: Metric(value=value) for name, value in metrics.items()},
        instructions=make_instructions(inst_executed={0: 491_622}),
    )


def waiting() -> Launch:
    names = (f"smsp__average_warps_issue_stalled_{s}_per_issue_active.ratio" for s in STATES)
    return ran("scale", 64, **dict.fromkeys(names, 2.0))


def sampled(*counts: int) -> Launch:
    samples = {
        f"smsp__pcsamp_warps_issue_stalled_{state}": {0: count}
        for state, count in zip(STATES, counts, strict=True)
    }
    return replace(
        ran("scale", 64), instructions=make_instructions(inst_executed={0: 491_622}, **samples)
    )


@pytest.mark.parametrize(
    ("launches", "words"),
    [
        ((ran("a", 1025), ran("b", 1025), ran("c", 4096)), "a, b and c have different grids"),
        ((ran("a", 1025), ran("a", 2050)), "a have different grids"),
        (
            tuple(
                ran(k, g, smsp__inst_executedX=n)
                for k, g, n in (("a", 8, 4e5), ("b", 9, 5e5), ("c", 7, 6e5))
            ),
            "all launches of a, b and c take exactly the same time",
        ),
        ((ran("a", 64, smsp__inst_executedX=5e6),), "all of its lines together differ"),
        ((ran("a", 64, smsp__inst_executedX=5e4),), "all of its lines together differ"),
        ((waiting(),), "exactly the same time in each of their states"),
        ((sampled(700, 700, 700),), "exactly the same time in each of their states"),
        # One kernel's launches are alike, two may take one time, and few samples are chance's.
        ((ran("a", 64), ran("a", 64)), ""),
        ((ran("a", 64), ran("b", 65, smsp__inst_executedX=5e5)), ""),
        ((ran("a", 64), ran("b", 65, 1.3e-3), ran("c", 66, 1.1e-3)), ""),
        ((ran("a", 64, smsp__inst_executedX=9e5),), ""),
        ((sampled(5, 5, 5),), ""),
    ],
)
def test_a_report_that_contradicts_itself_is_told_and_advises_nothing(
    launches: tuple[Launch, ...], words: str
) -> None:
    profile = make_profile(launches=launches)
    assert bool(broken(profile)) is bool(words)
    if not words:
        return
    assert all(
        any(words in text for text in said) for said in (implausible(profile), remarks(profile))
    )
    with pytest.raises(InconclusiveError, match=words):
        compare(profile, profile)
    story = Step(profile, make_profile(), ("v0", "v1")).story
    assert words in story.sentence and not story.cause.proofs and not story.tried
    assert panel_of(profile) is None and limit_of(profile) is None
    assert "Now limited" not in render(show_view(profile, label="x"), 100)
