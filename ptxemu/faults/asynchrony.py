"""What is asynchronous to the threads: bulk copies and products, and who has waited for them.

A copy into shared memory is a write of its mbarrier's phase. A copy out of it, and a product,
read until the group that they are committed in has been waited for. A product's sums are its
own until then, and what threads did to them before it starts lies before a ``wgmma.fence``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import proxy

import numpy as np
from numpy.typing import NDArray

from ptxemu.errors import Fault
from ptxemu.faults.clocks import Clocks
from ptxemu.faults.order import Actors, OrderWatcher
from ptxemu.faults.words import who
from ptxemu.ptx.flow import arguments, results
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import CodeSite, Context
from ptxemu.state.lanes import WARP, Lanes, Mask

Ints = NDArray[np.signedinteger[Any]]
_GROUP = 4  # warps


class _Committed:
    """Groups of asynchronous work that warps have committed."""

    def __init__(self, lanes: Lanes, clocks: Clocks, agents: Ints) -> None:
        self._clocks, self.agents = clocks, agents
        self.groups = np.zeros((lanes.B, lanes.W), np.int32)
        self.done = np.zeros((lanes.B, lanes.W), np.int32)

    def commit(self, mask: Mask) -> None:
        """The warps of the mask close a group."""
        self.groups += self._clocks.warps_of(mask)

    def wait(self, mask: Mask, keep: int) -> None:
        """The warps of the mask have waited for all groups but the newest `keep`."""
        warps = self._clocks.warps_of(mask)
        over = np.maximum(self.groups - keep, self.done)
        self.done = np.where(warps, over, self.done)
        self._clocks.waited(warps, self.agents, over)


def _one_of(lanes: Lanes, warps: NDArray[np.bool_]) -> str:
    """The first of these warps (blocks, warps), in words."""
    row, warp = (int(axis[0]) for axis in np.nonzero(warps))
    return f"warp {warp} (from {who(lanes, row, warp * WARP)})"


def _agents(lanes: Lanes, clocks: Clocks, *, products: bool) -> Ints:
    row, warp = np.indices((lanes.B, lanes.W))
    if not products:
        return clocks.copier(row, warp)
    # Warps beyond the last whole warpgroup have no products.
    last = max(lanes.W // _GROUP - 1, 0)
    return clocks.group(row, np.minimum(warp // _GROUP, last))


class BulkOrder(_Committed):
    """Bulk copies of one batch."""

    def __init__(self, watcher: OrderWatcher) -> None:
        self._watcher: OrderWatcher = proxy(watcher)  # whose part this is
        lanes, clocks = watcher.lanes, watcher.clocks
        super().__init__(lanes, clocks, _agents(lanes, clocks, products=False))
        #: Copies out of shared memory, and each warp's newest group with one.
        self._out: dict[int, tuple[Instr, Ints]] = {}

    def _granules(self, address: Ints, unit: int) -> Ints:
        grain = self._watcher.grain
        if unit <= grain:
            return address // grain
        each = np.arange(unit // grain)
        return (address[:, :, None] // grain + each).reshape(len(address), -1)

    def writes(self, site: CodeSite, barriers: Any, target: Any) -> None:
        """Copies into shared memory are set off; `barriers` are `Spots`, `target` `Shared`."""
        watcher, clocks = self._watcher, self._clocks
        owner = target.owner[:, None]
        warp = (barriers.thread // WARP)[:, None]
        granule = self._granules(target.address, target.unit)
        touched = Actors(barriers.row[:, None], warp, owner, granule)
        watcher.check_write(site, touched, "copies to", atomic=False)
        agent = clocks.barrier(barriers.owner, barriers.address)
        number = agent - clocks.size * clocks.each
        phase = clocks.phases[barriers.owner // clocks.size, number] + 1
        watcher.mark_write(site, touched, (agent[:, None], phase[:, None]))

    def reads(self, site: CodeSite, spots: Any, source: Any) -> None:
        """Copies read shared memory; `spots` are `Spots` of who sets them off."""
        watcher = self._watcher
        row, warp = spots.row, spots.thread // WARP
        granule = self._granules(source.address, source.unit)
        touched = Actors(row[:, None], warp[:, None], source.owner[:, None], granule)
        watcher.check_read(site, touched, "copies from", defined=True, proxy=True)
        agents, steps = self.agents[row, warp], self.groups[row, warp] + 1
        watcher.mark_read(site, touched, agents[:, None], steps[:, None])
        if "bulk_group" in site.instr.parts:
            empty = np.zeros_like(self.groups)
            _, newest = self._out.setdefault(id(site.instr), (site.instr, empty))
            np.maximum.at(newest, (row, warp), steps)

    def unread(self) -> Fault | None:
        """The error for a copy that nobody waited for, where all threads of the batch have ended.

        The shared memory of a block goes to another when its last thread ends.
        """
        for instr, newest in self._out.values():
            early = newest > self.done
            if early.any():
                return Fault(
                    f"{self._watcher.ctx.where(instr)}: block ended under its own copy: "
                    f"{_one_of(self._watcher.lanes, early)} has not waited for this bulk copy, "
                    "which may still be reading the shared memory of its block",
                    "Run cp.async.bulk.commit_group after it, and cp.async.bulk.wait_group.read 0 "
                    "in the same thread before it ends.",
                )
        return None


class ProductOrder(_Committed):
    """Asynchronous products of one batch, in shared memory and in registers."""

    def __init__(self, watcher: OrderWatcher) -> None:
        self._watcher: OrderWatcher = proxy(watcher)  # whose part this is
        lanes, clocks = watcher.lanes, watcher.clocks
        super().__init__(lanes, clocks, _agents(lanes, clocks, products=True))
        self._ctx, self._lanes = watcher.ctx, lanes
        self._fences = np.zeros((lanes.B, lanes.W), np.int32)
        makers = watcher.ctx.makers.items()
        self._sums = {name for name, made in makers if any(each.op == "wgmma" for each in made)}
        #: Register -> the group that each warp's product into it is of, and the product.
        self._flying: dict[str, tuple[Ints, Instr]] = {}
        #: Register -> each warp's fences before it wrote it otherwise, and what wrote.
        self._touched: dict[str, tuple[Ints, Instr]] = {}

    def issue(
        self, instr: Instr, site: CodeSite, mask: Mask,
        operands: Sequence[Sequence[tuple[Ints, Ints, Ints]]],
    ) -> None:  # fmt: skip
        """A product starts.

        Args:
            instr: The product.
            site: Its counters.
            mask: Who runs it.
            operands: Of each matrix in shared memory blocks, warpgroups and the addresses
                that they read.
        """
        warps = self._clocks.warps_of(mask)
        self._check_fence(instr, warps)
        for parts in operands:
            for block, group, addresses in parts:
                self._reads(site, block, group, addresses)
        mine = np.where(warps, self.groups + 1, 0)
        for name in results(instr):
            before = self._flying.get(name)
            steps = mine if before is None else np.where(warps, mine, before[0])
            self._flying[name] = (steps, instr)

    def _reads(self, site: CodeSite, block: Ints, group: Ints, addresses: Ints) -> None:
        watcher = self._watcher
        granule = np.unique(addresses // watcher.grain)
        granules = np.broadcast_to(granule, (len(block), len(granule)))
        for warp in range(_GROUP):
            touched = Actors(
                block[:, None], group[:, None] * _GROUP + warp, block[:, None], granules
            )
            watcher.check_read(site, touched, "reads", defined=warp == 0, proxy=True)
        agent = self._clocks.group(block, group)
        step = self.groups[block, group * _GROUP] + 1
        watcher.mark_read(site, touched, agent[:, None], step[:, None])

    def fence(self, mask: Mask) -> None:
        """A ``wgmma.fence``."""
        self._fences += self._clocks.warps_of(mask)

    def _check_fence(self, instr: Instr, warps: NDArray[np.bool_]) -> None:
        bare = warps & (self._fences == 0)
        if bare.any():
            self._missing(instr, bare, "no wgmma.fence since the kernel began")
        for name in arguments(instr):
            found = self._touched.get(name)
            if found is not None:
                late = warps & (found[0] == self._fences)
                if late.any():
                    line = self._ctx.where(found[1])
                    self._missing(instr, late, f"none since {line} wrote its register {name}")

    def _missing(self, instr: Instr, warps: NDArray[np.bool_], why: str) -> None:
        raise Fault(
            f"{self._ctx.where(instr)}: missing wgmma.fence: {self._who(warps)} starts a "
            f"wgmma.mma_async with {why}",
            "Run wgmma.fence before the first wgmma.mma_async, and again after other instructions "
            "have written registers that it uses.",
        )

    def touches(self, instr: Instr, mask: Mask) -> None:
        """Another instruction reads or writes registers of sums."""
        warps = self._clocks.warps_of(mask)
        written = set(results(instr))
        for name in {*arguments(instr), *written}:
            found = self._flying.get(name)
            if found is not None:
                early = warps & (found[0] > self.done)
                if early.any():
                    verb = "writes" if name in written else "reads"
                    raise Fault(
                        f"{self._ctx.where(instr)}: accumulator used before its wait: "
                        f"{self._who(early)} {verb} an accumulator of "
                        f"{self._ctx.where(found[1])}, whose wgmma group has not been waited for",
                        "Run wgmma.commit_group after wgmma.mma_async, and wgmma.wait_group before "
                        "its accumulators are used.",
                    )
        for name in written:
            self._written(name, instr, warps)

    def _written(self, name: str, instr: Instr, warps: NDArray[np.bool_]) -> None:
        """A register of sums is written by something else than a product."""
        sources = arguments(instr) if instr.op == "mov" else []
        if len(sources) == 1 and sources[0] in self._sums:
            # A copy is written as its source was: the compiler may make it at any time.
            found = self._touched.get(sources[0])
            if found is None:
                self._touched.pop(name, None)
            else:
                self._touched[name] = found
        elif not self._constant(instr):
            before = self._touched.get(name)
            old = np.full_like(self._fences, -1) if before is None else before[0]
            self._touched[name] = (np.where(warps, self._fences, old), instr)

    def _constant(self, instr: Instr) -> bool:
        """A literal may be put into a register later than it was written down."""
        makers = self._ctx.makers
        return instr.op == "mov" and all(
            self._constant(each) for name in arguments(instr) for each in makers.get(name, [instr])
            if each is not instr
        )  # fmt: skip

    def _who(self, warps: NDArray[np.bool_]) -> str:
        return _one_of(self._lanes, warps)


class AsyncWatcher(OrderWatcher):
    """`OrderWatcher` with its copies and products."""

    def __init__(self, ctx: Context, lanes: Lanes, sites: Sequence[CodeSite], size: int) -> None:
        super().__init__(ctx, lanes, sites, size)
        self.bulk = BulkOrder(self)
        self.products = ProductOrder(self)


def is_asynchronous(instr: Instr) -> bool:
    """Does an instruction order work, or leave work to others, as `AsyncWatcher` follows it?"""
    return instr.op in ("mbarrier", "wgmma", "mapa") or "bulk" in instr.parts
