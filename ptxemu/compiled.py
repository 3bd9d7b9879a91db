"""A kernel compiled to closures for one launch, by the opcode table; some are fused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ptxemu.errors import DAMAGE, Unsupported
from ptxemu.faults.asynchrony import is_asynchronous
from ptxemu.faults.stores import WriterLog, orders_blocks
from ptxemu.faults.watching import orders_warp, stores_fragment
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
    heap,
    mbarrier,
    mma,
    moves,
    routines,
    tensors,
    textures,
    video,
    warp,
    wgmma,
    wmma,
)
from ptxemu.ops.exact import fma32_stacked
from ptxemu.ops.floats import wide
from ptxemu.ops.warp import Reduction
from ptxemu.ptx.flow import BasicBlock, ControlFlow, chosen, unsure, walk
from ptxemu.ptx.inlining import FlatKernel
from ptxemu.ptx.instructions import CLOCKS, Instr, Reg
from ptxemu.ptx.waits import polls_of, untold
from ptxemu.state.context import (
    Bound,
    CodeSite,
    Context,
    Limits,
    Registers,
    Run,
    Runtime,
    then,
    writes_itself,
)
from ptxemu.state.lanes import Lanes, Mask, select
from ptxemu.state.values import Value, invert, unsigned

# --- Independent fused multiply-adds of a block are run together ---
# A register tile has dozens of multiply-adds that do not depend on each other. One by one they cost
# eight NumPy calls each; together they share all but two. If the batch has few lanes, the calls
# dominate the time, so this matters.

#: float64 elements of one stack: two of them fit into a core's second-level cache.
_STACK = 65_536


def fusable(instr: Instr) -> bool:
    """Test for a plain float32 fused multiply-add."""
    return instr.parts == ("fma", "rn", "f32") and instr.guard is None


def fusable_runs(instrs: list[Instr]) -> list[Instr | list[Instr]]:
    """The block's instructions, with independent multiply-adds gathered into lists.

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
        uses, makes = set(instr.reads), set(instr.writes)
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


def fused_run(instrs: list[Instr], ctx: Context, outlives: Callable[[str], bool]) -> Run:
    """One closure for a list of independent multiply-adds; it writes their results itself."""
    rt = ctx.rt
    plan = []
    for instr in instrs:
        target = ctx.target(instr.operands[0])
        slots = [ctx.slot(operand, 4, "f32") for operand in instr.operands[1:4]]
        plan.append((target, *slots, outlives(instr.writes[0])))

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


# --- The opcode table: the builder of each instruction's closure ---

_FLOATS = ("f32", "f64")


