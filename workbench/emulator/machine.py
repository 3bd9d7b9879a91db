"""The SIMT machine: one kernel over batches of blocks, in lock step.

All lanes of a batch that stand at the same basic block run it together. Where lanes
part, each part waits at its own block and the earliest block of the graph's order runs
first; parts that reach the same block are one again. Lanes that wait at a barrier are
parked until all living threads of their block have come.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from workbench.emulator import coalesce, fuse, ops
from workbench.emulator.asynccopy import Pipeline
from workbench.emulator.cfg import Block, Graph, arguments, results
from workbench.emulator.context import Context, Limits, Registers, Run, Runtime, Site
from workbench.emulator.exact import floating_state
from workbench.emulator.faults import endless, first_lane, who
from workbench.emulator.inline import Flat
from workbench.emulator.integers import invert
from workbench.emulator.ir import Instr, Reg
from workbench.emulator.lanes import WARP, Bools, Lanes, Mask, select
from workbench.emulator.values import truth
from workbench.emulator.watch import SharedWatcher
from workbench.errors import KernelError


@dataclass(slots=True)
class Code:
    """A basic block, compiled. `guard` is the slot of the branch's predicate."""

    block: Block
    ops: list[tuple[int, Run]]
    guard: int = -1
    negated: bool = False
    site: Site | None = None
    count: int = 0  # instructions, the last one included
    selector: int = -1  # slot of a switch's index
    barrier: int = -1  # slot of a barrier's id
    expected: int = -1  # slot of a barrier's thread count
    warps_run: int = 0
    lanes_run: int = 0


