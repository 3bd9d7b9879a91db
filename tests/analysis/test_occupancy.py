"""Theoretical occupancy: the formula against ncu's own value, and the exact split."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import H200, make_launch, make_metrics, make_profile
from workbench.analysis.aggregate import pair_launches
from workbench.analysis.limits.occupancy import (
    Resources,
    occupancy,
    of_block,
    resources,
    split,
    split_launches,
)
from workbench.gpus import chip_for
from workbench.model import KernelResources
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
        (96, 105, 0, 23.4375, "registers"),  # 16 warps hold 5 blocks of 3; no warp is divided
        (128, 32, 19 * 1024, 68.75, "shared memory"),  # 11 blocks of 20 KiB, not 12 of 19
        (33, 16, 0, 100.0, "warps"),  # a thread more is a warp more
        (256, 0, 0, 100.0, "warps"),
    ],
)
def test_limits(block: int, registers: int, shared: int, percent: float, limiter: str) -> None:
    found = occupancy(CHIP, Resources(block_size=block, registers=registers, shared=shared))
    assert found.percent == percent
    assert limiter in found.limiters


def test_a_thread_gets_sixteen_registers_at_least() -> None:
    limits = [
        of_block(CHIP, KernelResources(name="k", registers=count), 64, 0).limits["registers"]
        for count in (6, 16, 24)
    ]
    assert limits == [64, 64, 42]


def test_no_limit_is_above_the_blocks_of_an_sm() -> None:
    found = occupancy(CHIP, Resources(block_size=32, registers=16, shared=0))
    assert found.limits["shared memory"] == found.limits["blocks"] == 32
    assert found.limiters == ("blocks", "shared memory")


def test_the_profilers_limit_by_barriers_is_taken_with_the_block() -> None:
    free = Resources(block_size=256, registers=32, shared=0)
    held = Resources(block_size=256, registers=32, shared=0, barriers_limit=2)
    found = occupancy(CHIP, held)
    assert (found.percent, found.blocks, found.limiters) == (25.0, 2, ("barriers",))
    assert split(CHIP, "k", free, held).causes == {
        "registers": 0.0,
        "shared memory": 0.0,
        "block size": -75.0,
    }


def test_the_drivers_part_for_shared_memory_is_taken_with_it() -> None:
    small = Resources(block_size=256, registers=32, shared=8000, shared_config=16 * 1024)
    large = Resources(block_size=256, registers=32, shared=8000, shared_config=228 * 1024)
    assert occupancy(CHIP, small).blocks == 1 and occupancy(CHIP, large).blocks == 8
    # As ncu has it: of a part that is known no block is left out, and 1 KiB of each is CUDA's.
    little = msgspec.structs.replace(small, shared=0, shared_config=64 * 1024)
    assert occupancy(CHIP, little).limits["shared memory"] == 64
    causes = split(CHIP, "k", small, large).causes
    assert causes == {"registers": 0.0, "shared memory": 87.5, "block size": 0.0}


def test_dynamic_shared_memory_is_the_reports_or_the_launchs() -> None:
    def shared(dynamic: int | None) -> int:
        metrics = make_metrics(launch__shared_mem_per_block_dynamic=dynamic)
        found = resources(make_launch(metrics=metrics, dynamic_shared=512))
        assert found is not None
        return found.shared

    assert shared(None) == 4096 + 512 and shared(1024) == 4096 + 1024 and shared(0) == 4096


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
    assert len(split_launches(full, full, pair_launches(full.launches, full.launches))) == 1
    lacking = make_profile(launches=(make_launch(metrics={}),))
    assert split_launches(full, lacking, pair_launches(full.launches, lacking.launches)) == ()
    unknown = make_profile(device=type(H200)(name="?", slug="x"), launches=full.launches)
    assert split_launches(unknown, unknown, ()) == ()