def _copy(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    if "mbarrier" in instr.parts:
        return mbarrier.arrive_with_copies(instr, ctx)
    if "tensor" in instr.parts:
        return tensors.build(instr, ctx, site)
    bulk = "bulk" in instr.parts
    return (copies.build if bulk else asynccopy.build)(instr, ctx, site)


#: Builders of instructions for which more than executions is counted.
_COUNTED: dict[str, Callable[[Instr, Context, CodeSite], Run]] = {
    "ld": access.load, "ldu": access.load, "st": access.store, "atom": atomics.build,
    "red": atomics.build, "ldmatrix": mma.ldmatrix, "wmma": wmma.wmma, "cp": _copy,
    "mbarrier": mbarrier.build, "tensormap": tensors.change,
    "wgmma": wgmma.build, "stmatrix": mma.stmatrix, "tex": textures.fetch,
}  # fmt: skip

_MORE: dict[str, Callable[[Instr, Context], Run]] = {
    "mma": mma.mma, "movmatrix": mma.movmatrix, "mapa": cluster.mapa,
    "getctarank": cluster.getctarank,
    **dict.fromkeys(("addc", "subc", "madc"), arithmetic.with_carry),
}  # fmt: skip
_TABLES = (
    moves.BUILDERS, conversions.BUILDERS, comparisons.BUILDERS, warp.BUILDERS,
    arithmetic.BUILDERS, video.BUILDERS, heap.BUILDERS, _MORE,
)  # fmt: skip
#: Opcodes with at least one supported form; those for control flow end blocks and have no builder.
OPCODES = frozenset(
    (*("bra", "brx", "call", "ret", "exit"),
     *(op for table in (_COUNTED, *_TABLES, floats.HALVES, floats.BUILDERS) for op in table))
)  # fmt: skip


def closure(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """Make the closure that runs one instruction; Fault, with file and line: it is unsupported."""
    try:
        return _closure(instr, ctx, site)
    except DAMAGE as error:
        # A type, shape or modifier that is not in the builder's tables.
        raise ctx.unsupported(instr) from error


#: The end of a basic block whose lanes wait for more than their own thread block: they `ask` once,
#: and their registers are not read again.
Wait = mbarrier.PhaseWait | cluster.ClusterWait


def _closure(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    op, kind = instr.op, instr.parts[-1]
    if op in ("st", "red") and "async" in instr.parts:
        raise ctx.unsupported(instr)
    if op != "mov" and not CLOCKS.keys().isdisjoint(instr.reads):
        raise ctx.unsupported(instr)
    if op in _COUNTED:
        return _COUNTED[op](instr, ctx, site)
    if instr.parts[:2] == ("barrier", "cluster"):
        return cluster.barrier(instr, ctx)
    if arithmetic.is_dpx(instr):
        return arithmetic.dpx(instr, ctx)
    if "cc" in instr.parts:
        return arithmetic.with_carry(instr, ctx)
    tables = list(_TABLES)
    if kind in floats.KINDS:
        tables.insert(0, floats.HALVES)
    elif kind in _FLOATS:
        tables.insert(0, floats.BUILDERS)
    for table in tables:
        if op in table:
            run = table[op](instr, ctx)
            routine = routines.has_routine(instr)
            return routines.counting_calls(run, instr, ctx, site) if routine else run
    raise ctx.unsupported(instr)


#: Iterations of the pieces, in the order in which they run.
PIECES = (4, 2, 1)


@dataclass(frozen=True, slots=True)
class LoopTrips:
    """The number of iterations that a lane has left, known at the start of one.

    `counter` and `limit` are slots, or numbers where `fixed`; the loop continues while ``counter +
    step`` compares with the limit as `asked`.
    """

    counter: int
    limit: int
    fixed: bool
    step: int
    asked: str
    signed: bool
    size: int

    def left(self, R: Registers) -> NDArray[np.int64] | None:
        """The iterations of each lane; None if all have the same number."""
        counter, limit = R[self.counter], self.limit if self.fixed else R[self.limit]
        if isinstance(counter, int) and isinstance(limit, int):
            return None
        way = self._number(limit) - self._number(counter)
        if self.asked in ("le", "ls", "ge", "hs"):
            way = way + (1 if self.step > 0 else -1)
        left: NDArray[np.int64] = np.maximum(-(-way // self.step), 1)
        return left

    def _number(self, value: Value) -> NDArray[np.int64]:
        bits = unsigned(value, self.size)
        return (bits.view(f"i{self.size}") if self.signed else bits).astype(np.int64)


@dataclass(slots=True)
class Code:
    """A compiled basic block. `guard` is the slot of the branch's predicate."""

    block: BasicBlock
    ops: list[tuple[int, Run]]
    of: list[list[Instr]]  # the instructions of each
    own: list[tuple[int, int]]  # registers that no other block uses: slot and size
    guard: int = -1
    negated: bool = False
    site: CodeSite | None = None
    count: int = 0  # instructions, the last one included
    selector: int = -1  # slot of a switch's index
    barrier: int = -1  # slot of a barrier's id
    expected: int = -1  # slot of a barrier's thread count
    wait: Wait | None = None
    reduction: Reduction | None = None  # the result of a barrier, if it has one
    alive: tuple[int, ...] | None = None  # slots that are live here; None: not a loop's first block
    trips: LoopTrips | None = None  # for a loop that ptxas makes in pieces
    polls: bool = False  # such a block, in a loop that may wait for other threads
    untold: bool = False  # may change memory without reporting to `Runtime.changes`
    warps_run: int = 0
    lanes_run: int = 0


def _guarded(run: Run, target: int, size: int, guard: int, negated: bool, site: CodeSite,
             rt: Runtime) -> Run:  # fmt: skip
    def guarded(R: Registers, M: Mask) -> object:
        condition = invert(R[guard]) if negated else R[guard]
        inner = rt.lanes.within(M, condition)
        if inner.count == 0:
            return R[target]
        if inner is M:
            value = run(R, M)
            site.on += inner.count
            return select(M, value, R[target], size) if M.partial else value
        inner.partial = True
        value = run(R, inner)
        site.on += inner.count  # not if it must still wait for others
        return select(inner, value, R[target], size) if target >= 0 else value

    return guarded


def _merging(run: Run, target: int, size: int) -> Run:
    def merging(R: Registers, M: Mask) -> object:
        value = run(R, M)
        return select(M, value, R[target], size) if M.partial else value

    return merging


def _settling(run: Run, rt: Runtime, instrs: list[Instr]) -> Run:
    """Write running sums to their registers before these are read."""

    def settling(R: Registers, M: Mask) -> object:
        rt.sums.settle()
        if rt.order is not None:
            for instr in instrs:
                rt.order.products.touches(instr, M)
        return run(R, M)

    return settling


def _after(act: Callable[[Mask], object], run: Run) -> Run:
    def both(R: Registers, M: Mask) -> object:
        act(M)
        return run(R, M)

    return both


def _ordered(rt: Runtime, mask: Mask) -> None:
    """Lanes of warps have run an instruction together that orders them."""
    for watcher in (rt.watcher, rt.stores):
        if watcher is not None:
            watcher.warp_barrier(mask)


def _met(rt: Runtime, mask: Mask) -> None:
    """Blocks have run something that may order them with others, without waiting for its result."""
    if rt.stores is not None:
        rt.stores.meet(mask)


class CompiledKernel:
    """One kernel, compiled to closures for launches over one memory."""

    def __init__(self, flat: FlatKernel, graph: ControlFlow, ctx: Context) -> None:
        self.flat, self.graph, self.ctx, self.limits = flat, graph, ctx, Limits()
        self.rt = ctx.rt
        self.sites: list[CodeSite] = []
        products = [instr for _, instr in walk(graph.blocks) if instr.op == "wgmma"]
        #: Registers of the running sums of asynchronous products.
        self.sums = {name for instr in products for name in instr.writes}
        #: Does other work run beside the threads, or do blocks share their memory?
        self.asynchronous = any(is_asynchronous(instr) for _, instr in walk(graph.blocks))
        self.polls = polls_of(graph)
        self.codes = [self._compile(block) for block in graph.blocks]
        self.ranked = [self.codes[index] for index in graph.order]
        for code in self.codes:
            self._loop(code)
        self.slots = ctx.count + 1
        #: Registers whose values before the first write are discarded by their readers.
        self._chosen = [ctx.register(name) for name in sorted(chosen(graph))]
        #: Registers that are unwritten on some path, with their bytes.
        self.unsure = [
            (ctx.register(name), ctx.size(Reg(name), 4)) for name in sorted(unsure(graph))
        ]
        self.allocates = any(site.instr.op in ("malloc", "free") for site in self.sites)
        self.cut = False  # has `ptxas.in_pieces` looked at it?
        self.ledger: WriterLog | None = None

    def begin(
        self, params: bytes, environment: dict[str, int], textures: dict[int, Bound], limits: Limits
    ) -> None:
        """Begin a launch with these arguments and limits."""
        ctx, self.limits, self.chosen = self.ctx, limits, self._chosen
        ctx.params, ctx.environment, ctx.textures = params, environment, textures
        size = len(self.rt.arena.bytes)
        self.ledger = WriterLog(size, self.sites) if self.rt.check else None

    def _loop(self, code: Code) -> None:
        index = code.block.index
        code.untold = untold(code.block)
        if index in code.block.loops:
            code.alive = tuple(self.ctx.register(name) for name in sorted(self.graph.alive[index]))
            code.polls = index in self.polls.at

    def _site(self, instr: Instr) -> CodeSite:
        site = CodeSite(instr)
        self.sites.append(site)
        return site

    def _compile(self, block: BasicBlock) -> Code:
        shared = self.graph.shared_registers
        written = {name for instr in block.instrs for name in instr.writes} - shared - {"_"}
        own = [(self.ctx.register(name), self.ctx.size(Reg(name), 4)) for name in sorted(written)]
        code = Code(block, [], [], own)
        if block.rank < 0:
            return code
        sites = {id(instr): self._site(instr) for instr in block.instrs}
        origins = self.rt.origins
        for item in block.instrs if origins is not None else fusable_runs(block.instrs):
            if isinstance(item, list):
                alive = self.graph.shared_registers
                fused = fused_run(item, self.ctx, alive.__contains__)
                touching = [instr for instr in item if self._touches_sums(instr)]
                run = _settling(fused, self.rt, touching) if touching else fused
                code.ops.append((-1, run))
                code.of.append(item)
                continue
            instr = item
            site = sites[id(instr)]
            run = closure(instr, self.ctx, site)
            if self.rt.check and orders_warp(instr):
                order = partial(_ordered, self.rt)
                run = _after(order, run) if stores_fragment(instr) else then(run, order)
            if self.rt.check and orders_blocks(instr):
                run = then(run, partial(_met, self.rt))
            names = instr.writes
            target, size = -1, 4
            if len(names) == 1 and not hasattr(run, "writes_itself"):
                target = self.ctx.target(Reg(names[0]))
                size = self.ctx.size(Reg(names[0]), 4)
            if instr.guard is not None:
                slot = self.ctx.register(instr.guard.name)
                run = _guarded(run, target, size, slot, instr.guard.negated, site, self.rt)
            elif target >= 0 and names[0] in self.graph.shared_registers:
                run = _merging(run, target, size)
            if self._touches_sums(instr):
                run = _settling(run, self.rt, [instr])
            code.ops.append((target, run))
            code.of.append([instr])
            if origins is not None:
                code.ops.append((-1, origins.shadow(instr, self.ctx)))
                code.of.append([instr])
        last = block.last
        code.count = len(block.instrs) + (last is not None)
        if last is not None:
            code.site = self._site(last)
            self._last(code, last)
        return code

    def _touches_sums(self, instr: Instr) -> bool:
        """Test whether an instruction other than a product reads or writes a running sum."""
        sums = self.sums
        if not sums or instr.op == "wgmma":
            return False
        return not sums.isdisjoint(instr.reads) or not sums.isdisjoint(instr.writes)

    def _last(self, code: Code, last: Instr) -> None:
        if last.guard is not None:
            code.guard = self.ctx.register(last.guard.name)
            code.negated = last.guard.negated
        if code.block.kind == "wait":
            code.wait = (mbarrier.PhaseWait if last.op == "mbarrier" else cluster.ClusterWait)(
                last, self.ctx
            )
        if code.block.kind == "switch":
            code.selector = self.ctx.slot(last.operands[0], 4)
        if code.block.kind == "barrier":
            operands = list(last.operands)
            if "red" in last.parts:
                code.reduction = Reduction.of(last, self.ctx)
                operands = operands[1:-1]
            code.barrier = self.ctx.slot(operands[0], 4) if operands else self.ctx.constant(0)
            if len(operands) > 1:
                code.expected = self.ctx.slot(operands[1], 4)
            elif "arrive" in last.parts:
                raise self.ctx.unsupported(last, "an arrival without a number of threads")

    def in_part(self) -> None:
        """Only some blocks will run: the others may write data that these leave unwritten.

        Lanes read zeros there, as they do beside lanes that have written the register, so that
        counting a few blocks refuses nothing that verifying all of them accepts.
        """
        self.chosen = [self.ctx.register(name) for name in sorted(unsure(self.graph))]

    def fresh(self, lanes: Lanes) -> Registers:
        """Make a batch's registers, as before its first instruction."""
        R: Registers = [None] * self.slots
        for slot, size in self.unsure if self.rt.presumes else ():
            R[slot] = int.from_bytes(bytes([self.rt.fill]) * size, "little") if size else False
        for slot in self.chosen:
            R[slot] = 0
        for slot, bits in self.ctx.given():
            R[slot] = bits
        for slot, name in self.ctx.specials.items():
            value: Value | None = self.ctx.environment.get(name)
            value = lanes.special(name) if value is None else value
            if f"%{name}" in CLOCKS:  # every `mov` of one reads it again
                value = 0
            if value is None:
                raise Unsupported(
                    f"kernel {self.ctx.kernel}: the emulator does not know %{name}",
                    "The emulator has no SMs to name; run it on a GPU.",
                )
            R[slot] = value
        return R
