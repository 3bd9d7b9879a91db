"""What stands beside a wait: the pipe that it held up, blocks that stay, an order that changed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import structs

from tests.factories import make_instructions, make_launch, make_profile
from workbench.analysis.attribution import attribute
from workbench.analysis.cause.finding import beside_of, held_nothing_up, place_of_wait, waves_of
from workbench.analysis.cause.hypotheses import Behaviour, Hypothesis, rank
from workbench.analysis.cause.places import Origin, ordered_in
from workbench.analysis.compare import Comparison, Delta, compare
from workbench.analysis.limits.limit import RESOURCES, UNKNOWN, Load, Resource, Running
from workbench.model import InstructionTable, Metric, Profile, SourceFile

TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
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


def nowhere(_counter: Delta, _way: str) -> Origin:
    return Origin(link="elsewhere")


@pytest.mark.parametrize(
    ("share", "active", "pipes", "named"),
    [
        (60.0, 1000.0, ("tensor", "tensor"), True),
        (60.0, 1200.0, ("tensor", "tensor"), False),  # it worked more: no gap was filled
        (45.0, 4e3 / 3, ("tensor", "tensor"), False),  # emptier, while warps wait less
        (60.0, 1000.0, ("tensor", "fma"), False),  # another pipe is the fullest now
        (50.2, 1195.2, ("tensor", "tensor"), False),  # within its noise
    ],
)
def test_a_wait_has_the_pipe_beside_it_that_did_the_same_work(
    share: float, active: float, pipes: tuple[str, str], named: bool
) -> None:
    comparison = compared({TENSOR: 50.0, ACTIVE: 1200.0}, {TENSOR: share, ACTIVE: active})
    sides = busy(**{pipes[0]: 50.0}), busy(**{pipes[1]: 60.0})
    found = beside_of(comparison, LESS_WAIT, Origin(link="elsewhere"), nowhere, sides)
    assert (found is not None and found.id == "tensor_utilization") is named


@pytest.mark.parametrize(
    ("share", "active", "silent"),
    [(70.0, 1000.0, True), (80.0, 875.0, False), (70.0, 1100.0, False)],
)
def test_a_wait_that_kept_a_full_pipe_from_nothing_is_no_cause(
    share: float, active: float, silent: bool
) -> None:
    comparison = compared({TENSOR: 70.0, ACTIVE: 1000.0}, {TENSOR: share, ACTIVE: active})
    full, half = (busy(tensor=70.0), busy(tensor=80.0)), (busy(tensor=70.0), busy(fma=70.0))
    assert held_nothing_up(comparison, full) is silent
    assert not held_nothing_up(comparison, half)
    idle = compared({TENSOR: 30.0, ACTIVE: 1000.0}, {TENSOR: 30.0, ACTIVE: 1000.0})
    assert not held_nothing_up(idle, full)


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
    ],
)
def test_waits_of_blocks_that_stay_are_the_launchs(
    changes: Mapping[str, float], source: str, link: str
) -> None:
    before = {BLOCKS: 1000.0, THREADS: 256.0, WAVES: 7.6}
    old, new = side(before, ONCE), side({**STAYED, **changes}, source)
    comparison, found = compare(old, new, force=True), attribute(old, new)
    place = place_of_wait(comparison, LESS_WAIT, Origin(link="elsewhere"), found, new)
    assert place == Origin(link=link, hunks=(1,) if link == "launch" else ())  # type: ignore[arg-type]


ARRIVES = """\
__global__ void scale(const float* in, float* out) {
  int i = 1;
  load(i, in);
  __syncthreads();
  out[i] = 2.0f;
}
"""


def test_a_wait_of_nobody_is_that_of_the_order_that_changed() -> None:
    """Line 3 arrives twice as often; line 5 was edited, too, and has nothing to do with it."""
    edits = ARRIVES.replace("load(i, in)", "load(2, in)").replace("2.0f", "3.0f")
    old, new = (
        side({}, source, inst_executed={1: arrivals, 3: 10})
        for source, arrivals in ((ARRIVES, 100), (edits, 200))
    )
    sync = {1: "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4], RZ"}
    old, new = (
        structs.replace(
            one,
            launches=tuple(
                structs.replace(
                    launch,
                    instructions=structs.replace(
                        launch.instructions,
                        text=tuple(sync.get(n, t) for n, t in enumerate(launch.instructions.text)),
                    ),
                )
                for launch in one.launches
            ),
        )
        for one in (old, new)
    )
    found = attribute(old, new)
    line = {hunk.id: hunk.new[0] for hunk in found.hunks}
    for state in ("barrier_stall", "long_scoreboard"):
        place = ordered_in(state, found)
        assert place is not None and place.by == "order" and [line[n] for n in place.hunks] == [3]
    assert ordered_in("mio_throttle", found) is None
    assert ordered_in("barrier_stall", attribute(old, old)) is None


def test_as_many_blocks_that_end_more_evenly() -> None:
    before = {DURATION: 1e-3, ELAPSED: 1000.0, ACTIVE: 900.0, BLOCKS: 132.0}
    after = {DURATION: 0.9e-3, ELAPSED: 900.0, ACTIVE: 895.0}
    uneven, even = Running(mean=0.9), Running(mean=0.994)
    still = Behaviour(values={}, waits={"long_scoreboard": 1e-3}, busy={}, running=uneven)
    waits = Behaviour(values={}, waits={"long_scoreboard": 0.88e-3}, busy={}, running=even)

    def ways(blocks: float, waves: float = 1.0) -> list[str]:
        sides = {**before, WAVES: 1.0}, {**after, BLOCKS: blocks, WAVES: waves}
        return [one.way for one in rank(compared(*sides), still, waits)]

    # The end is no count: a wait that explains as much keeps its own weight beside it.
    assert ways(132.0) == ["tail", "wait"] and "tail" not in ways(500.0)
    # As many blocks of which more fit on an SM come in fewer waves: that is no tail's merit.
    assert ways(132.0, 0.8) == ["wait"]
    # The busiest SM was idle as well: that was the launch, which ends no sooner by even blocks.
    still = structs.replace(still, running=Running(mean=0.9, busiest=0.905))
    waits = structs.replace(waits, running=Running(mean=0.994, busiest=0.999))
    assert ways(132.0) == ["wait"]


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


def test_a_mean_of_kernels_is_no_occupancy_gained() -> None:
    """The kernel that takes most of the time lost warps; a second one now takes more of it."""
    occupied = "sm__warps_active.avg.pct_of_peak_sustained_active"
    comparison = compared({DURATION: 1e-3, occupied: 16.0}, {DURATION: 0.8e-3, occupied: 20.0})

    def named(own: float) -> bool:
        sides = (structs.replace(busy(), occupied=value) for value in (13.6, own))
        return "achieved_occupancy" in {one.counter for one in rank(comparison, *sides)}

    assert named(17.0) and not named(13.2) and not named(13.6)
