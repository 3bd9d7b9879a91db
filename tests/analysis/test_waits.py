"""What stands beside a wait: the pipe that it held up, blocks that stay, an order that changed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import structs

from tests.factories import make_instructions, make_launch, make_profile
from workbench.analysis.attribution import attribute
from workbench.analysis.cause.finding import place_of_wait, waves_of
from workbench.analysis.cause.hypotheses import Behaviour, Hypothesis, rank
from workbench.analysis.cause.places import Origin
from workbench.analysis.compare import Comparison, compare
from workbench.analysis.limits.limit import RESOURCES, UNKNOWN, Load, Resource, Running
from workbench.model import InstructionTable, Metric, Profile, SourceFile

ACTIVE, ELAPSED = "sm__cycles_active.avg", "sm__cycles_elapsed.max"
DURATION = "gpu__time_duration.sum"
BLOCKS, THREADS = "launch__grid_size", "launch__block_size"
WAVES = "launch__waves_per_multiprocessor"
LESS_WAIT = Hypothesis(counter="barrier_stall", way="wait", effect=-0.2, score=0.9)


def side(metrics: Mapping[str, float], source: str = "", **columns: Mapping[int, int]) -> Profile:
    table = make_instructions(**columns) if columns else InstructionTable()
    given = {name: Metric(value=value) for name, value in metrics.items()}
    launch = make_launch(metrics=given, instructions=table)
    texts = (SourceFile(path="scale.cu", text=source),)
    return make_profile(launches=(launch,), sources=texts)


def compared(old: Mapping[str, float], new: Mapping[str, float]) -> Comparison:
    return compare(side(old), side(new), force=True)


def busy(**shares: float) -> Behaviour:
    known: dict[str, Resource] = {resource.id: resource for resource in RESOURCES}
    loads = {
        n: Load(resource=r, elapsed=s, active=s) for n, s in shares.items() for r in [known[n]]
    }
    loads.setdefault("issue", Load(resource=known["issue"], elapsed=20.0, active=20.0))
    return Behaviour(values={}, waits={}, busy=loads)


@pytest.mark.parametrize(
    ("new", "told"), [(2.59, True), (0.2424, False), (0.0, False), (0.12, True)]
)
def test_a_grid_has_its_waves_beside_it_where_they_changed(new: float, told: bool) -> None:
    assert (waves_of(compared({WAVES: 0.2424}, {WAVES: new})) is not None) is told


STAYED = {BLOCKS: 132.0, THREADS: 256.0, WAVES: 1.0}
ONCE = "__global__ void scale(float* out) {\n  out[blockIdx.x] = 2.0f;\n}\n"
AGAIN = (
    "__global__ void scale(float* out) {\n"
    "  for (int i = blockIdx.x; i < 1000; i += gridDim.x) out[i] = 2.0f;\n}\n"
)


@pytest.mark.parametrize(
    ("changes", "source", "link"),
    [
        ({}, AGAIN, "launch"),
        ({}, ONCE.replace("2.0f", "3.0f"), "elsewhere"),  # fewer blocks that do not step on
        ({WAVES: 1.2}, AGAIN, "elsewhere"),
        ({THREADS: 512.0}, AGAIN, "elsewhere"),
        ({BLOCKS: 2000.0}, AGAIN, "elsewhere"),
        ({}, AGAIN.replace("1000", "2000"), "elsewhere"),  # from a loop over blocks
    ],
)
def test_waits_of_blocks_that_stay_are_the_launchs(
    changes: Mapping[str, float], source: str, link: str
) -> None:
    before = {BLOCKS: 1000.0, THREADS: 256.0, WAVES: 7.6}
    first = AGAIN if "2000" in source else ONCE
    old, new = side(before, first), side({**STAYED, **changes}, source)
    comparison, found = compare(old, new, force=True), attribute(old, new)
    place = place_of_wait(comparison, LESS_WAIT, Origin(link="elsewhere"), found, old, new)
    assert place == Origin(link=link, hunks=(1,) if link == "launch" else ())  # type: ignore[arg-type]


def test_more_warps_are_no_cause_where_the_grid_came_otherwise() -> None:
    occupied = "sm__warps_active.avg.pct_of_peak_sustained_active"
    fit = "sm__maximum_warps_per_active_cycle_pct"
    before = {DURATION: 1e-3, occupied: 16.0, BLOCKS: 1000.0}
    after = {DURATION: 0.8e-3, occupied: 18.0, BLOCKS: 132.0}

    def named(old: float, new: float) -> bool:
        found = rank(compared({**before, fit: old}, {**after, fit: new}), busy(), busy())
        return "achieved_occupancy" in {one.counter for one in found}

    assert named(18.75, 25.0) and not named(18.75, 18.75)


def test_as_many_warps_on_fewer_sms_are_no_occupancy_gained() -> None:
    occupied = "sm__warps_active.avg.pct_of_peak_sustained_active"
    comparison = compared({DURATION: 1e-3, occupied: 8.0}, {DURATION: 0.5e-3, occupied: 16.0})

    def named(mean: float) -> bool:
        sides = (
            structs.replace(busy(), running=Running(mean=part, busiest=0.95))
            for part in (0.5, mean)
        )
        return "achieved_occupancy" in {one.counter for one in rank(comparison, *sides)}

    assert named(0.5) and not named(0.25) and named(0.9)
    # Of one side alone nothing follows.
    side = structs.replace(busy(), running=Running(mean=0.9))
    unknown = structs.replace(busy(), running=UNKNOWN)
    half = structs.replace(busy(), running=Running(mean=0.4))
    for sides in ((side, unknown), (unknown, half)):
        assert "achieved_occupancy" in {one.counter for one in rank(comparison, *sides)}
