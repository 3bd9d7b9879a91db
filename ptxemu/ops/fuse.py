"""Independent fused multiply-adds of a block are run together.

A register tile is dozens of multiply-adds that do not depend on each other. One after
the other they cost eight NumPy calls each; together they share all but two. Where the
batch has few lanes the calls are what costs, and this makes the difference.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxemu.ops.exact import fma32_stacked
from ptxemu.ops.floats import wide
from ptxemu.ptx.flow import arguments, results
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import Context, Registers, Run, writes_itself
from ptxemu.state.lanes import Mask, select

#: float64 elements of one stack: two of them fit into a core's second-level cache.
_STACK = 65_536


def fusable(instr: Instr) -> bool:
    """A plain float32 fused multiply-add."""
    return instr.parts == ("fma", "rn", "f32") and instr.guard is None


def schedule(instrs: list[Instr]) -> list[Instr | list[Instr]]:
    """The block's instructions with independent multiply-adds gathered into lists.

    Other instructions move ahead of a pending list unless they read or write what it
    writes, or write what it reads.
    """
    out: list[Instr | list[Instr]] = []
    pending: list[Instr] = []
    reads: set[str] = set()
    writes: set[str] = set()

    def flush() -> None:
        if pending:
            out.append(pending[0] if len(pending) == 1 else list(pending))
        pending.clear()
        reads.clear()
        writes.clear()

    for instr in instrs:
        uses, makes = set(arguments(instr)), set(results(instr))
        if uses & writes or makes & writes or makes & reads:
            flush()
        if fusable(instr):
            pending.append(instr)
            reads |= uses
            writes |= makes
        else:
            out.append(instr)
    flush()
    return out


def build(instrs: list[Instr], ctx: Context, outlives: Callable[[str], bool]) -> Run:
    """One closure for a list of independent multiply-adds; it writes their results itself."""
    rt = ctx.rt
    plan = []
    for instr in instrs:
        target = ctx.target(instr.operands[0])
        slots = [ctx.slot(operand, 4, "f32") for operand in instr.operands[1:4]]
        plan.append((target, *slots, outlives(results(instr)[0])))

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        cache = rt.wide
        lanes = rt.lanes
        step = max(1, _STACK // (lanes.B * lanes.T))
        for start in range(0, len(plan), step):
            part = plan[start : start + step]
            operands = [
                (wide(R, a, cache), wide(R, b, cache), wide(R, c, cache)) for _, a, b, c, _ in part
            ]
            stack = fma32_stacked(operands, lanes.shape)
            for row, (target, _, _, _, outlive) in zip(stack, part, strict=True):
                if M.partial and outlive:
                    R[target] = select(M, row, R[target], 4)
                else:
                    R[target] = row

    return many
