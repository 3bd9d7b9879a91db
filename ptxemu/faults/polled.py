"""Find polls of unwritten memory: loads that may precede the write for which they wait.

The emulator mostly runs blocks in the order of their numbers, so a thread that polls finds the
value for which it waits. On a chip it may be first, and reads the memory as it was when the launch
began. So if that memory was unwritten, the reader must know of the first write in another way: by a
chain of atomics and ordered loads and stores, each of which read the value of an earlier one.
Vector clocks of the blocks follow these chains.
"""

from __future__ import annotations

import numpy as np

from ptxemu.faults.words import first_lane, triple, who
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import CodeSite, Context
from ptxemu.state.lanes import Lanes
from ptxemu.state.spaces import shared_bytes
from ptxemu.state.values import Array, Ints

_GRAIN = 4
#: The most blocks of a launch, and ordered accesses of a block to a place, that are followed.
MOST_BLOCKS, _MOST = 2048, 200_000


class Meetings:
    """The blocks whose work each block knows of, over all batches of a launch.

    `polled`: instructions, by ``id``, that check whether a wait is over.
    """

    def __init__(self, ctx: Context, blocks: int, polled: frozenset[int]) -> None:
        self.ctx, self.polled = ctx, polled
        granules = -(-len(ctx.rt.arena.bytes) // _GRAIN)
        #: For memory without a value: its first writer plus one; the writer's epoch; its site.
        self._by, self._when, self._site = (
            shared_bytes(granules * each.itemsize).view(each)
            for each in (np.dtype("i4"), np.dtype("i4"), np.dtype("i2"))
        )
        self._sites: list[CodeSite] = []
        self._known = np.zeros((blocks, blocks), np.int32)
        self._now = np.ones(blocks, np.int32)
        self._said: dict[int, Ints] = {}
        self._left = _MOST

    def first(self, site: CodeSite, at: Array, on: Array) -> None:
        """Lanes store to unwritten memory; `at`: bytes from the start of global memory."""
        if not any(each is site for each in self._sites):
            self._sites.append(site)
        block = self._blocks()[np.nonzero(on)[0]]
        granules = np.broadcast_to(at, on.shape)[on] // _GRAIN
        new = self._by[granules] == 0
        granules, block = granules[new], block[new]
        self._by[granules], self._when[granules] = block + 1, self._now[block]
        self._site[granules] = next(n for n, each in enumerate(self._sites) if each is site)

    def meet(self, instr: Instr, at: Array, on: Array) -> None:
        """Lanes run an atomic, or an ordered load or store."""
        hears, tells = instr.op != "st", instr.op != "ld"
        rows = np.nonzero(on)[0]
        pairs = np.stack((self._blocks()[rows], np.broadcast_to(at, on.shape)[on] // _GRAIN))
        pairs = np.unique(pairs, axis=1)
        self._left -= pairs.shape[1]
        if self._left < 0:
            return
        for block, place in pairs.T.tolist():
            said = self._said.get(place)
            if hears and said is not None:
                np.maximum(self._known[block], said, out=self._known[block])
            if tells:
                self._known[block, block] = self._now[block]
                mine = self._known[block].copy()
                self._said[place] = mine if said is None else np.maximum(mine, said)
                self._now[block] += 1

    def look(self, site: CodeSite, at: Array, on: Array) -> None:
        """Lanes check whether their wait is over."""
        if id(site.instr) not in self.polled or self._left < 0:
            return
        place = np.broadcast_to(at, on.shape)
        granules, me = place // _GRAIN, self._blocks()[:, None]
        granules = np.where(on, granules, 0)
        by = self._by[granules] - 1
        unheard = self._known[me, np.maximum(by, 0)] < self._when[granules]
        bad = on & (by >= 0) & (by != me) & unheard
        rt, ctx = self.ctx.rt, self.ctx
        if not bad.any() or ctx.told(site.instr, "uninitialized"):
            return
        row, thread = first_lane(rt.lanes, bad)
        address = rt.arena.base + int(place[row, thread])
        array = rt.arena.allocation_of(address)
        name = array.at(address) if array else "memory"
        granule = int(granules[row, thread])
        writer = self._sites[int(self._site[granule])].instr
        block = triple(int(by[row, thread]), rt.lanes.geometry.grid)
        what = (
            f"uninitialized memory: {who(rt.lanes, row, thread)} waits for {name}, which held "
            f"nothing until block {block} wrote it at {ctx.where(writer)}: on a GPU it may be read "
            "before"
        )
        hint = "Let another kernel or the host fill it before this kernel starts."
        ctx.tell(site.instr, "uninitialized", what, hint, late=True)

    def _blocks(self) -> Array:
        lanes: Lanes = self.ctx.rt.lanes
        return lanes.blocks
