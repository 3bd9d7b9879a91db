"""``malloc`` and ``free`` in kernels: every piece is a separate array, so checks cover it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxemu.faults.words import who
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import Context, Registers, Run
from ptxemu.state.lanes import Mask
from ptxemu.state.values import Array, unsigned


def malloc(instr: Instr, ctx: Context) -> Run:
    """The address of fresh memory for each thread; 0 if the heap has no room."""
    slot, rt = ctx.slot(instr.operands[1], 8), ctx.rt
    heap, name = rt.arena.heap, f"malloc at {ctx.where(instr)}"

    def run(R: Registers, M: Mask) -> Array:
        arena, lanes = rt.arena, rt.lanes
        rt.changes += 1
        out = np.zeros(lanes.shape, np.uint64)
        sizes = np.broadcast_to(unsigned(R[slot], 8), lanes.shape)
        for row, thread in np.argwhere(lanes.full(M)).tolist():
            size = int(sizes[row, thread])
            start = out[row, thread] = heap.take(size)
            if start:
                arena.allocate(name, start, size)
                arena.mark(start, size, written=False)
                if rt.stores is not None:
                    rt.stores.forget(np.arange(start - arena.base, start - arena.base + size), 1)
        return out

    return run


def free(instr: Instr, ctx: Context) -> Run:
    """Free memory from `malloc`."""
    slot, rt = ctx.slot(instr.operands[0], 8), ctx.rt

    def run(R: Registers, M: Mask) -> None:
        lanes, arena = rt.lanes, rt.arena
        rt.changes += 1
        places = np.broadcast_to(unsigned(R[slot], 8), lanes.shape)
        for row, thread in np.argwhere(lanes.full(M)).tolist():
            start = int(places[row, thread])
            if not start or arena.heap.give(start):
                arena.release(start)
                continue
            array, gone = arena.allocation_of(start), arena.freed(start)
            what = f"{array.at(start)}, which malloc did not return" if array else hex(start)
            what = f"{gone.name}, which was freed before" if gone and not array else what
            raise ctx.fault(
                instr, "other", f"free of a wrong address: {who(lanes, row, thread)} frees {what}",
                "Free what malloc or new returned, once, and no memory from cudaMalloc.",
            )  # fmt: skip

    return run


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = {"malloc": malloc, "free": free}
