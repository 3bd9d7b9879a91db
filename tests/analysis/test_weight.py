"""What a count costs at the device's peak: against the arithmetic done by hand."""

from __future__ import annotations

import pytest

from tests.factories import H200, make_launch, make_metrics, make_profile
from workbench.analysis.compare import compare
from workbench.analysis.weight import Scale, most_moved, ranked
from workbench.model import Device, Profile

CLOCK = 2e9


def scale(device: Device = H200, seconds: float = 1e-3) -> Scale:
    metrics = make_metrics(
        **{
            "gpu__time_duration.sum": seconds,
            "smsp__cycles_elapsed.avg.per_second": CLOCK,
        }
    )
    profile = make_profile(device=device, launches=(make_launch(metrics=metrics),))
    return Scale(profile, compare(profile, profile))


@pytest.mark.parametrize(
    ("counter", "cycle"),
    [
        ("instructions", 4),  # one of each scheduler
        ("divergent_branches", 4),
        ("shared_wavefronts", 1),
        ("shared_load_bank_conflicts", 1),
        ("l1_tag_requests", 1),
        ("global_load_sectors", 4),  # 128 bytes
        ("l2_read_sectors", 2),  # 64 bytes
    ],
)
def test_peaks_of_an_sm(counter: str, cycle: int) -> None:
    # One millisecond of all 132 SMs.
    assert scale().seconds(counter, cycle * 132 * CLOCK * 1e-3) == pytest.approx(1e-3)
    assert scale().share(counter, cycle * 132 * CLOCK * 1e-4) == pytest.approx(0.1)


def test_device_memory_by_its_bandwidth() -> None:
    assert scale().seconds("dram_bytes", 4.8e9) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    "counter",
    ["thread_instructions", "achieved_occupancy", "registers", "shared_conflict_ways", "flops"],
)
def test_what_is_no_cost_has_none(counter: str) -> None:
    assert scale().seconds(counter, 1e6) is None


def test_an_unknown_device_weighs_nothing() -> None:
    nameless = scale(Device(name="", slug=""))
    assert not nameless.known
    assert nameless.seconds("instructions", 1e9) is None
    assert nameless.share("instructions", 1e9) is None


def test_nothing_is_weighed_without_a_duration() -> None:
    profile = make_profile(launches=(make_launch(metrics={}),))
    found = Scale(profile, compare(profile, profile))
    assert not found.known and found.share("instructions", 1e9) is None


def test_counters_are_ranked_by_what_they_take_of_the_time() -> None:
    requests = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    throughput = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    stall = "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio"

    def at(**values: float) -> Profile:
        metrics = make_metrics(**{"gpu__time_duration.sum": 1e-3, **values})
        return make_profile(launches=(make_launch(metrics=metrics),))

    old = at(**{requests: 0.0, "memory_l1_wavefronts_shared": 100e6, throughput: 60.0})
    new = at(
        **{requests: 4608.0, "memory_l1_wavefronts_shared": 150e6, throughput: 62.0, stall: 11.0}
    )
    comparison = compare(old, new)
    found = {delta.id: weight for weight, delta in ranked(comparison, Scale(old, comparison))}
    order = [name for name in found if name not in ("duration", "shared_wavefronts_excess")]
    # Half of the stalls' 44 cycles; 50 M passes of 264 M cycles; 2 points, halved; next to nothing.
    assert order[:2] == ["mio_throttle", "shared_wavefronts"]
    assert found["mio_throttle"] == pytest.approx(22 / 44)
    assert found["shared_wavefronts"] == pytest.approx(50e6 / (132 * 1.98e9 * 1e-3))
    assert found["sm_throughput"] == pytest.approx(0.01)
    assert found["global_load_requests"] < 1e-4


def test_what_moved_by_next_to_nothing_of_itself_is_not_among_what_moved_most() -> None:
    """A count without noise moves by one instruction; that is not worth a tile."""
    old, new = (
        make_profile(launches=(make_launch(metrics=make_metrics(**counts)),))
        for counts in (
            {"smsp__inst_executed.sum": 139_000_000, "lts__t_sectors.sum": 1_000_000},
            {"smsp__inst_executed.sum": 138_980_000, "lts__t_sectors.sum": 1_500_000},
        )
    )
    comparison = compare(old, new)
    assert comparison["instructions"].moved
    shown = {delta.id for delta in most_moved(comparison, Scale(old, comparison), 6)}
    assert "instructions" not in shown and "l2_sectors" in shown


def test_a_stall_that_rose_only_because_instructions_fell_is_not_among_what_moved_most() -> None:
    """Half of the time with a quarter of the instructions: each waits longer, all wait less."""
    stall = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    old, new = (
        make_profile(
            launches=(
                make_launch(
                    metrics=make_metrics(
                        **{
                            "gpu__time_duration.sum": seconds,
                            "smsp__inst_executed.sum": instructions,
                            stall.format("long_scoreboard"): waits,
                            stall.format("mio_throttle"): queue,
                        }
                    )
                ),
            )
        )
        for seconds, instructions, waits, queue in ((2e-3, 4e6, 36.0, 4.0), (1e-3, 1e6, 60.0, 40.0))
    )
    comparison = compare(old, new)
    assert comparison["long_scoreboard"].verdict == "worse"
    shown = {delta.id for delta in most_moved(comparison, Scale(old, comparison), 6)}
    # Of about 2 ms nearly all were long scoreboard stalls, of 1 ms about six tenths.
    assert "long_scoreboard" not in shown
    assert "mio_throttle" in shown
