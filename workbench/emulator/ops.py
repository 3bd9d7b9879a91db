"""The opcode table: which builder makes an instruction's closure."""

from __future__ import annotations

from workbench.emulator import (
    access,
    asynccopy,
    atomics,
    convert,
    floats,
    halves,
    intops,
    mma,
    moves,
    traps,
    warp,
)
from workbench.emulator.context import Context, Run, Site
from workbench.emulator.ir import Instr

_FLOATS = ("f32", "f64")


def build(instr: Instr, ctx: Context, site: Site) -> Run:
    """The closure that runs one instruction.

    Raises:
        KernelError: the instruction is not supported; names it with file and line.
    """
    op, kind = instr.op, instr.parts[-1]
    if op in ("ld", "ldu"):
        return access.load(instr, ctx, site)
    if op == "st":
        return access.store(instr, ctx, site)
    if op in ("atom", "red"):
        return atomics.build(instr, ctx, site)
    if op in ("mma", "wmma", "ldmatrix"):
        return mma.build(instr, ctx, site)
    if op == "cp":
        return asynccopy.build(instr, ctx, site)
    if op in ("trap", "brkpt"):
        return traps.build(instr, ctx)
    builder = None
    if kind in halves.KINDS and op in halves.BUILDERS:
        builder = halves.BUILDERS[op]
    elif kind in _FLOATS and op in floats.BUILDERS:
        builder = floats.BUILDERS[op]
    elif op in moves.BUILDERS:
        builder = moves.BUILDERS[op]
    elif op in convert.BUILDERS:
        builder = convert.BUILDERS[op]
    elif op in warp.BUILDERS:
        builder = warp.BUILDERS[op]
    elif op in intops.BUILDERS:
        builder = intops.BUILDERS[op]
    if builder is None:
        raise ctx.unsupported(instr)
    try:
        return builder(instr, ctx)
    except (KeyError, IndexError, ValueError, StopIteration) as error:
        # A type or modifier that the builder's tables do not know.
        raise ctx.unsupported(instr) from error
