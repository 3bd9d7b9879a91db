"""What a kernel does wrong, in words: who, where, which array, how far off."""

from __future__ import annotations

import numpy as np

from workbench.emulator.ptx.instructions import Instr
from workbench.emulator.state.context import Context, Runtime
from workbench.emulator.state.lanes import Dim3, Lanes, Mask
from workbench.emulator.state.spaces import GLOBAL_BASE, Pattern
from workbench.emulator.state.values import Array
from workbench.errors import KernelError


def triple(linear: int, extents: Dim3) -> str:
    """A linear index as ``(x, y, z)``."""
    x, rest = linear % extents[0], linear // extents[0]
    return f"({x}, {rest % extents[1]}, {rest // extents[1]})"


def who(lanes: Lanes, row: int, thread: int) -> str:
    """``thread (3, 0, 0) of block (1, 0, 0)``."""
    geometry = lanes.geometry
    block = triple(int(lanes.blocks[row]), geometry.grid)
    return f"thread {triple(thread, geometry.block)} of block {block}"


def first_lane(lanes: Lanes, bad: Array) -> tuple[int, int]:
    """Row and thread of the first true lane."""
    flat = int(np.argmax(np.broadcast_to(bad, lanes.shape)))
    return flat // lanes.T, flat % lanes.T


def _bytes(count: int) -> str:
    return f"{count} byte{'' if count == 1 else 's'}"


def _misaligned(addresses: Array, mask: Mask, lanes: Lanes, width: int) -> Array:
    return np.asarray(lanes.full(mask) & (addresses % width != 0))


def check_global(
    ctx: Context, rt: Runtime, instr: Instr, view: Pattern, off: int, mask: Mask, width: int
) -> None:
    """Raise where a lane misses every array or is misaligned; return where all is well."""
    lanes = rt.lanes
    addresses = np.broadcast_to(view.rel + (view.low + off), lanes.shape)
    live = lanes.full(mask)
    verb = "writes" if instr.op in ("st", "red", "atom") else "reads"
    crooked = _misaligned(addresses, mask, lanes, width)
    if crooked.any():
        row, thread = first_lane(lanes, crooked)
        address = int(addresses[row, thread])
        allocation = rt.arena.allocation_of(address)
        place = f"{allocation.name} + {address - allocation.start}" if allocation else hex(address)
        raise KernelError(
            f"{ctx.where(instr)}: misaligned access: {who(lanes, row, thread)} {verb} "
            f"{_bytes(width)} at {place}, which is not a multiple of {width}",
            "Vector loads and casts to wider types need addresses aligned to their size.",
        )
    out = live & ~rt.arena.inside(addresses.reshape(-1), width).reshape(lanes.shape)
    if not out.any():
        return
    row, thread = first_lane(lanes, out)
    address = int(addresses[row, thread])
    near = rt.arena.nearest(address)
    count = int(out.sum())
    others = f"; {count - 1} more threads of this batch do the same" if count > 1 else ""
    if address < 4096:
        place = f"at address {hex(address)} (a null pointer?)"
    elif near is None or near[1] > 1 << 40:
        place = f"at address {hex(address)}, in no array"
    else:
        allocation, gap = near
        side = "before" if address < allocation.start else "past the end of"
        place = f"{_bytes(gap)} {side} {allocation.name} ({_bytes(allocation.size)})"
    raise KernelError(
        f"{ctx.where(instr)}: out of bounds: {who(lanes, row, thread)} {verb} {_bytes(width)} "
        f"{place}{others}",
        "Check the index against the array's size, or guard the access.",
    )


def check_window(
    ctx: Context, rt: Runtime, instr: Instr, view: Pattern, off: int, mask: Mask, width: int,
    space: str,
) -> None:  # fmt: skip
    """The same for shared and local memory, whose addresses start at 0."""
    lanes = rt.lanes
    size = rt.shared_limit if space == "shared" else rt.local_limit
    addresses = np.broadcast_to(view.rel + (view.low + off), lanes.shape)
    verb = "writes" if instr.op in ("st", "red", "atom") else "reads"
    crooked = _misaligned(addresses, mask, lanes, width)
    bad = crooked | (lanes.full(mask) & ((addresses < 0) | (addresses + width > size)))
    if not bad.any():
        return
    row, thread = first_lane(lanes, bad)
    address = int(addresses[row, thread])
    if crooked[row, thread]:
        raise KernelError(
            f"{ctx.where(instr)}: misaligned access: {who(lanes, row, thread)} {verb} "
            f"{_bytes(width)} at {ctx.variable_at(space, address)}, which is not a multiple of "
            f"{width}",
            "Vector loads and casts to wider types need addresses aligned to their size.",
        )
    place = f"{space} address {address}" if address >= 0 else f"{space} address −{-address}"
    raise KernelError(
        f"{ctx.where(instr)}: out of bounds: {who(lanes, row, thread)} {verb} {_bytes(width)} at "
        f"{place} ({ctx.variable_at(space, address)}); the block has {_bytes(size)}",
        "Check the index against the array's size.",
    )


def endless(kernel: str, where: str, limit: int) -> KernelError:
    """The instruction limit was reached."""
    return KernelError(
        f"{where}: kernel {kernel} is still running after {limit:,} instructions of one thread: "
        "an endless loop, or a wait for a block that cannot run",
        "Check the loop's end condition; --instruction-limit raises the limit.",
    )


def global_address(offset: int) -> int:
    """The address of a byte of the arena."""
    return GLOBAL_BASE + offset
