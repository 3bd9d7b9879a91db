"""Theoretical occupancy as a closed formula, and its change split over three causes.

The formula is NVIDIA's occupancy calculator (``cuda_occupancy.h`` of the toolkit):
the number of blocks that fit on an SM by warps, blocks, registers and shared memory; the smallest
counts. Its change between two launches is split by Shapley values: the mean contribution of a cause
over all orders in which the causes can change. It is the only split that adds up exactly and treats
the causes alike (L. S. Shapley, 1953).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import permutations
from typing import Literal

from workbench.analysis.aggregate import LaunchPair
from workbench.gpus import Chip, chip_for
from workbench.model import KernelResources, Launch, Profile, Record

Cause = Literal["registers", "shared memory", "block size"]
CAUSES: tuple[Cause, ...] = ("registers", "shared memory", "block size")
#: The driver gives a thread at least this many registers, however few ptxas reports.
LEAST_REGISTERS = 16


class Resources(Record, frozen=True):
    """Resources of one block. Sizes in bytes; `shared_config` is the SM's shared-memory part.

    `barriers_limit` is the profiler's own limit by barriers, 0 if unknown: it is used as it is,
    because NVIDIA does not publish the number of barriers per SM.
    """

    block_size: int
    registers: int
    shared: int
    shared_config: int = 0
    barriers_limit: int = 0


class Occupancy(Record, frozen=True):
    """Blocks and warps that fit on an SM, by each limit. `percent` is that of the SM's warps."""

    percent: float
    warps: int
    blocks: int
    limits: dict[str, int]
    limiters: tuple[str, ...]


class OccupancySplit(Record, frozen=True):
    """Theoretical occupancy of two launches, in percent, and what changed it, in points.

    The values of `causes` add up to `delta` exactly before rounding to floating point.
    """

    kernel: str
    old: float
    new: float
    delta: float
    causes: dict[str, float]
    limiters_old: tuple[str, ...]
    limiters_new: tuple[str, ...]


