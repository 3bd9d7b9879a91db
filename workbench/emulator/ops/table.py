"""The opcode table: which builder makes an instruction's closure."""

from __future__ import annotations

from collections.abc import Callable

from workbench.emulator.ops import (
    access,
    arithmetic,
    asynccopy,
    atomics,
    comparisons,
    conversions,
    float8,
    floats,
    halves,
    moves,
    warp,
)
from workbench.emulator.ops.tensor import mma, wmma
from workbench.emulator.ptx.instructions import Instr
from workbench.emulator.state.context import CodeSite, Context, Run

_FLOATS = ("f32", "f64")
#: Builders of what is counted beyond how often it runs.
_COUNTED: dict[str, Callable[[Instr, Context, CodeSite], Run]] = {
    "ld": access.load, "ldu": access.load, "st": access.store, "atom": atomics.build,
    "red": atomics.build, "ldmatrix": mma.ldmatrix, "wmma": wmma.build, "cp": asynccopy.build,
}  # fmt: skip

_TABLES = (
    moves.BUILDERS, conversions.BUILDERS, comparisons.BUILDERS, warp.BUILDERS,
    arithmetic.BUILDERS,
)  # fmt: skip
#: Opcodes of which some form runs; those of control flow end blocks and have no builder.
OPCODES = frozenset(
    (
        *_COUNTED, "mma", "addc", "subc", "madc", "bra", "brx", "call", "ret", "exit",
        *(op for table in (*_TABLES, halves.BUILDERS, floats.BUILDERS) for op in table),
    )
)  # fmt: skip


def closure(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """The closure that runs one instruction.

    Raises:
        KernelError: the instruction is not supported; names it with file and line.
    """
    try:
        return _closure(instr, ctx, site)
    except (
        KeyError, IndexError, ValueError, StopIteration, TypeError, AttributeError, AssertionError,
    ) as error:  # fmt: skip
        # A type, shape or modifier that the builder's tables do not know.
        raise ctx.unsupported(instr) from error


def _closure(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    op, kind = instr.op, instr.parts[-1]
    if op == "cvt" and not set(float8.PAIRS).isdisjoint(instr.parts[-2:]):
        return float8.convert(instr, ctx)
    if op in _COUNTED:
        return _COUNTED[op](instr, ctx, site)
    if op == "mma":
        return mma.mma(instr, ctx)
    if arithmetic.uses_carry(instr):
        return arithmetic.with_carry(instr, ctx)
    tables = list(_TABLES)
    if kind in halves.KINDS:
        tables.insert(0, halves.BUILDERS)
    elif kind in _FLOATS:
        tables.insert(0, floats.BUILDERS)
    for table in tables:
        if op in table:
            return table[op](instr, ctx)
    raise ctx.unsupported(instr)
