"""Describe faults: the thread, the place, the array, and the distance from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from traceback import extract_tb

import numpy as np

from ptxemu.errors import Fault, Unset, Unsupported
from ptxemu.faults.overflow import overflow_of
from ptxemu.ptx.instructions import Instr
from ptxemu.ptx.shapes import plain
from ptxemu.state.context import Context, Named, Registers
from ptxemu.state.lanes import Dim3, Lanes
from ptxemu.state.spaces import RESERVED, GlobalMemory, Reach
from ptxemu.state.values import Array

#: Exceptions of NumPy and Python if values do not fit an instruction.
UNFIT = (TypeError, ValueError, AttributeError, AssertionError, IndexError, OverflowError)


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


def check_access(ctx: Context, instr: Instr, reach: Reach, width: int, space: str) -> None:
    """Raise if a lane misses every array or is misaligned; otherwise return.

    Addresses of shared memory start after the system's part, those of local memory at 0.
    """
    rt, lanes = ctx.rt, ctx.rt.lanes
    addresses = np.broadcast_to(reach.pattern.rel + reach.low, lanes.shape)
    live = lanes.full(reach.mask)
    crooked = live & (addresses % width != 0)
    begin, size = (RESERVED, rt.shared_limit) if space == "shared" else (0, rt.local_limit)
    if space == "global":
        out = live & ~rt.arena.inside(addresses.reshape(-1), width).reshape(lanes.shape)
        bad = crooked if crooked.any() else out
    else:
        out = live & ((addresses < begin) | (addresses + width > size))
        bad = crooked | out
    if not bad.any():
        return
    row, thread = first_lane(lanes, bad)
    address = int(addresses[row, thread])
    lane, verb = who(lanes, row, thread), _verb(instr)
    if crooked[row, thread]:
        at_home = space == "global"
        place = rt.arena.name_at(address) if at_home else ctx.variable_at(space, address)
        raise ctx.fault(
            instr, "misaligned", f"misaligned access: {lane} {verb} {_bytes(width)} at {place}, "
            f"whose address is not a multiple of {width}",
            f"Use the wide access only where the address is a multiple of {width} (the index "
            "and the row length must be multiples of it, too); access single elements elsewhere.",
        )  # fmt: skip
    if space == "global":
        count = int(out.sum())
        place = missed(rt.arena, address, width)
        others = count - 1
        what = f"out of bounds: {lane} {verb} {place}"
        if others == 1:
            what = (
                f"out of bounds: {lane} {verb} {place}; 1 more thread in the same batch of blocks "
                "does so, too"
            )
        elif others:
            what = (
                f"out of bounds: {lane} {verb} {place}; {others:,} more threads in the same batch "
                "of blocks do so, too"
            )
        overflow = overflow_of(ctx, instr, row, thread)
        if overflow is None:
            raise ctx.fault(instr, "out-of-bounds", what, _GUARD)
        index, got, where = overflow
        raise ctx.fault(
            instr, "out-of-bounds", f"integer overflow: the index {index} becomes {got} in 32 bits "
            f"({where}); {what}",
            "Compute the index in 64 bits, as in `(size_t)row * pitch`; where it may be below 0, "
            "use a signed type.",
        )  # fmt: skip
    shown = f"{'' if address >= 0 else '−'}{abs(address)}"
    raise ctx.fault(
        instr, "out-of-bounds", f"out of bounds: {lane} {verb} {_bytes(width)} at {space} address "
        f"{shown} ({ctx.variable_at(space, address)}); the block has "
        f"{_bytes(max(size - begin, 0))}",
        _GUARD,
    )  # fmt: skip


#: The hint for an index that leaves its array.
_GUARD = (
    "Guard the access with the array's extents (`if (row < ROWS && column < COLUMNS)`), or correct "
    "the index; where it is right, the array is too small."
)


def _verb(instr: Instr) -> str:
    return "writes" if instr.op in ("st", "red", "atom") else "reads"


def check_home(ctx: Context, instr: Instr, reach: Reach, width: int, home: Named) -> None:
    """Raise if a lane leaves the shared-memory array from which its address was made."""
    lanes, start, end = ctx.rt.lanes, home.start, home.start + home.size
    addresses = np.broadcast_to(reach.pattern.rel + reach.low, lanes.shape)
    out = (addresses < start) | (addresses + width > end)
    out &= lanes.full(reach.mask)
    if not out.any():
        return
    row, thread = first_lane(lanes, out)
    address = int(addresses[row, thread])
    lane, verb, what = who(lanes, row, thread), _verb(instr), home.at(address)
    what = _what(what, width, home.width)
    if home.dynamic and not home.size:
        need = int(addresses[out].max()) + width - start
        raise ctx.fault(
            instr, "out-of-bounds",
            f"out of bounds: {lane} {verb} {what}, and the launch gives no dynamic shared memory",
            f"Launch with the bytes that {home.name}[] needs: here at least {need:,}.",
        )  # fmt: skip
    side = "before" if address < start else "past the end of"
    part = f"the last {address + width - end} of them " if start <= address < end else ""
    other = ctx.variable_at("shared", max(address, end) if address >= start else address)
    nothing = address < RESERVED or address + width > ctx.rt.shared_limit
    nothing = nothing or other.endswith("its end")
    raise ctx.fault(
        instr, "out-of-bounds",
        f"out of bounds: {lane} {verb} {what} of shared memory, {part}{side} "
        f"{home.extent}{', where the block has no memory' if nothing else f': there lies {other}'}",
        _GUARD,
    )  # fmt: skip


def _what(place: str, width: int, each: int) -> str:
    """The accessed element, or the number of bytes at it, in words."""
    return place if width == each else f"{_bytes(width)} at {place}"


def missed(arena: GlobalMemory, address: int, width: int) -> str:
    """The element that an access to global memory would access, and the array that it misses."""
    if address < 4096:
        return f"{_bytes(width)} at address {hex(address)} (a null pointer?)"
    gone = arena.freed(address)
    if gone is not None:
        return f"{_what(gone.at(address), width, gone.width)}, and {gone.name} was freed before"
    near = arena.nearest(address)
    if near is None or near[1] > 1 << 40:
        return f"{_bytes(width)} at address {hex(address)}, outside of all arrays"
    array, _ = near
    side = "before" if address < array.start else "past the end of"
    last = address + width - array.start - array.size
    part = f"the last {last} of them " if 0 < last < width else ""
    what = _what(array.at(address), width, array.width)
    return f"{what}, {part}{side} {array.name} ({array.extent})"


def unfit(
    ctx: Context, instrs: Sequence[Instr], R: Registers, error: Exception
) -> Fault | Unsupported:
    """Instructions that could not run: a register without a value, or operands that do not fit."""
    for instr in instrs:
        for name in instr.reads:
            slot = ctx.slots.get(name)
            if slot is not None and R[slot] is None:
                return Unset(
                    f"{ctx.where(instr)}: kernel {ctx.kernel} reads register {plain(name)}, which "
                    f"nothing has written: `{instr.text}`",
                    "A variable has no value on some path; on a GPU the register would hold an "
                    "arbitrary one.",
                )
    frame = extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return Unsupported(
        f"{ctx.where(instrs[0])}: kernel {ctx.kernel}: the emulator cannot run "
        f"`{instrs[0].text}` with these values ({type(error).__name__} in {place}: {error})",
        "If ptxas accepts the instruction, this is a bug in the emulator: report it with the PTX.",
    )
