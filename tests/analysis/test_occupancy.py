"""Theoretical occupancy: the formula against ncu's own value, and the exact split."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import H200, make_launch, make_metrics, make_profile
from workbench.analysis.occupancy import (
    Resources,
    occupancy,
    resources,
    split,
    split_launches,
)
from workbench.gpus import chip_for
from workbench.ncurep.read import read_report

_chip = chip_for(H200)
assert _chip is not None
CHIP = _chip

needs = st.builds(
    Resources,
    block_size=st.integers(1, 1024),
    registers=st.integers(1, 255),
    shared=st.integers(0, 227 * 1024),
    shared_config=st.sampled_from([0, 32768, 65536, 233472]),
)


@pytest.mark.parametrize(
    ("block", "registers", "shared", "percent", "limiter"),
    [
        (256, 32, 0, 100.0, "warps"),
        (256, 105, 8192, 25.0, "registers"),  # 112 allocated: 4 warps a sub-partition
        (128, 32, 48 * 1024, 25.0, "shared memory"),  # 49 KiB with the reserved one: 4 blocks
        (32, 16, 0, 50.0, "blocks"),  # 32 blocks of one warp
        (1024, 65, 0, 0.0, "registers"),  # does not fit at all
    ],
)
def test_limits(block: int, registers: int, shared: int, percent: float, limiter: str) -> None:
    found = occupancy(CHIP, Resources(block_size=block, registers=registers, shared=shared))
    assert found.percent == percent
    assert limiter in found.limiters


@pytest.mark.parametrize(
    ("name", "launches"),
    [
        ("ladder_full", 5),
        ("ladder_focus", 5),
        ("v100-ncu2022.2-source-rules", 1),
        ("rtx4090-ncu2023.1-transpose-source-no-rules", 5),
        ("gh200-ncu2025.2-no-instruction-metrics", 1),
        ("gtx1660s-ncu2021.1-unprofiled-action", 1),
    ],
)
def test_equal_to_the_profilers_value(
    report: Callable[[str], Path], name: str, launches: int
) -> None:
    profile = read_report(report(name))
    chip = chip_for(profile.device)
    assert chip is not None
    checked = 0
    for launch in profile.launches:
        need = resources(launch)
        theirs = launch.metrics.get("sm__maximum_warps_per_active_cycle_pct")
        if need is None or theirs is None:
            continue
        assert isinstance(theirs.value, (int, float))
        assert occupancy(chip, need).percent == pytest.approx(theirs.value, abs=1e-9)
        checked += 1
    assert checked >= launches


def test_recorded_profiles_agree(repo: Path) -> None:
    from workbench.store import Store

    entries = Store(repo / "profiles").find(engine="ncu", device="h200")
    assert entries  # else this would check nothing
    for entry in entries:
        profile = Store(repo / "profiles").load(entry.path)
        chip = chip_for(profile.device)
        assert chip is not None and profile.launches, entry.path
        for launch in profile.launches:
            need = resources(launch)
            theirs = launch.metrics["sm__maximum_warps_per_active_cycle_pct"]
            assert need is not None, entry.path
            found = occupancy(chip, need).percent
            assert found == pytest.approx(theirs.value, abs=1e-9), entry.path


@given(old=needs, new=needs)
def test_causes_add_up_and_no_change_has_none(old: Resources, new: Resources) -> None:
    found = split(CHIP, "k", old, new)
    assert sum(found.causes.values()) == pytest.approx(found.delta, abs=1e-9)
    assert found.delta == pytest.approx(found.new - found.old)
    same = split(CHIP, "k", old, old)
    assert same.delta == 0 and not any(same.causes.values())


@given(old=needs, new=needs)
def test_a_cause_that_did_not_change_has_no_part(old: Resources, new: Resources) -> None:
    kept = Resources(
        block_size=new.block_size,
        registers=old.registers,
        shared=new.shared,
        shared_config=new.shared_config,
    )
    assert split(CHIP, "k", old, kept).causes["registers"] == 0


def test_split_is_the_mean_over_all_orders() -> None:
    old = Resources(block_size=1024, registers=30, shared=8320)
    new = Resources(block_size=256, registers=105, shared=8192)
    total = 0.0
    for order in permutations(("registers", "shared", "block_size")):
        before = {name: getattr(old, name) for name in order}
        for name in order:
            after = {**before, name: getattr(new, name)}
            if name == "registers":
                total += occupancy(CHIP, Resources(**after)).percent
                total -= occupancy(CHIP, Resources(**before)).percent
            before = after
    assert split(CHIP, "k", old, new).causes["registers"] == pytest.approx(total / 6)


def test_launches_without_resources_or_chip_have_no_split() -> None:
    known = make_metrics(launch__registers_per_thread=32, launch__block_size=256)
    full = make_profile(launches=(make_launch(metrics=known),))
    assert len(split_launches(full, full)) == 1
    lacking = make_profile(launches=(make_launch(metrics={}),))
    assert split_launches(full, lacking) == ()
    unknown = make_profile(device=type(H200)(name="?", slug="x"), launches=full.launches)
    assert split_launches(unknown, unknown) == ()
