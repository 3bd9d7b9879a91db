"""The SIMT machine: run one kernel on batches of blocks, in lock step.

All lanes of a batch that are at the same basic block run it together. Where lanes diverge, each
part waits at its own block, and the earliest block in the graph's order runs first; parts that
reach the same block are joined again. Lanes at a barrier are parked until all living threads of
their block have arrived.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, replace

import numpy as np

from ptxemu.compiled import Code, CompiledKernel
from ptxemu.errors import Fault, ResourceError, Unsupported
from ptxemu.faults.asynchrony import AsyncWatcher
from ptxemu.faults.stores import StoreWatcher
from ptxemu.faults.watching import SharedWatcher
from ptxemu.faults.words import UNFIT, first_lane, unfit, who
from ptxemu.ops.asynccopy import Pipeline
from ptxemu.ops.cluster import ClusterBarrier
from ptxemu.ops.copies import Flights
from ptxemu.ops.exact import floating_state
from ptxemu.ops.wgmma import Sums
from ptxemu.ptx.flow import holds
from ptxemu.ptx.waits import end_of
from ptxemu.state.context import ApartError
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.values import Bools, invert, unsigned
from ptxemu.waiting import Gathering, LoopPieces, Resting, Suspended, guarded

#: Instructions between two checks of the clock.
_CLOCK = 500


def run_batch(compiled: CompiledKernel, lanes: Lanes) -> None:
    """Run a batch of blocks, which do not wait for other blocks, to the end.

    Raises:
        Fault: the kernel's fault, with thread, block, file and line.
    """
    with floating_state():
        batch = Batch(compiled, lanes)
        while not batch.run():
            if not compiled.rt.host():
                raise batch.forever()


@dataclass(slots=True)
class _Parked:
    """Lanes that wait at a barrier."""

    code: Code
    mask: Mask
    barrier: int
    expected: int  # threads; 0: all of the block
    passing: bool = False  # they have arrived without waiting


class Batch:
    """The state of a batch of blocks. The runtime works on one at a time."""

    def __init__(self, compiled: CompiledKernel, lanes: Lanes) -> None:
        self.compiled, self.lanes, rt = compiled, lanes, compiled.rt
        rt.start(lanes, compiled.slots)
        rt.watcher = rt.order = rt.stores = None
        if compiled.ledger is not None:
            rt.stores = StoreWatcher(compiled.ctx, lanes, compiled.sites, compiled.ledger)
        if rt.check and rt.shared_limit:
            follows = AsyncWatcher if compiled.asynchronous else SharedWatcher
            rt.watcher = follows(compiled.ctx, lanes, compiled.sites, rt.shared_limit)
            rt.order = rt.watcher if compiled.asynchronous else None
        rt.copies, rt.flights, rt.sums = Pipeline(rt), Flights(compiled.ctx), Sums(lanes)
        rt.cluster = ClusterBarrier(lanes)
        rt.finding, rt.left = None, []
        blocks = compiled.graph.blocks
        #: Blocks in which threads end, if their lanes' paths must be known.
        self.ends = {each.index for each in blocks if each.kind == "exit"} if rt.watcher else set()
        self.resting, self.pieces = Resting(rt), LoopPieces(lanes)
        self.moved = False  # did the last `run` make progress?
        self.R = rt.registers = compiled.fresh(lanes)
        self.gathering = Gathering(lanes, self.R)
        self.heap: list[int] = []
        self.waiting: dict[int, Mask] = {}
        self.parked: list[_Parked] = []
        self.suspended, self.alive = Suspended(lanes, self.R, rt), lanes.start
        self.steps = self.look = 0
        rt.alive = lambda: self.alive
        self.push(compiled.graph.order[0], lanes.start)

    def push(self, index: int, mask: Mask) -> None:
        """Make lanes wait at a basic block for their turn."""
        if mask.count == 0:
            return
        rank = self.compiled.graph.blocks[index].rank
        held = self.waiting.get(rank)
        if held is None:
            heapq.heappush(self.heap, rank)
            self.waiting[rank] = mask
        else:
            self.waiting[rank] = self.lanes.union(held, mask)

    @property
    def living(self) -> int:
        """Blocks with a thread that has not ended."""
        return int(self._blocks(self.alive).sum())

    def run(self, *, patient: bool = False) -> bool:
        """Run until all threads are done; False: the rest wait for another batch, or for ever.

        Args:
            patient: Another batch may help: as long as threads wait for it, no wait gives up.

        Raises:
            Fault: the kernel's fault.
        """
        compiled, R, resting = self.compiled, self.R, self.resting
        ranked, heap = compiled.ranked, self.heap
        first = True
        while True:
            if not heap:
                if self.gathering and self.gather():
                    continue
                if self.suspended.retry(self.push) or self.release():
                    continue
                woken = resting.wake() if resting.asleep else {}
                if not woken:
                    if self.suspended and not (patient and resting.asleep):
                        self.suspended.expire(self.push)
                        continue
                    if resting.asleep:
                        return False
                    break
                self.moved, first = not first, False
                for rank, mask in woken.items():
                    self.push(ranked[rank].block.index, mask)
            rank = heapq.heappop(heap)
            mask = self.waiting.pop(rank)
            code = ranked[rank]
            if code.trips is not None:
                mask = self.pieces.choose(code, mask, R, self.push)
            if self.parked:
                self.check_bypass(code, mask)
            if code.alive is not None and resting.arrive(
                code, mask, R, self.steps, busy=bool(heap)
            ):
                continue
            mask.partial = mask.count != self.alive.count
            code.warps_run += mask.warps
            code.lanes_run += mask.count
            self.execute(code, mask)
        if self.gathering:
            raise self.apart()
        self.parked = [parked for parked in self.parked if not parked.passing]
        if self.parked:
            self.stuck()
        order = compiled.rt.order
        if order is not None:
            order.bulk.unread()
        if compiled.rt.finding is not None:
            raise compiled.rt.finding
        return True

    def execute(self, code: Code, mask: Mask, start: int = -1) -> None:
        """Run a block, from its operation `start` if lanes resume there; send lanes on."""
        compiled, R = self.compiled, self.R
        try:
            for target, run in code.ops if start < 0 else code.ops[start:]:
                R[target] = run(R, mask)
        except ApartError as apart:
            at = next(at for at, op in enumerate(code.ops) if op[1] is run)
            lanes, go = self.lanes, self.lanes.empty
            if at == start:  # the others have had their turn: whole warps continue
                whole = ~apart.wanted.reshape(lanes.B, -1, WARP).any(axis=2)
                go = lanes.within(mask, np.repeat(whole, WARP, axis=1))
            self.gathering.halt(code, at, lanes.without(mask, go), apart)
            if go.count:
                go.partial = True
                self.execute(code, go, start)
            return
        except UNFIT as error:
            failed = next(of for op, of in zip(code.ops, code.of, strict=True) if op[1] is run)
            raise unfit(compiled.ctx, failed, R, error) from error
        self.steps += code.count
        if code.untold:
            compiled.rt.changes += 1
        if self.steps > self.look:
            self.look = self.steps + _CLOCK
            self.check_limits(code)
        try:
            self.leave(code, mask)
        except UNFIT as error:
            raise unfit(compiled.ctx, code.block.every[-1:], R, error) from error

    def gather(self) -> bool:
        """Resume lanes that waited for others of their warp; False: no lane arrived or ended."""
        found = self.gathering.next(self.alive)
        if found is None:
            return False
        code, at, mask = found
        mask.partial = mask.count != self.alive.count
        self.execute(code, mask, at)
        return True

    def apart(self) -> Fault | Unsupported:
        """The error for lanes that wait for others of their warp, which never arrive."""
        ctx, lanes = self.compiled.ctx, self.lanes
        mask, _, apart = self.gathering.first()
        row, thread = first_lane(lanes, apart.wanted)
        if lanes.full(mask)[row, thread]:
            return ctx.unsupported(apart.instr, "its guard is false in threads that its mask names")
        here = lanes.full(mask)[row].copy()
        here[: thread // WARP * WARP] = False
        places = [(p.code.block.every[-1], p.mask) for p in self.parked]
        places += [(each.apart.instr, each.mask) for each in self.gathering.all]
        at = next((f" at {ctx.where(i)}" for i, m in places if lanes.full(m)[row, thread]), "")
        return ctx.fault(
            apart.instr, "endless", f"threads of a warp have diverged: "
            f"{who(lanes, row, int(here.argmax()))} waits here for {who(lanes, row, thread)}, "
            f"which its mask names and which waits elsewhere{at}",
            "All threads that the mask of a `_sync` function names must reach the same call: "
            "move it out of the branch, or name only those that take it.",
        )  # fmt: skip

    def check_limits(self, code: Code) -> None:
        """Give up if the batch has run for too long."""
        ctx, limits = self.compiled.ctx, self.compiled.limits
        at = code.block.last or code.block.instrs[0]
        if self.steps > limits.instructions:
            raise ctx.fault(
                at, "endless", f"kernel {ctx.kernel} is still running after "
                f"{limits.instructions:,} instructions of one thread: an endless loop, or a wait "
                "for a block that cannot run",
                "Check the loop's end condition; `Limits.instructions` raises the limit.",
            )  # fmt: skip
        if time.monotonic() > limits.deadline:
            raise ResourceError(
                f"{ctx.where(at)}: kernel {ctx.kernel} did not end within {limits.seconds:g} s in "
                "the emulator",
                "If it is only slow, allow more with `Limits.within`, or choose a smaller problem; "
                "a loop that never ends looks the same.",
            )

    def forever(self, why: str = "") -> Fault:
        """The error for a batch whose threads wait for ever."""
        ctx, graph = self.compiled.ctx, self.compiled.graph
        rank, mask = min(self.resting.asleep.items())
        instr = end_of(graph, graph.order[rank])
        row, thread = first_lane(self.lanes, self.lanes.full(mask))
        held = [p.code.block.every[-1] for p in self.parked if self.lanes.full(p.mask)[row].any()]
        if held and not why:
            why = f"others of its block wait for it at the barrier at {ctx.where(held[0])}"
        more = f" and {mask.count - 1:,} more in the same batch of blocks"
        return ctx.fault(
            instr, "endless", f"endless wait: {who(self.lanes, row, thread)}"
            f"{more if mask.count > 1 else ''} would loop here forever: an iteration changes "
            f"nothing, and {why or 'every other thread has exited or is waiting as well'}",
            "Check which thread is to write what the loop reads, and that it writes before it "
            "waits.",
        )  # fmt: skip

    def leave(self, code: Code, mask: Mask) -> None:
        """Send the lanes to the targets of the block's end."""
        block = code.block
        if block.kind == "jump":
            self.push(block.targets[0], mask)
        elif block.kind == "branch":
            condition = self.R[code.guard]
            if code.negated:
                condition = invert(condition)
            taken = self.lanes.within(mask, condition)
            if taken.count and block.targets[0] in self.ends:
                self.compiled.rt.left.append((block.every[-1], taken))
            site = code.site
            assert site is not None
            site.on, site.taken = site.on + taken.count, site.taken + taken.warps
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
        elif block.kind == "wait":
            self.suspended.arrive(code, mask, self.push)
        else:
            self.switch(code, mask)

    def switch(self, code: Code, mask: Mask) -> None:
        """``brx``: send every lane to the target of its own index."""
        index = self.R[code.selector]
        if type(index) is int:
            self.push(code.block.targets[index], mask)
            return
        choice = np.broadcast_to(unsigned(index, 4), self.lanes.shape)
        for number, goal in enumerate(code.block.targets):
            self.push(goal, self.lanes.within(mask, choice == number))

    # --- barriers

    def arrive(self, code: Code, mask: Mask) -> None:
        """Lanes arrive at a barrier."""
        lanes = self.lanes
        mask = guarded(code, mask, self.R, lanes, self.push)
        if not mask.count:
            return
        expected = self.R[code.expected] if code.expected >= 0 else 0
        identity = self.R[code.barrier]
        parts = lanes.alike(mask, identity, expected)
        if sum(part.warps for _, _, part in parts) > mask.warps:
            raise self.compiled.ctx.unsupported(
                code.block.every[-1],
                "a barrier whose number or count differs between the lanes of a warp",
            )
        for number, count, part in parts:
            self.arrive_at(code, part, number, count)

    def arrive_at(self, code: Code, mask: Mask, identity: int, expected: int) -> None:
        """Lanes arrive at a numbered barrier, which expects the given number of threads."""
        lanes = self.lanes
        if "arrive" in code.block.every[-1].parts:
            self.push(code.block.targets[0], mask)
            self.parked.append(_Parked(code, mask, identity, expected, passing=True))
            if self.compiled.rt.order is not None:
                self.compiled.rt.order.clocks.herald(mask, identity)
            self.release_counted(identity, expected)
            return
        whole = mask.count == self.alive.count and not self.parked
        if whole and expected in (0, lanes.geometry.threads, lanes.T):
            for watcher in (self.compiled.rt.watcher, self.compiled.rt.stores):
                if watcher is not None:
                    watcher.barrier(mask)
            self.reduce([(code, mask)])
            self.push(code.block.targets[0], mask)
            return
        self.parked.append(_Parked(code, mask, identity, expected))
        if expected:
            self.release_counted(identity, expected)

    def _blocks(self, mask: Mask) -> Bools:
        return np.asarray(self.lanes.full(mask).any(axis=1))

    def release_counted(self, barrier: int, expected: int) -> None:
        """Release the blocks in which enough threads wait at a counted barrier."""
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
        rt, released, waited, gone = self.compiled.rt, lanes.empty, lanes.empty, []
        for parked in chosen:
            go = lanes.within(parked.mask, blocks[:, None])
            stay = lanes.without(parked.mask, go)
            released = lanes.union(released, go)
            if stay.count:
                left.append(replace(parked, mask=stay))
            if not parked.passing:
                gone.append((parked.code, go))
                waited = lanes.union(waited, go)
        self.parked = left
        self.reduce(gone)
        for code, go in gone:
            self.push(code.block.targets[0], go)
        if rt.order is not None:
            rt.order.clocks.heard(waited, chosen[0].barrier)
            rt.order.barrier(waited)
        elif rt.watcher is not None:
            rt.watcher.barrier(released)
        if rt.stores is not None:
            rt.stores.barrier(released)

    def reduce(self, gone: list[tuple[Code, Mask]]) -> None:
        """Give threads that are released together the result of their ``bar.red``."""
        lanes, yes = self.lanes, np.zeros(self.lanes.B, np.int64)
        count = np.zeros_like(yes)
        for code, mask in gone:
            on = lanes.full(mask)
            count += on.sum(axis=1)
            if code.reduction is not None:
                yes += code.reduction.yes(self.R, on).sum(axis=1)
        for code, mask in gone:
            if code.reduction is not None and mask.count:
                code.reduction.put(self.R, mask, yes, count, lanes)

    def release(self) -> bool:
        """Release complete barriers, when every living thread waits; False: none is complete.

        Raises:
            Fault: threads of one block wait at different barriers.
        """
        lanes = self.lanes
        alive = lanes.full(self.alive)
        waits = [p for p in self.parked if p.expected == 0]
        for barrier in sorted({p.barrier for p in waits}):
            mine = [p for p in waits if p.barrier == barrier]
            here = np.logical_or.reduce([lanes.full(parked.mask) for parked in mine])
            complete = (here == alive).all(axis=1) & here.any(axis=1)
            one, *others = {id(p.code): p for p in mine}.values()
            for other in others:
                both = self._blocks(one.mask) & self._blocks(other.mask) & complete
                if both.any():
                    self.at_other(one, other, both)
            if complete.any():
                self._go(mine, complete)
                return True
        return False

    def at_other(self, one: _Parked, other: _Parked, blocks: Bools) -> None:
        """Warn of threads that wait at different barriers with one number; whole warps may.

        Raises:
            Fault: they belong to one warp.
        """
        if self._warps_shared(one.mask, other.mask, blocks):
            self.divergent_barrier(one, other.code, other.mask, "waits at another barrier")
            return
        instrs = sorted(
            (p.code.block.every[-1] for p in (one, other)), key=lambda instr: instr.ptx_line
        )
        first, second = map(self.compiled.ctx.where, instrs)
        self.compiled.rt.warnings.add(
            f"{first}: warps of one block meet at different barriers of number {one.barrier}: "
            f"some wait here and some at {second}; a GPU lets them go on together"
        )

    def _warps_shared(self, one: Mask, other: Mask, blocks: Bools) -> bool:
        """Test whether warps of these blocks have lanes of both kinds."""
        lanes = self.lanes
        here, there = (
            (lanes.full(mask) & blocks[:, None]).reshape(lanes.B, -1, WARP).any(axis=2)
            for mask in (one, other)
        )
        return bool((here & there).any())

    def divergent_barrier(self, parked: _Parked, other: Code, mask: Mask, what: str) -> None:
        """Report a barrier that not all threads of one warp reach."""
        ctx, lanes = self.compiled.ctx, self.lanes
        row, thread = first_lane(lanes, lanes.full(mask) & self._blocks(parked.mask)[:, None])
        assert parked.code.site is not None
        instr = other.block.last or other.block.instrs[0]
        instr = other.block.instrs[0] if other.block.instrs and other is not parked.code else instr
        ctx.tell(
            parked.code.site.instr, "barrier", f"barrier not reached by all threads: "
            f"{who(lanes, row, thread)} {what} (at {ctx.where(instr)})",
            "Every thread of a block must reach the same __syncthreads(): move it out of the "
            "branch.",
        )  # fmt: skip

    def check_bypass(self, code: Code, mask: Mask) -> None:
        """Test whether a thread has passed a barrier at which others of its block wait.

        Whole warps may: the others continue when these have ended, or wait at a barrier as well.
        Raises Fault: others of its warp wait there.
        """
        if not code.ops and code.block.kind == "exit":
            return
        index = code.block.index
        reach = self.compiled.graph.reach
        for parked in self.parked:
            if parked.expected:
                continue
            at = parked.code.block.index
            if at == index or not holds(reach[at], index) or holds(reach[index], at):
                continue
            shared = self._blocks(parked.mask) & self._blocks(mask)
            if not shared.any():
                continue
            if self._warps_shared(parked.mask, mask, shared):
                self.divergent_barrier(parked, code, mask, "has gone past it")
                continue
            ctx = self.compiled.ctx
            barrier = f"{ctx.where(parked.code.block.every[-1])}: whole warps go past this barrier"
            if not any(each.startswith(barrier) for each in self.compiled.rt.warnings):
                instr = (code.block.instrs or code.block.every)[0]
                self.compiled.rt.warnings.add(
                    f"{barrier} (at {ctx.where(instr)}) while others of their block wait at it; a "
                    "GPU releases those when these end or reach another barrier"
                )

    def stuck(self) -> None:
        """Report a counted barrier that too few threads reach."""
        ctx, lanes = self.compiled.ctx, self.lanes
        parked = self.parked[0]
        row, thread = first_lane(lanes, lanes.full(parked.mask))
        here = int(lanes.full(parked.mask)[row].sum())
        wanted = parked.expected or int(lanes.full(self.alive)[row].sum())
        assert parked.code.site is not None
        raise ctx.fault(
            parked.code.site.instr, "endless", f"barrier not reached by all threads: "
            f"{who(lanes, row, thread)} and {here - 1} more wait forever at barrier "
            f"{parked.barrier}, which needs {wanted} threads",
            "Check the barrier's number and count, and that every path reaches it.",
        )  # fmt: skip
