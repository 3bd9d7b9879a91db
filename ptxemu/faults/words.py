"""What a kernel does wrong, in words: who, where, which array, how far off."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Protocol

import numpy as np

from ptxemu.errors import Fault, ResourceError, Unsupported
from ptxemu.ptx.instructions import Instr
from ptxemu.ptx.shapes import plain
from ptxemu.state.context import Context, Registers
from ptxemu.state.lanes import Dim3, Lanes
from ptxemu.state.spaces import RESERVED, GlobalMemory, Reach
from ptxemu.state.values import Array

#: What NumPy and Python raise where values do not fit an instruction.
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
    """Raise where a lane misses every array or is misaligned; return where all is well.

    Addresses of shared memory start behind what the system keeps, those of local memory at 0.
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
    verb = "writes" if instr.op in ("st", "red", "atom") else "reads"
    does = f"{who(lanes, row, thread)} {verb} {_bytes(width)}"
    if crooked[row, thread]:
        place = ctx.variable_at(space, address)
        if space == "global":
            array = rt.arena.allocation_of(address)
            place = f"{array.name} + {address - array.start}" if array else hex(address)
        raise Fault(
            f"{ctx.where(instr)}: misaligned access: {does} at {place}, which is not a multiple of "
            f"{width}",
            "Vector loads and casts to wider types need addresses aligned to their size.",
        )
    if space == "global":
        count = int(out.sum())
        place = _missed(rt.arena, address, width)
        if count > 1:
            more = "1 more thread" if count == 2 else f"{count - 1:,} more threads"
            place += f"; {more} of the same batch of blocks {'does' if count == 2 else 'do'} so too"
        hint = "Check the index against the array's size, or guard the access."
    else:
        sign = "" if address >= 0 else "−"
        place = f" at {space} address {sign}{abs(address)} ({ctx.variable_at(space, address)})"
        place += f"; the block has {_bytes(max(size - begin, 0))}"
        hint = "Check the index against the array's size."
    raise Fault(f"{ctx.where(instr)}: out of bounds: {does}{place}", hint)


def check_home(
    ctx: Context, instr: Instr, reach: Reach, width: int, home: tuple[str, int, int]
) -> None:
    """Raise where a lane leaves the array of shared memory that its address was made from."""
    lanes, (name, start, size) = ctx.rt.lanes, home
    addresses = np.broadcast_to(reach.pattern.rel + reach.low, lanes.shape)
    out = (addresses < start) | (addresses + width > start + size)
    out &= lanes.full(reach.mask)
    if not out.any():
        return
    row, thread = first_lane(lanes, out)
    address = int(addresses[row, thread])
    gap = start - address if address < start else address - start - size + 1
    beside = f"{_bytes(gap)} {'before' if address < start else 'past the end of'} {name}"
    if start <= address < start + size:
        beside = f"the last {address + width - start - size} of them past the end of {name}"
    other = ctx.variable_at("shared", max(address, start + size) if address >= start else address)
    verb = "writes" if instr.op in ("st", "red", "atom") else "reads"
    raise Fault(
        f"{ctx.where(instr)}: out of bounds: {who(lanes, row, thread)} {verb} {_bytes(width)} of "
        f"shared memory, {beside} ({_bytes(size)}): they lie at {other}",
        "Check the index against the array's size: what lies behind an array is another one.",
    )


class Pointers(Protocol):
    """Lanes that point somewhere: rows of the batch and threads, one entry a lane."""

    @property
    def row(self) -> Array:
        """The lane's block in the batch."""

    @property
    def thread(self) -> Array:
        """Its number in the block."""


def check_span(
    ctx: Context, instr: Instr, lanes: Pointers, span: tuple[Array, Array], verb: str
) -> None:
    """Raise where a lane's bytes of global memory do not lie in one array.

    They go from the first of `span` to before the second.
    """
    arena, (low, end) = ctx.rt.arena, span
    good = arena.inside(low, 1) & arena.inside(end - 1, 1)
    if good.all() and arena.holds(int(low.min()), int(end.max()) - 1):
        return
    for at, (start, stop) in enumerate(zip(low.tolist(), end.tolist(), strict=True)):
        if arena.holds(start, stop - 1):
            continue
        first = arena.allocation_of(start)
        where = start if first is None else first.start + first.size
        place = _missed(arena, where)
        raise Fault(
            f"{ctx.where(instr)}: out of bounds: a copy by "
            f"{who(ctx.rt.lanes, int(lanes.row[at]), int(lanes.thread[at]))} {verb} "
            f"{_bytes(stop - start)}, the first of them outside{place}",
            "Check the copy's address and size against the array's size.",
        )


def _missed(arena: GlobalMemory, address: int, width: int = 1) -> str:
    """How far an access to global memory is off, with what parts it from the words before it."""
    if address < 4096:
        return f" at address {hex(address)} (a null pointer?)"
    near = arena.nearest(address)
    if near is None or near[1] > 1 << 40:
        return f" at address {hex(address)}, which lies in no array"
    array, gap = near
    if (last := address + width - array.start - array.size) and 0 < last < width:
        return f", the last {last} of them past the end of {array.name} ({_bytes(array.size)})"
    side = "before" if address < array.start else "past the end of"
    return f", {_bytes(gap)} {side} {array.name} ({_bytes(array.size)})"


def endless(kernel: str, where: str, limit: int) -> Fault:
    """The instruction limit was reached."""
    return Fault(
        f"{where}: kernel {kernel} is still running after {limit:,} instructions of one thread: "
        "an endless loop, or a wait for a block that cannot run",
        "Check the loop's end condition; `Limits.instructions` raises the limit.",
    )


def overdue(kernel: str, where: str, seconds: float) -> ResourceError:
    """The time limit was reached."""
    return ResourceError(
        f"{where}: kernel {kernel} did not end within {seconds:g} s in the emulator",
        "If it is only slow, allow more with `Limits.within`, or choose a smaller problem; a "
        "loop that never ends looks the same.",
    )


def waits_forever(where: str, thread: str, count: int, why: str) -> Fault:
    """A loop that only another thread could end, and none will."""
    more = f" and {count - 1:,} more of the same batch of blocks" if count > 1 else ""
    reason = why or "every other thread has exited or waits as well"
    return Fault(
        f"{where}: endless wait: {thread}{more} would loop here forever: an iteration "
        f"changes nothing, and {reason}",
        "Check which thread is to write what the loop reads, and that it writes before it waits.",
    )


def unfit(
    ctx: Context, instrs: Sequence[Instr], R: Registers, error: Exception
) -> Fault | Unsupported:
    """Instructions that could not run: a register without a value, or operands that do not fit."""
    for instr in instrs:
        for name in instr.reads:
            slot = ctx.slots.get(name)
            if slot is not None and R[slot] is None:
                return Fault(
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