def _guarded(run: Run, target: int, size: int, guard: int, negated: bool, site: Site,
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


class Program:
    """One kernel, compiled to closures for one launch."""

    def __init__(self, flat: Flat, graph: Graph, ctx: Context, limits: Limits) -> None:
        self.flat, self.graph, self.ctx, self.limits = flat, graph, ctx, limits
        self.rt = ctx.rt
        self.sites: list[Site] = []
        ctx.read = {
            name
            for block in graph.blocks
            for instr in [*block.instrs, *([block.last] if block.last else [])]
            for name in arguments(instr)
        }
        ctx.merged = coalesce.merged(graph, self._symbol)
        self.codes = [self._compile(block) for block in graph.blocks]
        self.ranked = [self.codes[index] for index in graph.order]
        self.slots = ctx.count + 1

    def _symbol(self, name: str) -> int | None:
        space, address = self.ctx.symbols.get(name, ("", 0))
        return address if space in ("shared", "local") else None

    def _site(self, instr: Instr) -> Site:
        site = Site(instr)
        self.sites.append(site)
        return site

    def _compile(self, block: Block) -> Code:
        code = Code(block, [])
        if block.rank < 0:
            return code
        sites = {id(instr): self._site(instr) for instr in block.instrs}
        for item in fuse.schedule(block.instrs):
            if isinstance(item, list):
                alive = self.graph.shared_registers
                code.ops.append((-1, fuse.build(item, self.ctx, alive.__contains__)))
                continue
            instr = item
            site = sites[id(instr)]
            run = ops.build(instr, self.ctx, site)
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
            code.ops.append((target, run))
        last = block.last
        code.count = len(block.instrs) + (last is not None)
        if last is not None:
            code.site = self._site(last)
            self._last(code, last)
        return code

    def _last(self, code: Code, last: Instr) -> None:
        if last.guard is not None:
            code.guard = self.ctx.register(last.guard.name)
            code.negated = last.guard.negated
        if code.block.kind == "switch":
            code.selector = self.ctx.slot(last.operands[0], 4)
        if code.block.kind == "barrier":
            if "arrive" in last.parts or "red" in last.parts:
                raise self.ctx.unsupported(last)
            first = last.operands[0] if last.operands else None
            code.barrier = self.ctx.slot(first, 4) if first else self.ctx.constant(0)
            if len(last.operands) > 1:
                code.expected = self.ctx.slot(last.operands[1], 4)

    def fresh(self, lanes: Lanes) -> Registers:
        """Registers of a batch before its first instruction."""
        R: Registers = [None] * self.slots
        for slot, bits in self.ctx.constants.items():
            R[slot] = bits
        for slot, name in self.ctx.specials.items():
            value = lanes.special(name)
            if value is None:
                raise KernelError(
                    f"kernel {self.ctx.kernel}: the emulator does not know %{name}",
                    "Times and places on a chip do not exist here; use --engine ncu for them.",
                )
            R[slot] = value
        return R

    def run(self, lanes: Lanes) -> None:
        """Run a batch of blocks to the end.

        Raises:
            KernelError: what the kernel does wrong, with thread, block, file and line.
        """
        with floating_state():
            self.rt.start(lanes, self.slots)
            self.rt.watcher = None
            if self.rt.check and self.rt.shared_limit:
                self.rt.watcher = SharedWatcher(self.ctx, lanes, self.sites, self.rt.shared_limit)
            self.rt.copies = Pipeline()
            self.rt.finding = None
            _Batch(self, lanes).run()
            if self.rt.finding is not None:
                raise self.rt.finding


@dataclass(slots=True)
class _Parked:
    """Lanes that wait at a barrier."""

    code: Code
    mask: Mask
    barrier: int
    expected: int  # threads; 0: all of the block


class _Batch:
    def __init__(self, program: Program, lanes: Lanes) -> None:
        self.program, self.lanes = program, lanes
        self.R = program.fresh(lanes)
        self.heap: list[int] = []
        self.waiting: dict[int, Mask] = {}
        self.parked: list[_Parked] = []
        self.alive: Mask = lanes.start
        self.steps = 0
        program.rt.alive = lambda: self.alive

    def push(self, index: int, mask: Mask) -> None:
        if mask.count == 0:
            return
        rank = self.program.graph.blocks[index].rank
        held = self.waiting.get(rank)
        if held is None:
            heapq.heappush(self.heap, rank)
            self.waiting[rank] = mask
        else:
            self.waiting[rank] = self.lanes.union(held, mask)

    def run(self) -> None:
        program, lanes, R = self.program, self.lanes, self.R
        ranked, limit = program.ranked, program.limits.instructions
        self.push(program.graph.order[0], lanes.start)
        while self.heap or self.parked:
            if not self.heap:
                self.release()
                continue
            rank = heapq.heappop(self.heap)
            mask = self.waiting.pop(rank)
            code = ranked[rank]
            if self.parked:
                self.check_bypass(code, mask)
            mask.partial = mask.count != self.alive.count
            code.warps_run += mask.warps
            code.lanes_run += mask.count
            for target, run in code.ops:
                R[target] = run(R, mask)
            self.steps += code.count
            if self.steps > limit:
                instr = code.block.last or code.block.instrs[0]
                raise endless(program.ctx.kernel, program.ctx.where(instr), limit)
            self.leave(code, mask)

    def leave(self, code: Code, mask: Mask) -> None:
        """Send the lanes where the block's end sends them."""
        block = code.block
        if block.kind == "jump":
            self.push(block.targets[0], mask)
        elif block.kind == "branch":
            condition = self.R[code.guard]
            if code.negated:
                condition = invert(condition)
            taken = self.lanes.within(mask, condition)
            site = code.site
            assert site is not None
            site.on += taken.count
            if taken is mask or taken.count == 0:
                self.push(block.targets[0 if taken is mask else 1], mask)
            else:
                rest = self.lanes.without(mask, taken)
                site.divergent += taken.warps + rest.warps - mask.warps
                self.push(block.targets[0], taken)
                self.push(block.targets[1], rest)
        elif block.kind == "exit":
            self.alive = self.lanes.without(self.alive, mask)
        elif block.kind == "barrier":
            self.arrive(code, mask)
        else:
            self.switch(code, mask)

    def switch(self, code: Code, mask: Mask) -> None:
        index = self.R[code.selector]
        if type(index) is int:
            self.push(code.block.targets[index], mask)
            return
        from workbench.emulator.values import unsigned

        choice = np.broadcast_to(unsigned(index, 4), self.lanes.shape)
        for number, goal in enumerate(code.block.targets):
            self.push(goal, self.lanes.within(mask, choice == number))

    # --- barriers

    def arrive(self, code: Code, mask: Mask) -> None:
        lanes = self.lanes
        if code.guard >= 0:
            condition = self.R[code.guard]
            inner = lanes.within(mask, invert(condition) if code.negated else condition)
            self.push(code.block.targets[0], lanes.without(mask, inner))
            mask = inner
            if mask.count == 0:
                return
        expected = 0
        if code.expected >= 0:
            value = self.R[code.expected]
            expected = value if type(value) is int else int(np.max(value.array()))
        identity = self.R[code.barrier]
        if type(identity) is not int:
            raise self.program.ctx.unsupported(
                code.site.instr if code.site else code.block.instrs[0],
                "a barrier whose number differs between threads",
            )
        whole = mask.count == self.alive.count and not self.parked
        if whole and expected in (0, lanes.geometry.threads, lanes.T):
            if self.program.rt.watcher is not None:
                self.program.rt.watcher.barrier(mask)
            self.push(code.block.targets[0], mask)
            return
        self.parked.append(_Parked(code, mask, identity, expected))
        if expected:
            self.release_counted(identity, expected)

    def _blocks(self, mask: Mask) -> Bools:
        return np.asarray(self.lanes.full(mask).any(axis=1))

    def release_counted(self, barrier: int, expected: int) -> None:
        """Let go the blocks in which enough threads wait at a counted barrier."""
        lanes = self.lanes
        mine = [p for p in self.parked if p.barrier == barrier and p.expected == expected]
        arrived = np.zeros(lanes.B, np.int64)
        for parked in mine:
            # A barrier counts whole warps.
            arrived += lanes.full(parked.mask).reshape(lanes.B, -1, WARP).any(2).sum(1) * WARP
        self._go(mine, arrived >= expected)

    def _go(self, chosen: list[_Parked], blocks: Bools) -> None:
        if not blocks.any():
            return
        lanes = self.lanes
        left = [p for p in self.parked if p not in chosen]
        released = lanes.empty
        for parked in chosen:
            go = lanes.within(parked.mask, blocks[:, None])
            stay = lanes.without(parked.mask, go)
            released = lanes.union(released, go)
            self.push(parked.code.block.targets[0], go)
            if stay.count:
                left.append(_Parked(parked.code, stay, parked.barrier, parked.expected))
        self.parked = left
        if self.program.rt.watcher is not None and all(p.expected == 0 for p in chosen):
            self.program.rt.watcher.barrier(released)

    def release(self) -> None:
        """Nothing can run: every living thread waits. Let go what is complete, or fail."""
        lanes = self.lanes
        alive = lanes.full(self.alive)
        waits = [p for p in self.parked if p.expected == 0]
        for barrier in sorted({p.barrier for p in waits}):
            mine = [p for p in waits if p.barrier == barrier]
            here = np.zeros(lanes.shape, np.bool_)
            for parked in mine:
                here |= lanes.full(parked.mask)
            complete = (here == alive).all(axis=1) & here.any(axis=1)
            places = {id(p.code): p for p in mine}
            if len(places) > 1:
                self.check_same_place(list(places.values()), complete)
            if complete.any():
                self._go(mine, complete)
                return
        self.stuck()

    def check_same_place(self, places: list[_Parked], complete: Bools) -> None:
        one, two = places[0], places[1]
        both = self._blocks(one.mask) & self._blocks(two.mask) & complete
        if both.any():
            self.divergent_barrier(one, two.code, two.mask, "waits at another barrier")

    def divergent_barrier(self, parked: _Parked, other: Code, mask: Mask, what: str) -> None:
        ctx, lanes = self.program.ctx, self.lanes
        row, thread = first_lane(lanes, lanes.full(mask) & self._blocks(parked.mask)[:, None])
        assert parked.code.site is not None
        instr = other.block.last or other.block.instrs[0]
        instr = other.block.instrs[0] if other.block.instrs and other is not parked.code else instr
        raise KernelError(
            f"{ctx.where(parked.code.site.instr)}: barrier not reached by all threads: "
            f"{who(lanes, row, thread)} {what} (at {ctx.where(instr)})",
            "Every thread of a block must reach the same __syncthreads(): move it out of the "
            "branch.",
        )

    def check_bypass(self, code: Code, mask: Mask) -> None:
        """Has a thread gone past a barrier at which others of its block wait?"""
        if not code.ops and code.block.kind == "exit":
            return
        index = code.block.index
        reach = self.program.graph.reach
        for parked in self.parked:
            if parked.expected:
                continue
            at = parked.code.block.index
            if at == index or index not in reach[at] or at in reach[index]:
                continue
            shared = self._blocks(parked.mask) & self._blocks(mask)
            if shared.any():
                self.divergent_barrier(parked, code, mask, "has gone past it")

    def stuck(self) -> None:
        """A counted barrier that too few threads reach."""
        ctx, lanes = self.program.ctx, self.lanes
        parked = self.parked[0]
        row, thread = first_lane(lanes, lanes.full(parked.mask))
        here = int(lanes.full(parked.mask)[row].sum())
        wanted = parked.expected or int(lanes.full(self.alive)[row].sum())
        assert parked.code.site is not None
        raise KernelError(
            f"{ctx.where(parked.code.site.instr)}: barrier not reached by all threads: "
            f"{who(lanes, row, thread)} and {here - 1} more wait for ever at barrier "
            f"{parked.barrier}, which needs {wanted} threads",
            "Check the barrier's number and count, and that every path reaches it.",
        )


def any_true(value: object) -> bool:
    """Is a predicate true in some lane?"""
    return bool(value) if type(value) is int else bool(truth(value).any())  # type: ignore[arg-type]
