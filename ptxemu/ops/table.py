"""The opcode table: which builder makes an instruction's closure."""

from __future__ import annotations

from collections.abc import Callable

from ptxemu.ops import (
    access,
    arithmetic,
    asynccopy,
    atomics,
    cluster,
    comparisons,
    conversions,
    copies,
    floats,
    mbarrier,
    mma,
    moves,
    tensors,
    video,
    warp,
    wgmma,
)
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import CodeSite, Context, Run, Wait

_FLOATS = ("f32", "f64")


def _copy(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    if "mbarrier" in instr.parts:
        return mbarrier.arrive_with_copies(instr, ctx)
    if "tensor" in instr.parts:
        return tensors.build(instr, ctx, site)
    bulk = "bulk" in instr.parts
    return (copies.build if bulk else asynccopy.build)(instr, ctx, site)


#: Builders of what is counted beyond how often it runs.
_COUNTED: dict[str, Callable[[Instr, Context, CodeSite], Run]] = {
    "ld": access.load, "ldu": access.load, "st": access.store, "atom": atomics.build,
    "red": atomics.build, "ldmatrix": mma.ldmatrix, "wmma": mma.wmma, "cp": _copy,
    "mbarrier": mbarrier.build,
    "wgmma": wgmma.build, "stmatrix": mma.stmatrix,
}  # fmt: skip

_TABLES = (
    moves.BUILDERS, conversions.BUILDERS, comparisons.BUILDERS, warp.BUILDERS,
    arithmetic.BUILDERS, video.BUILDERS,
)  # fmt: skip
#: Opcodes of which some form runs; those of control flow end blocks and have no builder.
OPCODES = frozenset(
    (
        *_COUNTED, "mma", "mapa", "getctarank", "addc", "subc", "madc", "bra", "brx", "call", "ret",
        "exit",
        *(op for table in (*_TABLES, floats.HALVES, floats.BUILDERS) for op in table),
    )
)  # fmt: skip


def closure(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """The closure that runs one instruction.

    Raises:
        Fault: the instruction is not supported; names it with file and line.
    """
    try:
        return _closure(instr, ctx, site)
    except (
        KeyError, IndexError, ValueError, StopIteration, TypeError, AttributeError, AssertionError,
    ) as error:  # fmt: skip
        # A type, shape or modifier that the builder's tables do not know.
        raise ctx.unsupported(instr) from error


def wait(instr: Instr, ctx: Context) -> Wait:
    """What a block ends with whose lanes wait for an mbarrier or for their cluster."""
    return (mbarrier.PhaseWait if instr.op == "mbarrier" else cluster.ClusterWait)(instr, ctx)


def _closure(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    op, kind = instr.op, instr.parts[-1]
    if op == "cvt" and not set(conversions.PAIRS).isdisjoint(instr.parts[-2:]):
        return conversions.convert(instr, ctx)
    if op in ("st", "red") and "async" in instr.parts:
        raise ctx.unsupported(instr)
    if op in _COUNTED:
        return _COUNTED[op](instr, ctx, site)
    if instr.parts[:2] == ("barrier", "cluster"):
        return cluster.barrier(instr, ctx)
    if op in ("mapa", "getctarank"):
        return (cluster.mapa if op == "mapa" else cluster.getctarank)(instr, ctx)
    if op == "mma":
        return mma.mma(instr, ctx)
    if arithmetic.applies(instr):
        return arithmetic.build(instr, ctx)
    if arithmetic.uses_carry(instr):
        return arithmetic.with_carry(instr, ctx)
    tables = list(_TABLES)
    if kind in floats.KINDS:
        tables.insert(0, floats.HALVES)
    elif kind in _FLOATS:
        tables.insert(0, floats.BUILDERS)
    for table in tables:
        if op in table:
            run = table[op](instr, ctx)
            return floats.counted(run, instr, ctx, site) if floats.calls(instr) else run
    raise ctx.unsupported(instr)
