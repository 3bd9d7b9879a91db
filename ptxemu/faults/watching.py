"""Races and uninitialized reads, found by remembering who touched what.

For every granule of shared memory the watcher keeps the warp that last wrote it, the
warp (or "several") that read it, and the warp that used an atomic on it, all since the
block's last barrier. Two warps that meet at a granule without a barrier between, at
least one of them writing, race; so do lanes of one warp with nothing between that orders them.
Races between blocks are not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ptxemu.errors import Fault
from ptxemu.faults.words import first_lane, who
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import CodeSite, Context, Registers, Run, Runtime
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.spaces import Reach
from ptxemu.state.values import Array

# Races between lanes of one warp: what one stores another must not use without a __syncwarp().
# Lanes run in lock step here, but not on a chip since compute capability 7, and ptxas takes no lane
# for another: it moves a lane's load over that lane's own store to another address, though
# a neighbour waits for just that store. What orders a warp is a barrier, ``__syncwarp()``, a
# fence, or any instruction that the lanes run together (shuffles, votes, matrix products): some of
# these order less by the manual, and none of them is reported.

_TOGETHER = frozenset((
    "shfl", "vote", "match", "redux", "elect", "mma", "wmma", "ldmatrix", "stmatrix", "movmatrix",
    "bar", "barrier", "membar", "fence",
))  # fmt: skip
#: Accesses that are ordered, or part of something that is.
_STRONG = frozenset(("volatile", "relaxed", "acquire", "release", "mmio", "cp", *_TOGETHER))
#: A mark is an epoch, a warp and a lane; lanes 32 and 33 stand for several, by their access.
_LANES, _SEVERAL_LANES = 64, WARP


def orders_warp(instr: Instr) -> bool:
    """Does an instruction order what the lanes of a warp do before and after it?"""
    return instr.op in _TOGETHER


def ordering(run: Run, rt: Runtime) -> Run:
    """The same, and the watcher is told."""

    def ordered(R: Registers, M: Mask) -> object:
        value = run(R, M)
        for watcher in (rt.watcher, rt.stores):
            if watcher is not None:
                watcher.warp_barrier(M)
        return value

    if hasattr(run, "writes_itself"):
        ordered.writes_itself = True  # type: ignore[attr-defined]
    return ordered


def is_weak(instr: Instr) -> bool:
    """Is it a plain access, of which the compiler may think that no other lane looks on?"""
    return _STRONG.isdisjoint(instr.parts)


class Mates:
    """Which lane of a warp last wrote and read each granule since the warp was last ordered.

    Granules are given as rows of the batch and places in them, one entry an access of a lane.
    """

    def __init__(self, lanes: Lanes, shape: tuple[int, int]) -> None:
        self.lanes = lanes
        self.epoch = np.ones((lanes.B, lanes.W), np.int64)
        self.writer = np.zeros(shape, np.int64)
        self.reader = np.zeros(shape, np.int64)
        thread = np.arange(lanes.T)
        self.thread = np.broadcast_to(thread, lanes.shape)
        self.warp = np.broadcast_to(thread // WARP, lanes.shape)

    def _marks(self, rows: Array, on: Array) -> Array:
        thread, warp = self.thread[on], self.warp[on]
        return (self.epoch[rows, warp] * WARP + warp) * _LANES + thread % WARP

    def met(self, rows: Array, at: Array, on: Array, *, store: bool) -> Array | None:
        """Where another lane of the same warp left a mark that this access must not meet.

        Returns:
            The mark for each access, 0 where all is well; None: nowhere.
        """
        mine = self._marks(rows, on)
        for marks in (self.writer, self.reader) if store else (self.writer,):
            known = marks[rows, at]
            clash = (known // _LANES == mine // _LANES) & (known != mine)
            # What several lanes wrote at once, each of them may read: all were meant to agree.
            if marks is self.writer:
                clash &= known % _LANES != _SEVERAL_LANES
            if clash.any():
                return np.where(clash, known, 0)
        return None

    def mark(self, rows: Array, at: Array, on: Array, *, store: bool) -> None:
        """Remember an access."""
        mine = self._marks(rows, on)
        marks = self.writer if store else self.reader
        if not store:
            known = marks[rows, at]
            mine = np.where(
                (known // _LANES == mine // _LANES) & (known != mine),
                mine // _LANES * _LANES + _SEVERAL_LANES, mine,
            )  # fmt: skip
        marks[rows, at] = mine
        left = marks[rows, at]
        several = (left != mine) & (left // _LANES == mine // _LANES)
        if several.any():
            rows, at = rows[several], at[several]
            marks[rows, at] = left[several] // _LANES * _LANES + _SEVERAL_LANES

    def who(self, mark: int) -> str:
        """The lane that left a mark, as words."""
        lane = mark % _LANES
        return "several lanes" if lane == _SEVERAL_LANES else f"lane {lane}"

    def order(self, mask: Mask) -> None:
        """Lanes of the mask have been ordered with those of their warps."""
        if mask.arr is None:
            self.epoch += 1
        else:
            lanes = self.lanes
            warps = lanes.full(mask).reshape(lanes.B, lanes.W, WARP).any(axis=2)
            self.epoch += warps


_SEVERAL = 255  # a block has at most 32 warps


class _Granules(NamedTuple):
    """One granule of every lane of an access."""

    site: CodeSite
    rows: Array  # block of each lane
    at: Array  # granule
    me: Array  # warp, from 1 on
    on: Array  # which lanes of the batch these are


class _Marks(NamedTuple):
    """The warp that last did something to each granule, and where in the code."""

    warp: Array
    site: Array
    done: str


class SharedWatcher:
    """Follows the shared memory of one batch."""

    def __init__(self, ctx: Context, lanes: Lanes, sites: Sequence[CodeSite], size: int) -> None:
        self.ctx, self.lanes, self.sites = ctx, lanes, sites
        widths = [site.width for site in sites if site.space in ("shared", "generic")]
        self.grain = min([4, *(width for width in widths if width)])
        shape = (lanes.B, -(-size // self.grain))
        self.number = {id(site): index for index, site in enumerate(sites)}
        self.written = np.zeros(shape, np.bool_)
        changed = np.zeros(shape, np.int32)
        self.writer = _Marks(np.zeros(shape, np.uint8), changed, "written")
        self.atomic = _Marks(np.zeros(shape, np.uint8), changed, "changed")
        self.reader = _Marks(np.zeros(shape, np.uint8), np.zeros(shape, np.int32), "read")
        self.mates = Mates(lanes, shape)
        self.weak = {id(site): is_weak(site.instr) for site in sites}
        warp = np.arange(lanes.T) // WARP + 1
        self.me = np.broadcast_to(warp.astype(np.uint8), lanes.shape)

    def access(self, site: CodeSite, reach: Reach, kind: str) -> None:
        """Check one access of all lanes of the mask, then remember it."""
        lanes = self.lanes
        first = np.broadcast_to((reach.pattern.rel + reach.low) // self.grain, lanes.shape)
        on = lanes.full(reach.mask)
        rows = np.nonzero(on)[0]
        me = self.me[on]
        start = first[on]
        for number in range(max(site.width // self.grain, 1)):
            granules = _Granules(site, rows, start + number, me, on)
            if kind == "load":
                self._load(granules)
            else:
                self._store(granules, plain=kind == "store")

    def _load(self, granules: _Granules) -> None:
        _, rows, at, me, _ = granules
        self._check_defined(granules)
        self._meet(granules, self.writer, "reads")
        self._meet(granules, self.atomic, "reads")
        self._meet_mates(granules, "reads")
        readers = self.reader.warp
        known = readers[rows, at]
        readers[rows, at] = np.where((known == 0) | (known == me), me, _SEVERAL)
        others = readers[rows, at] != me
        readers[rows[others], at[others]] = _SEVERAL
        self.reader.site[rows, at] = self.number[id(granules.site)]

    def _store(self, granules: _Granules, *, plain: bool) -> None:
        _, rows, at, me, _ = granules
        verb = "writes" if plain else "changes"
        self._meet(granules, self.writer, verb)
        self._meet(granules, self.reader, verb)
        if plain:
            self._meet(granules, self.atomic, verb)
            self._meet_mates(granules, verb)
        else:
            self._check_defined(granules)
        target = self.writer if plain else self.atomic
        target.warp[rows, at] = me
        target.site[rows, at] = self.number[id(granules.site)]
        self.written[rows, at] = True
        if plain:
            # Two warps that write one word in the same instruction: the later one is in.
            self._meet(granules, self.writer, verb)
        elif (target.warp[rows, at] != me).any():
            target.warp[rows, at] = _SEVERAL

    def _meet(self, granules: _Granules, marks: _Marks, verb: str) -> None:
        """Raise where another warp has left its mark since the last barrier."""
        site, rows, at, me, on = granules
        known = marks.warp[rows, at]
        clash = (known != 0) & (known != me)
        if not clash.any():
            return
        index = int(np.argmax(clash))
        other = self.sites[int(marks.site[rows[index], at[index]])]
        row, thread = self._lane(on, index)
        address = int(at[index]) * self.grain
        warp = int(known[index])
        by = "several warps" if warp == _SEVERAL else f"warp {warp - 1}"
        raise Fault(
            f"{self.ctx.where(site.instr)}: shared-memory race: {who(self.lanes, row, thread)} "
            f"{verb} {self.ctx.variable_at('shared', address)}, which was {marks.done} by {by} at "
            f"{self.ctx.where(other.instr)} without a barrier between",
            "Put a __syncthreads() between the two accesses, or use an atomic.",
        )

    def _meet_mates(self, granules: _Granules, verb: str) -> None:
        """Raise where another lane of the warp has left its mark since the warp was ordered."""
        site, rows, at, _, on = granules
        if not self.weak[id(site)]:
            return
        store = verb == "writes"
        marks = self.mates.met(rows, at, on, store=store)
        if marks is None:
            self.mates.mark(rows, at, on, store=store)
            return
        index = int(np.argmax(marks != 0))
        place = rows[index], at[index]
        written = bool(self.mates.writer[place] == marks[index])
        other = self.sites[int((self.writer if written else self.reader).site[place])]
        raise Fault(
            f"{self.ctx.where(site.instr)}: shared-memory race in a warp: "
            f"{who(self.lanes, *self._lane(on, index))} {verb} "
            f"{self.ctx.variable_at('shared', int(at[index]) * self.grain)}, which was "
            f"{'written' if written else 'read'} by {self.mates.who(int(marks[index]))} of its "
            f"warp at {self.ctx.where(other.instr)} without a __syncwarp() between",
            "The lanes of a warp need not run together, and the compiler moves a lane's loads "
            "over its own stores: put a __syncwarp() or __syncthreads() between the two accesses.",
        )

    def _lane(self, on: Array, index: int) -> tuple[int, int]:
        row, thread = (int(axis[index]) for axis in np.nonzero(on))
        return row, thread

    def _check_defined(self, granules: _Granules) -> None:
        """Raise where nobody has written what is read."""
        site, rows, at, _, on = granules
        unset = ~self.written[rows, at]
        if not unset.any():
            return
        index = int(np.argmax(unset))
        row, thread = self._lane(on, index)
        address = int(at[index]) * self.grain
        raise Fault(
            f"{self.ctx.where(site.instr)}: uninitialized shared memory: "
            f"{who(self.lanes, row, thread)} reads {self.ctx.variable_at('shared', address)}, "
            "which no thread of its block has written",
            "Shared memory is undefined when a block starts: write it before it is read.",
        )

    def barrier(self, mask: Mask) -> None:
        """Forget who touched what in the blocks that have passed a barrier."""
        blocks = self.lanes.full(mask).any(axis=1)
        for marks in (self.writer, self.reader, self.atomic):
            marks.warp[blocks] = 0
        self.mates.epoch[blocks] += 1

    def warp_barrier(self, mask: Mask) -> None:
        """A warp's own barrier orders nothing between warps, but its lanes."""
        self.mates.order(mask)


def check_written(ctx: Context, site: CodeSite, bad: Array, address: Array) -> None:
    """Note a global load of memory that nobody has written.

    The error waits until the batch has ended, so that what follows from it (an endless
    wait, a wild address) is reported first.

    Args:
        ctx: The kernel's context.
        site: The load.
        bad: Which lanes read something unwritten, of the batch's shape.
        address: Their addresses.
    """
    lanes = ctx.rt.lanes
    row, thread = first_lane(lanes, bad)
    where = int(np.broadcast_to(address, lanes.shape)[row, thread])
    allocation = ctx.rt.arena.allocation_of(where)
    place = f"{allocation.name} + {where - allocation.start} bytes" if allocation else hex(where)
    ctx.rt.finding = ctx.rt.finding or Fault(
        f"{ctx.where(site.instr)}: uninitialized memory: {who(lanes, row, thread)} reads {place}, "
        "which nothing has written",
        "Outputs and scratch buffers are undefined when a kernel starts: write them before they "
        "are read.",
    )
