"""Races between lanes of one warp: what one stores another must not use without a __syncwarp().

Lanes run in lock step here, but not on a chip since compute capability 7, and ptxas takes no lane
for another: it moves a lane's load over that lane's own store to another address, though
a neighbour waits for just that store. What orders a warp is a barrier, ``__syncwarp()``, a
fence, or any instruction that the lanes run together (shuffles, votes, matrix products): some of
these order less by the manual, and none of them is reported.
"""

from __future__ import annotations

import numpy as np

from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import Registers, Run, Runtime
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.values import Array

_TOGETHER = frozenset((
    "shfl", "vote", "match", "redux", "elect", "mma", "wmma", "ldmatrix", "stmatrix", "movmatrix",
    "bar", "barrier", "membar", "fence",
))  # fmt: skip
#: Accesses that are ordered, or part of something that is.
_STRONG = frozenset(("volatile", "relaxed", "acquire", "release", "mmio", "cp", *_TOGETHER))
#: A mark is an epoch, a warp and a lane; lanes 32 and 33 stand for several, by their access.
_LANES, _SEVERAL = 64, WARP


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
                clash &= known % _LANES != _SEVERAL
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
                mine // _LANES * _LANES + _SEVERAL, mine,
            )  # fmt: skip
        marks[rows, at] = mine
        left = marks[rows, at]
        several = (left != mine) & (left // _LANES == mine // _LANES)
        if several.any():
            rows, at = rows[several], at[several]
            marks[rows, at] = left[several] // _LANES * _LANES + _SEVERAL

    def who(self, mark: int) -> str:
        """The lane that left a mark, as words."""
        lane = mark % _LANES
        return "several lanes" if lane == _SEVERAL else f"lane {lane}"

    def order(self, mask: Mask) -> None:
        """Lanes of the mask have been ordered with those of their warps."""
        if mask.arr is None:
            self.epoch += 1
        else:
            lanes = self.lanes
            warps = lanes.full(mask).reshape(lanes.B, lanes.W, WARP).any(axis=2)
            self.epoch += warps
