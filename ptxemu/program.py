"""A kernel, compiled to closures for one launch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxemu.errors import Unsupported
from ptxemu.faults.asynchrony import is_asynchronous
from ptxemu.faults.stores import WriterLog, meeting, orders_blocks
from ptxemu.faults.watching import ordering, orders_warp
from ptxemu.ops import fuse
from ptxemu.ops.table import closure, wait
from ptxemu.ops.warp import Reduction
from ptxemu.ptx.flow import BasicBlock, ControlFlow, arguments, chosen, results, unsure, walk
from ptxemu.ptx.inlining import FlatKernel
from ptxemu.ptx.instructions import Instr, Reg
from ptxemu.ptx.waits import polls_of, untold
from ptxemu.state.context import (
    CodeSite,
    Context,
    Limits,
    Registers,
    Run,
    Runtime,
    Wait,
)
from ptxemu.state.lanes import Lanes, Mask, select
from ptxemu.state.values import Value, invert, unsigned

#: Turns of the pieces, in the order in which they run.
PIECES = (4, 2, 1)


@dataclass(frozen=True, slots=True)
class LoopTurns:
    """How many turns of a loop a lane has left, told at the start of one.

    `counter` and `limit` are slots, or numbers where `fixed`; the loop goes on while
    ``counter + step`` compares with the limit as `asked`.
    """

    counter: int
    limit: int
    fixed: bool
    step: int
    asked: str
    signed: bool
    size: int

    def left(self, R: Registers) -> NDArray[np.int64] | None:
        """The turns of each lane; None where all have as many."""
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
    """A basic block, compiled. `guard` is the slot of the branch's predicate."""

    block: BasicBlock
    ops: list[tuple[int, Run]]
    of: list[list[Instr]]  # the instructions of each
    guard: int = -1
    negated: bool = False
    site: CodeSite | None = None
    count: int = 0  # instructions, the last one included
    selector: int = -1  # slot of a switch's index
    barrier: int = -1  # slot of a barrier's id
    expected: int = -1  # slot of a barrier's thread count
    wait: Wait | None = None
    reduction: Reduction | None = None  # of a barrier that has a result
    alive: tuple[int, ...] | None = None  # slots that live on here; None: no loop's first block
    turns: LoopTurns | None = None  # of a loop that ptxas makes in pieces
    polls: bool = False  # such a block, of a loop that may wait for other threads
    untold: bool = False  # may change memory without a word to `Runtime.changes`
    warps_run: int = 0
    lanes_run: int = 0


def _guarded(run: Run, target: int, size: int, guard: int, negated: bool, site: CodeSite,
             rt: Runtime) -> Run:  # fmt: skip
    def guarded(R: Registers, M: Mask) -> object:
        condition = invert(R[guard]) if negated else R[guard]
        inner = rt.lanes.within(M, condition)
        site.on += inner.count
        if inner.count == 0:
            return R[target]
        if inner is M:
            value = run(R, M)
            return select(M, value, R[target], size) if M.partial else value
        inner.partial = True
        value = run(R, inner)
        return select(inner, value, R[target], size) if target >= 0 else value

    return guarded


def _merging(run: Run, target: int, size: int) -> Run:
    def merging(R: Registers, M: Mask) -> object:
        value = run(R, M)
        return select(M, value, R[target], size) if M.partial else value

    return merging


def _settling(run: Run, rt: Runtime, instrs: list[Instr]) -> Run:
    """Running sums are written to their registers before somebody looks at them."""

    def settling(R: Registers, M: Mask) -> object:
        rt.sums.settle()
        if rt.order is not None:
            for instr in instrs:
                rt.order.products.touches(instr, M)
        return run(R, M)

    return settling


class Program:
    """One kernel, compiled to closures for one launch."""

    def __init__(self, flat: FlatKernel, graph: ControlFlow, ctx: Context, limits: Limits) -> None:
        self.flat, self.graph, self.ctx, self.limits = flat, graph, ctx, limits
        self.rt = ctx.rt
        self.sites: list[CodeSite] = []
        products = [instr for _, instr in walk(graph.blocks) if instr.op == "wgmma"]
        #: Registers of the running sums of asynchronous products.
        self.sums = {name for instr in products for name in results(instr)}
        #: Does other work go on beside the threads', or blocks share their memory?
        self.asynchronous = any(is_asynchronous(instr) for _, instr in walk(graph.blocks))
        self.polls = polls_of(graph)
        self.codes = [self._compile(block) for block in graph.blocks]
        self.ranked = [self.codes[index] for index in graph.order]
        for code in self.codes:
            self._loop(code)
        self.slots = ctx.count + 1
        #: What reads them throws away what they hold before they are written.
        self.chosen = [ctx.register(name) for name in sorted(chosen(graph))]
        self.ledger = WriterLog(len(self.rt.arena.bytes), self.sites) if self.rt.check else None

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
        code = Code(block, [], [])
        if block.rank < 0:
            return code
        sites = {id(instr): self._site(instr) for instr in block.instrs}
        origins = self.rt.origins
        for item in block.instrs if origins is not None else fuse.schedule(block.instrs):
            if isinstance(item, list):
                alive = self.graph.shared_registers
                fused = fuse.build(item, self.ctx, alive.__contains__)
                touching = [instr for instr in item if self._touches_sums(instr)]
                run = _settling(fused, self.rt, touching) if touching else fused
                code.ops.append((-1, run))
                code.of.append(item)
                continue
            instr = item
            site = sites[id(instr)]
            run = closure(instr, self.ctx, site)
            if self.rt.check and orders_warp(instr):
                run = ordering(run, self.rt)
            if self.rt.check and orders_blocks(instr):
                run = meeting(run, self.rt)
            names = results(instr)
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
        """Does an instruction other than a product read or write a running sum?"""
        sums = self.sums
        if not sums or instr.op == "wgmma":
            return False
        return not sums.isdisjoint(arguments(instr)) or not sums.isdisjoint(results(instr))

    def _last(self, code: Code, last: Instr) -> None:
        if last.guard is not None:
            code.guard = self.ctx.register(last.guard.name)
            code.negated = last.guard.negated
        if code.block.kind == "wait":
            code.wait = wait(last, self.ctx)
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
        """Only some blocks will run: the others may write what these leave unwritten.

        Lanes read zeros there, as they do beside lanes that have written the register, so that
        counting a few blocks refuses nothing that verifying all of them lets be.
        """
        self.chosen = [self.ctx.register(name) for name in sorted(unsure(self.graph))]

    def fresh(self, lanes: Lanes) -> Registers:
        """Registers of a batch before its first instruction."""
        R: Registers = [None] * self.slots
        for slot in self.chosen:
            R[slot] = 0
        for slot, bits in self.ctx.constants.items():
            R[slot] = bits
        for slot, name in self.ctx.specials.items():
            value: Value | None = self.ctx.placement.environment.get(name)
            value = lanes.special(name) if value is None else value
            if value is None:
                raise Unsupported(
                    f"kernel {self.ctx.kernel}: the emulator does not know %{name}",
                    "It has no clock and no SMs to name; use --engine ncu on a machine with a GPU.",
                )
            R[slot] = value
        return R
