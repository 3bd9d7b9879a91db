"""What a count costs at the device's peak: against the arithmetic done by hand."""

from __future__ import annotations

import pytest

from tests.factories import H200, make_launch, make_metrics, make_profile
from workbench.analysis.compare import compare
from workbench.analysis.weight import Scale
from workbench.model import Device

CLOCK = 2e9


def scale(device: Device = H200, seconds: float | None = 1e-3) -> Scale:
    metrics = make_metrics(
        **{"gpu__time_duration.sum": seconds, "smsp__cycles_elapsed.avg.per_second": CLOCK}
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
    assert scale().seconds("dram_bytes", 4.8e9) == pytest.approx(1e-3)  # by its bandwidth


@pytest.mark.parametrize(
    "counter",
    ["thread_instructions", "achieved_occupancy", "registers", "shared_conflict_ways", "flops"],
)
def test_what_is_no_cost_has_none(counter: str) -> None:
    assert scale().seconds(counter, 1e6) is None


@pytest.mark.parametrize("nothing", [scale(Device(name="", slug="")), scale(seconds=None)])
def test_nothing_is_weighed_without_a_known_device_and_a_duration(nothing: Scale) -> None:
    assert not nothing.known and nothing.share("instructions", 1e9) is None
    assert nothing.seconds("instructions", 1e9) is None
