"""Find elements to which several threads store different values: the last one is chance.

For every granule of global memory a launch's `WriterLog` keeps the thread that last stored to it,
where in the code, and when. Another thread that then stores another value there is reported, unless
something between could have ordered the two. Barriers order the warps of a block, and instructions
that a warp runs together order its lanes; atomics, ordered accesses, mbarriers and barriers of a
cluster may order any two blocks that both ran one since. That assumes more order than there is, so
a thread that waited is never reported; a conflict ordered by chance is not found. The same value
twice is not a conflict, nor are atomics with each other. Plain stores and atomics do conflict,
unless the atomic's old value is used (a swap), as for a lock that a store releases.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ptxemu.faults.watching import is_weak
from ptxemu.faults.words import triple, who
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import CodeSite, Context
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.spaces import shared_bytes
from ptxemu.state.values import Array, Ints

#: A mark is a block, a warp, a lane and a place in the code, each plus one; all ones: several.
_SITE, _LANE, _WARP = 16, 22, 28
_SITES, _SEVERAL, _ALL = (1 << _SITE) - 1, 63, (1 << 25) - 1
_BLOCKS = 1 << 24  # the most of a grid
_GLOBAL = ("global", "generic")
_ORDERED = frozenset(("volatile", "relaxed", "acquire", "release", "mmio", "cg", "cv"))


def orders_blocks(instr: Instr) -> bool:
    """Test whether an instruction may help to order threads of different warps or blocks."""
    if instr.op in ("atom", "red", "mbarrier", "griddepcontrol"):
        return True
    if instr.op in ("ld", "st"):
        return not _ORDERED.isdisjoint(instr.parts)
    return "cluster" in instr.parts and instr.op == "barrier"


def _shared(count: int) -> Ints:
    return shared_bytes(count * 8).view(np.int64)


class _Ledger:
    """The last access of each granule, and its time; processes share it."""

    def __init__(self, granules: int) -> None:
        self.mark, self.when = _shared(granules), _shared(granules)


class WriterLog:
    """All stores of a launch, over its batches and processes."""

    def __init__(self, size: int, sites: Sequence[CodeSite]) -> None:
        widths = [each.width for each in sites if each.store and each.space in _GLOBAL]
        self.grain = min([4, *(width for width in widths if width)])
        self.stores = _Ledger(-(-size // self.grain))
        #: Changes by atomics; None: the kernel has no atomics.
        self.atomics = None
        if any(each.instr.op in ("atom", "red") and each.space in _GLOBAL for each in sites):
            self.atomics = _Ledger(-(-size // self.grain))
        #: The last time at which a block ran an instruction that may order it with others.
        self.met = _shared(_BLOCKS)
        self._last = 0

    def tick(self) -> int:
        """The time: it grows with each call, and all processes share the clock."""
        self._last = max(self._last + 1, time.monotonic_ns())
        return self._last


class _Writes(NamedTuple):
    """One element of every lane of a store: its writer, and whether memory changes."""

    site: CodeSite
    rows: Array
    threads: Array
    mark: Ints
    differs: Array


class StoreWatcher:
    """Follows the stores of one batch."""

    def __init__(
        self, ctx: Context, lanes: Lanes, sites: Sequence[CodeSite], ledger: WriterLog
    ) -> None:
        self.ctx, self.lanes, self.sites, self.ledger = ctx, lanes, sites, ledger
        self.number = {id(site): min(index, _SITES) for index, site in enumerate(sites)}
        self.weak = {id(site): is_weak(site.instr) for site in sites}
        self.barred = np.zeros(lanes.B, np.int64)
        self.warped = np.zeros((lanes.B, lanes.W), np.int64)
        thread = np.arange(lanes.T, dtype=np.int64)
        block = lanes.blocks[:, None].astype(np.int64)
        self.me: Ints = (block + 1) << _WARP | (thread // WARP) << _LANE | (thread % WARP) << _SITE

    def barrier(self, mask: Mask) -> None:
        """Blocks have passed a barrier."""
        self.barred[self.lanes.full(mask).any(axis=1)] = self.ledger.tick()

    def warp_barrier(self, mask: Mask) -> None:
        """The lanes of each warp in the mask have synchronized."""
        lanes = self.lanes
        if mask.arr is None:
            self.warped[:] = self.ledger.tick()
        else:
            self.warped[mask.arr.reshape(lanes.B, lanes.W, WARP).any(axis=2)] = self.ledger.tick()

    def meet(self, mask: Mask) -> None:
        """Blocks run an instruction that may order them with others."""
        self.ledger.met[self.lanes.blocks[self.lanes.full(mask).any(axis=1)]] = self.ledger.tick()

    def forget(self, first: Array, width: int) -> None:
        """Something other than a thread's store has changed elements of `width` bytes.

        `first` are bytes from the start of global memory.
        """
        at = first // self.ledger.grain
        for number in range(max(width // self.ledger.grain, 1)):
            self.ledger.stores.mark[at + number] = 0
            if self.ledger.atomics is not None:
                self.ledger.atomics.mark[at + number] = 0

    def atomic(self, site: CodeSite, first: Array, changed: Array, width: int, mask: Mask) -> None:
        """Lanes have run an atomic on global memory.

        `first` are bytes from its start and `changed` whether another value is there now, one entry
        per lane.
        """
        rows, threads = np.nonzero(self.lanes.full(mask))
        mark = self.me[rows, threads] | self.number[id(site)]
        writes, ledger = _Writes(site, rows, threads, mark, changed), self.ledger
        assert ledger.atomics is not None
        now = ledger.tick()
        for number in range(max(width // ledger.grain, 1)):
            at = first // ledger.grain + number
            self._against(writes, at, ledger.stores)
            self._leave(ledger.atomics, writes, at, now)

    def store(self, site: CodeSite, first: Array, differs: Array, width: int, mask: Mask) -> None:
        """Lanes are about to store to global memory.

        `first` are bytes from its start and `differs` whether another value is there; their shapes
        broadcast.
        """
        lanes, ledger = self.lanes, self.ledger
        on = lanes.full(mask)
        if not self.weak[id(site)]:
            self.forget(np.broadcast_to(first, lanes.shape)[on], width)
            return
        rows, threads = np.nonzero(on)
        mark = self.me[on] | self.number[id(site)]
        start = np.broadcast_to(first, lanes.shape)[on] // ledger.grain
        differs = np.broadcast_to(differs, lanes.shape)[on]
        writes = _Writes(site, rows, threads, mark, differs)
        now = ledger.tick()
        for number in range(max(width // ledger.grain, 1)):
            at = start + number
            if ledger.atomics is not None:
                self._against(writes, at, ledger.atomics)
            self._leave(ledger.stores, writes, at, now)

    def _apart(self, marks: _Ledger, writes: _Writes, at: Ints) -> tuple[Array, Ints]:
        """True where others left marks that are not ordered with these writes; and the marks."""
        before = marks.mark[at]
        apart = (before != 0) & ((before ^ writes.mark) >> _SITE != 0)
        if apart.any():
            apart &= ~self._in_order(writes, before, marks.when[at])
        return apart, before

    def _against(self, writes: _Writes, at: Ints, marks: _Ledger) -> None:
        """Report a plain store and an atomic that nothing orders, whichever was first."""
        apart, before = self._apart(marks, writes, at)
        clash = apart & writes.differs
        if clash.any():
            index = int(np.argmax(clash))
            self._tell_atomic(writes, index, int(before[index]), int(at[index]))

    def _leave(self, marks: _Ledger, writes: _Writes, at: Ints, now: int) -> None:
        """Leave marks; report elements where another thread has stored another value."""
        mark = writes.mark
        apart, before = self._apart(marks, writes, at)
        if apart.any():
            clash = apart & writes.differs
            if marks is self.ledger.stores and clash.any():
                index = int(np.argmax(clash))
                self._tell(writes, index, int(before[index]), int(at[index]))
            mark = np.where(apart, _joined(mark, before), mark)
        marks.mark[at] = mark
        marks.when[at] = now
        left = marks.mark[at]
        several = left != mark
        if several.any():
            joined = _joined(mark[several], left[several])
            np.bitwise_or.at(marks.mark, at[several], joined)

    def _in_order(self, writes: _Writes, before: Ints, when: Array) -> Array:
        """True for lanes that certainly run after the one that stored there before them."""
        rows, ledger = writes.rows, self.ledger
        block, warp = before >> _WARP, before >> _LANE & _SEVERAL
        own = block == self.lanes.blocks[rows] + 1
        mine = own & (warp == writes.threads // WARP)
        barred = np.where(mine, np.maximum(self.barred[rows],
                          self.warped[rows, np.minimum(warp, self.lanes.W - 1)]),
                          self.barred[rows])  # fmt: skip
        met = ledger.met[self.lanes.blocks[rows]] > when
        known = np.clip(block - 1, 0, len(ledger.met) - 1)
        met &= (block == _ALL) | (ledger.met[known] > when)
        return np.asarray((own & (barred > when)) | met)

    def together(self, site: CodeSite, space: str, first: Array, lost: Array, mask: Mask) -> None:
        """Report lanes that stored different values to one element in one instruction.

        `first` are bytes from the start of the memory of all blocks and `lost` whether another
        value than the lane's is there; their shapes broadcast.
        """
        lanes = self.lanes
        if not self.weak[id(site)] or lanes.holds(mask, ~lost):
            return
        if self.ctx.told(site.instr, "race"):
            return
        on = lanes.full(mask)
        lost = np.broadcast_to(lost, lanes.shape) & on
        row, thread = (int(each) for each in np.argwhere(lost)[0])
        place = np.broadcast_to(first, lanes.shape)
        kept = np.argwhere(on & ~lost & (place == place[row, thread]))
        other = who(lanes, *(int(each) for each in kept[-1])) if len(kept) else "another thread"
        byte = int(place[row, thread])
        if space == "shared":
            name = self.ctx.variable_at("shared", byte % self.ctx.rt.shared_bytes)
        else:
            name = self._array(byte)
        self._note(site, space, f"{who(lanes, row, thread)} stores a different value to {name} "
                   f"than {other}, at the same time")  # fmt: skip

    def _tell(self, writes: _Writes, index: int, before: int, granule: int) -> None:
        """Report that another thread has stored another value there.

        The later block of the two is reported, as if blocks ran in order: which of them was really
        first is chance if several processes run them.
        """
        block, row, other = (before >> _WARP) - 1, int(writes.rows[index]), self._left_by(before)
        me = who(self.lanes, row, int(writes.threads[index]))
        place = self._array(granule * self.ledger.grain)
        site, earlier = writes.site, self.sites[before & _SITES]
        if self.lanes.blocks[row] < block < _ALL - 1:
            me, other, site, earlier = other, me, earlier, site
        self._note(site, "global", f"{me} stores a different value to {place} than {other} did at "
                   f"{self.ctx.where(earlier.instr)}, and nothing orders the two")  # fmt: skip

    def _tell_atomic(self, writes: _Writes, index: int, before: int, granule: int) -> None:
        """Report a plain store and an atomic, in the same words whichever was first."""
        here, there = writes.site, self.sites[min(before & _SITES, len(self.sites) - 1)]
        thread = who(self.lanes, int(writes.rows[index]), int(writes.threads[index]))
        if here.instr.op in ("atom", "red"):
            here, there, thread = there, here, self._left_by(before)
        place = self._array(granule * self.ledger.grain)
        self._note(here, "global", f"{thread} stores to {place}, which atomics at "
                   f"{self.ctx.where(there.instr)} change, and nothing orders the two")  # fmt: skip

    def _left_by(self, mark: int) -> str:
        """The owner of a mark, in words."""
        block, warp = (mark >> _WARP) - 1, mark >> _LANE & _SEVERAL
        lane, geometry = mark >> _SITE & _SEVERAL, self.lanes.geometry
        if block == _ALL - 1:
            return "threads of several blocks"
        one = f"thread {triple(warp * WARP + lane, geometry.block)}"
        several = "several threads" if _SEVERAL in (warp, lane) else one
        return f"{several} of block {triple(block, geometry.grid)}"

    def _array(self, byte: int) -> str:
        arena = self.ctx.rt.arena
        array = arena.allocation_of(arena.base + byte)
        return array.at(arena.base + byte) if array else "no array"

    def _note(self, site: CodeSite, space: str, what: str) -> None:
        """The error waits until the batch has ended: other faults are reported first."""
        self.ctx.tell(
            site.instr, "race", f"{space}-memory race: {what}",
            "Give every thread an element of its own (does the index use all of blockIdx and "
            "threadIdx?), let one thread store it, or use an atomic.", late=True,
        )  # fmt: skip


def _joined(one: Ints, two: Ints) -> Ints:
    """The first mark, with all ones in fields that differ: several lanes, warps or blocks."""
    apart = one ^ two
    several = np.where(apart >> _SITE != 0, _SEVERAL << _SITE, 0)
    several = np.where(apart >> _LANE != 0, (1 << _WARP) - (1 << _SITE), several)
    several = np.where(apart >> _WARP != 0, (_ALL << _WARP) | several, several)
    return one | several
