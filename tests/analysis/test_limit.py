"""What limits a kernel: a full unit, a grid that is too small, or a wait."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import structs

from tests.factories import make_instructions, make_launch
from workbench.analysis.limits.limit import FULL, RESOURCES, Limit, limit_of_launch, loads
from workbench.model import Device, InstructionTable, Launch, Metric

(FULL_L2,) = (each.full for each in RESOURCES if each.id == "l2")

H200 = Device(name="NVIDIA H200", slug="h200", compute_capability=(9, 0), sms=132)
ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
LOADS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
STATE = "smsp__pcsamp_warps_issue_stalled_"


def launch(
    shares: Mapping[str, float] = {},
    *,
    grid: tuple[int, int, int] = (4096, 1, 1),
    table: InstructionTable | None = None,
    active: float = 1.0,
    busiest: float = 0.0,
) -> Launch:
    """A launch whose SMs were active for a part of the time; shares of peaks are of all of it."""
    metrics = {f"{name}{ELAPSED}": Metric(value=share, unit="%") for name, share in shares.items()}
    metrics["sm__cycles_elapsed.max"] = Metric(value=1000, unit="cycle")
    metrics["sm__cycles_active.avg"] = Metric(value=1000 * active, unit="cycle")
    if busiest:
        metrics["sm__cycles_active.max"] = Metric(value=1000 * busiest, unit="cycle")
    known = InstructionTable() if table is None else table
    return make_launch(grid=grid, metrics=metrics, instructions=known)


def waits(**samples: int) -> InstructionTable:
    return make_instructions(
        inst_executed={0: 1}, **{f"{STATE}{state}": {0: n} for state, n in samples.items()}
    )


def limit(one: Launch) -> Limit:
    found = limit_of_launch(one, H200)
    assert found is not None
    return found


def test_the_unit_nearest_its_peak_limits() -> None:
    found = limit(launch({"sm__inst_issued": 70.0, "l1tex__data_pipe_lsu_wavefronts": 88.0}))
    assert (found.id, found.words, found.share) == ("l1_data", "the L1 data stage, 88%", 88.0)
    assert [load.resource.id for load in found.others] == ["issue"]


def test_units_of_an_sm_are_counted_while_it_is_active() -> None:
    one = launch({"sm__inst_issued": 60.0, "lts__t_sectors": 50.0}, active=0.8)
    assert {load.resource.id: load.active for load in loads(one)} == {"issue": 75.0, "l2": 50.0}


@pytest.mark.parametrize(
    ("metric", "least", "id_"),
    [("sm__inst_issued", FULL, "issue"), ("lts__t_sectors", FULL_L2, "l2")],
)
def test_a_unit_below_its_threshold_leaves_a_wait(metric: str, least: float, id_: str) -> None:
    table = waits(long_scoreboard=550, selected=450)
    assert limit(launch({metric: least}, table=table)).id == id_
    below = limit(launch({metric: least - 1}, table=table))
    told = ", alongside the L2 at 79%" if id_ == "l2" else ""
    assert below.words == f"latency: long scoreboard stalls, 55% of warp time{told}"
    # Who waits for one thing nearly always lacks no unit of the SM that is but half busy.
    found = [limit(launch({metric: share}, table=waits(wait=9, selected=1))) for share in (79, 81)]
    assert [each.id for each in found] == ["latency", id_]


def test_warps_that_issue_or_might_are_no_limit() -> None:
    found = limit(launch(table=waits(selected=500, not_selected=400, wait=100)))
    assert found.words == "latency: wait stalls, 10% of warp time"
    assert limit_of_launch(launch(table=waits(selected=500, not_selected=500)), H200) is None


def test_barriers_are_a_limit_of_their_own() -> None:
    assert limit(launch(table=waits(barrier=900, selected=100))).id == "sync"


#: Of asynchronous copies no warp waits in the states of memory.
IDLE = waits(wait=600, short_scoreboard=390, long_scoreboard=10)
BUSY = {
    "l2": "lts__throughput",
    "dram": "gpu__dram_throughput",
    "constant": "idc__request_cycles_active",
    "tex": "l1tex__f_wavefronts",
    "adu": "sm__inst_executed_pipe_adu",
    "sm": "sm__throughput",
    "memory": "gpu__compute_memory_throughput",
    "lsu": "sm__inst_executed_pipe_lsu",
    "fp64": "sm__pipe_fp64_cycles_active",
}


@pytest.mark.parametrize("unit", BUSY)
@pytest.mark.parametrize("share", [81.0, 76.0, 59.0])
def test_no_busy_unit_is_left_out(unit: str, share: float) -> None:
    found = limit(launch({BUSY[unit]: share, "sm__inst_issued": 20.0}, table=IDLE))
    assert (
        (found.id == unit)
        if share > 80
        else (found.id == unit or share < 60 or "76%" in found.words)
    )
    waited = limit(launch({BUSY[unit]: 70.0}, table=waits(long_scoreboard=500, selected=400)))
    assert (waited.id == unit) is (unit not in ("l2", "constant", "adu"))


def test_a_memory_that_no_warp_waits_for_stands_behind_what_they_queue_for() -> None:
    table, shares = waits(short_scoreboard=400, wait=600), {"lts__throughput": 82.0}
    found = limit(launch({**shares, "l1tex__data_pipe_lsu_wavefronts": 72.0}, table=table))
    assert [found.id, *(load.resource.id for load in found.others)] == ["l1_data", "l2"]
    assert limit(launch({**shares, "sm__pipe_tensor_cycles_active": 65.0}, table=table)).id == "l2"


def test_an_l2_that_is_much_fuller_limits_before_device_memory() -> None:
    both = ["l2", "dram"]
    rows = ((74, 61, both), (69, 61, ["dram"]), (93, 82, both), (83, 81, both[::-1]))
    for l2, dram, order in rows:
        found = limit(launch({"gpu__dram_throughput": float(dram), "lts__throughput": float(l2)}))
        assert [found.id, *(load.resource.id for load in found.others)] == order


def test_a_grid_that_leaves_sms_idle_comes_first() -> None:
    small = limit(launch({"sm__inst_issued": 40.0}, grid=(64, 1, 1), active=0.48))
    assert (small.id, small.words) == ("grid", "a grid of 64 blocks on 132 SMs")
    assert [load.resource.id for load in small.others] == ["issue"]
    uneven = limit(launch(grid=(150, 1, 1), active=0.6))
    assert uneven.words == "an uneven tail: SMs are active 60% of the time"
    part = launch(grid=(150, 1, 1), active=0.6)
    part.metrics["launch__waves_per_multiprocessor"] = Metric(value=0.29, unit="")
    assert limit(part).words.startswith("150 blocks on 132 SMs, under a wave: they are active 60%")
    # As many blocks as SMs, all of the time: the grid is not what limits.
    assert limit(launch({"sm__inst_issued": 80.0}, grid=(64, 1, 1), active=0.9)).id == "issue"


def test_what_the_launch_itself_takes_is_no_uneven_tail() -> None:
    """An empty kernel takes over a microsecond: then even the busiest SM has nothing to do."""
    table = waits(long_scoreboard=900, selected=100)
    short = limit(launch(active=0.42, busiest=0.47))
    assert (short.id, short.share) == ("launch", 47.0)
    assert short.words == "a short launch: the busiest SM is active 47% of the time"
    one = limit(launch(grid=(1, 1, 1), active=0.001, busiest=0.07))
    assert one.id == "launch"
    # One block for most of the time: the grid.
    assert limit(launch(grid=(1, 1, 1), active=0.005, busiest=0.9)).id == "grid"
    assert limit(launch(active=0.6, busiest=0.98)).words.startswith("an uneven tail")
    # Nearly as many blocks as SMs, all of which are busy for as long: neither.
    assert limit(launch(grid=(128, 1, 1), active=0.72, busiest=0.78, table=table)).id == "latency"


def test_a_unit_that_is_full_while_sms_are_active_limits_unless_they_hardly_are() -> None:
    def at(part: float) -> str:
        return limit(launch({"sm__inst_issued": 80.0 * part}, active=part, busiest=part)).id

    assert [at(part) for part in (0.9, 0.6, 0.49)] == ["issue", "issue", "launch"]


def test_nothing_is_said_of_a_launch_of_which_nothing_is_known() -> None:
    assert limit_of_launch(launch(), H200) is None


@pytest.mark.parametrize(
    ("share", "mio", "loads", "limits"),
    [
        (70.0, 5, 0.0, "latency"),  # products and the copy engine keep it busy, and nobody queues
        (70.0, 15, 0.0, "l1_data"),
        (70.0, 5, 1000.0, "l1_data"),  # who waits for loads waits for it
        (85.0, 5, 0.0, "l1_data"),
    ],
)
def test_a_data_stage_that_nobody_queues_for_limits_nothing(
    share: float, mio: int, loads: float, limits: str
) -> None:
    one = launch(
        {"l1tex__data_pipe_lsu_wavefronts": share},
        table=waits(long_scoreboard=60, mio_throttle=mio, selected=40 - mio),
    )
    metrics = {**one.metrics, LOADS: Metric(value=loads)}
    assert limit(structs.replace(one, metrics=metrics)).id == limits


def waited(state: str, samples: int) -> Limit:
    return limit(launch(table=waits(selected=100, **{state: samples})))


def gridded(blocks: int, active: float = 0.3) -> Limit:
    return limit(launch(grid=(blocks, 1, 1), active=active))


def busy(metric: str, share: float) -> Limit:
    return limit(launch({metric: share}))


SLOTS, STAGE = "sm__inst_issued", "l1tex__data_pipe_lsu_wavefronts"


@pytest.mark.parametrize(
    ("before", "after", "when"),
    [
        (waited("wait", 20), waited("wait", 900), "still"),
        (waited("wait", 900), waited("long_scoreboard", 900), "now"),
        (waited("wait", 900), waited("barrier", 900), "now"),
        (busy(SLOTS, 70.0), busy(SLOTS, 95.0), "still"),
        (busy(SLOTS, 70.0), busy(STAGE, 90.0), "now"),
        (busy(SLOTS, 70.0), waited("wait", 900), "now"),
        # Of another number of blocks "still a grid of 64 blocks" would be false.
        (gridded(32), gridded(64), "now"),
        (gridded(64), gridded(64, active=0.4), "still"),
        (gridded(150), gridded(200, active=0.6), "still"),
        (gridded(64), gridded(150), "now"),
    ],
)
def test_a_limit_is_still_there_where_the_resource_is_the_same(
    before: Limit, after: Limit, when: str
) -> None:
    assert after.when(before) == f"{when} " and before.when(after) == f"{when} "
    assert after.when(None) == ""


def test_one_grid_on_another_chip_is_another_limit() -> None:
    small = launch(grid=(64, 1, 1), active=0.3)
    here, there = limit(small), limit_of_launch(small, structs.replace(H200, sms=114))
    assert there is not None and there.when(here) == "now "


def test_a_warpgroup_that_waits_for_its_products_is_at_no_barrier() -> None:
    table = waits(barrier=900, selected=100)
    assert limit(launch(table=table)).words == "waiting at barriers, 90% of warp time"
    text = ("WARPGROUP.DEPBAR.LE gsb0, 0x0", *table.text[1:])
    found = limit(launch(table=structs.replace(table, text=text)))
    assert found.id == "latency"
    assert found.words == "latency: barrier stalls of warpgroups (wgmma), 90% of warp time"