def resources(launch: Launch) -> Resources | None:
    """A launch's resources from its metrics; None if a report lacks them."""

    def number(name: str) -> int | None:
        metric = launch.metrics.get(name)
        return (
            int(metric.value) if metric is not None and not isinstance(metric.value, str) else None
        )

    registers = number("launch__registers_per_thread")
    threads = number("launch__block_size") or launch.block[0] * launch.block[1] * launch.block[2]
    static = number("launch__shared_mem_per_block_static")
    if registers is None or static is None or not threads:
        return None
    dynamic = number("launch__shared_mem_per_block_dynamic")
    return Resources(
        block_size=threads,
        registers=registers,
        shared=static + (launch.dynamic_shared if dynamic is None else dynamic),
        shared_config=number("launch__shared_mem_config_size") or 0,
        barriers_limit=number("launch__occupancy_limit_barriers") or 0,
    )


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(chip: Chip, need: Resources) -> Occupancy:
    """Theoretical occupancy of one launch. A block that does not fit gives zero."""
    warps = max(1, -(-need.block_size // chip.warp_size))
    per_warp = _up(max(1, need.registers) * chip.warp_size, chip.register_unit)
    # Registers are allocated per warp, in the warp's sub-partition.
    wide = chip.registers_per_sm // chip.schedulers // per_warp * chip.schedulers
    shared = _up(need.shared + chip.shared_reserved, chip.shared_unit)
    room = need.shared_config or chip.shared_per_sm
    held = room // shared if shared else chip.blocks_per_sm
    limits = {
        "warps": chip.warps_per_sm // warps,
        "blocks": chip.blocks_per_sm,
        "registers": wide // warps,
        "shared memory": held if need.shared_config else min(held, chip.blocks_per_sm),
    }
    if need.barriers_limit:
        limits["barriers"] = need.barriers_limit
    blocks = min(limits.values())
    return Occupancy(
        percent=float(Fraction(100 * blocks * warps, chip.warps_per_sm)),
        warps=blocks * warps,
        blocks=blocks,
        limits=limits,
        limiters=tuple(name for name, limit in limits.items() if limit == blocks),
    )


def needs(kernel: KernelResources, threads: int, dynamic_shared: int) -> Resources:
    """The resources of a compiled kernel's block."""
    return Resources(
        block_size=threads,
        registers=max(kernel.registers, LEAST_REGISTERS),
        shared=kernel.static_shared + dynamic_shared,
    )


def of_block(chip: Chip, kernel: KernelResources, threads: int, dynamic_shared: int) -> Occupancy:
    """The occupancy of a compiled kernel's block."""
    return occupancy(chip, needs(kernel, threads, dynamic_shared))


def unfit(
    chip: Chip, kernel: KernelResources, threads: int, dynamic_shared: int
) -> tuple[str, str]:
    """The reason why the chip cannot launch such a block, and a hint; empty if it can."""
    shared = kernel.static_shared + dynamic_shared
    if shared > chip.shared_per_block:
        return (
            f"{shared:,} bytes of shared memory per block; the chip has {chip.shared_per_block:,}",
            "Declare smaller arrays, or set a smaller `dynamic_shared` in [[launch]].",
        )
    if of_block(chip, kernel, threads, dynamic_shared).blocks:
        return "", ""
    most = chip.registers_per_sm // threads // 8 * 8
    return (
        f"{threads:,} threads of {kernel.registers} registers: not one block fits on an SM, "
        f"which has {chip.registers_per_sm:,} registers",
        f"Launch fewer threads per block, or let ptxas use at most {most} registers per thread: "
        f"`__launch_bounds__({threads})` at the kernel, or -maxrregcount in `flags`.",
    )


def split(chip: Chip, kernel: str, old: Resources, new: Resources) -> OccupancySplit:
    """Split the change of theoretical occupancy over registers, shared memory, block size.

    The shared-memory part of the L1, which the driver chooses, belongs to shared
    memory; a limit by barriers belongs to the block size.
    """

    def mix(changed: frozenset[Cause]) -> Fraction:
        need = Resources(
            registers=(new if "registers" in changed else old).registers,
            shared=(new if "shared memory" in changed else old).shared,
            shared_config=(new if "shared memory" in changed else old).shared_config,
            block_size=(new if "block size" in changed else old).block_size,
            barriers_limit=(new if "block size" in changed else old).barriers_limit,
        )
        return Fraction(100 * occupancy(chip, need).warps, chip.warps_per_sm)

    shares = dict.fromkeys(CAUSES, Fraction(0))
    orders = list(permutations(CAUSES))
    for order in orders:
        changed: frozenset[Cause] = frozenset()
        for cause in order:
            before = mix(changed)
            changed |= {cause}
            shares[cause] += (mix(changed) - before) / len(orders)
    first, last = mix(frozenset()), mix(frozenset(CAUSES))
    return OccupancySplit(
        kernel=kernel,
        old=float(first),
        new=float(last),
        delta=float(last - first),
        causes={cause: float(value) for cause, value in shares.items()},
        limiters_old=occupancy(chip, old).limiters,
        limiters_new=occupancy(chip, new).limiters,
    )


def split_launches(
    old: Profile, new: Profile, pairs: Iterable[LaunchPair]
) -> tuple[OccupancySplit, ...]:
    """`split` for every matched launch whose chip and resources are known."""
    chip = chip_for(new.device)
    if chip is None or old.device.compute_capability != new.device.compute_capability:
        return ()
    out = []
    for pair in pairs:
        if pair.old is None or pair.new is None:
            continue
        a, b = old.launches[pair.old], new.launches[pair.new]
        before, after = resources(a), resources(b)
        if before is not None and after is not None:
            out.append(split(chip, b.kernel, before, after))
    return tuple(out)
