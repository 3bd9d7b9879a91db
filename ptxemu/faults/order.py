"""Races in shared memory where mbarriers, bulk copies and asynchronous products order work.

For every granule of shared memory the watcher keeps which agent (`clocks`) wrote it in which
of its steps, and in which step each agent last read it. Who touches a granule must know those
steps to be over. What plain stores wrote must also lie before a proxy fence when a copy or a
product reads it. Threads of one warp count as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.errors import Fault
from ptxemu.faults.clocks import Clocks
from ptxemu.faults.words import who
from ptxemu.ops.bulk.places import Spots, owner_of
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import CodeSite, Context
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.phases import BYTES
from ptxemu.state.spaces import Reach

Ints = NDArray[np.signedinteger[Any]]
Bools = NDArray[np.bool_]
_PLAIN, _ATOMIC, _COPY, _THREAD_COPY = 0, 1, 2, 3
_HINTS = {
    "order": "Put a __syncthreads() or an mbarrier between the two accesses.",
    "copy": "First wait for the phase of the mbarrier that the copy completes, with that phase's "
    "parity.",
    "reading": "First wait for the reader (wgmma.wait_group, cp.async.bulk.wait_group.read), "
    "then signal the writer through an mbarrier or a barrier.",
    "proxy": "Put a fence.proxy.async after the stores, before the barrier that orders the two "
    "accesses.",
}


class Actors(NamedTuple):
    """Who touches what, one entry an access: the warp, and the granules of a block's memory.

    `row` and `warp` have one axis less than `granule`, or one entry for each of it; `owner`
    is the block whose memory it is.
    """

    row: Ints
    warp: Ints
    owner: Ints
    granule: Ints


class OrderWatcher:
    """Follows the shared memory of one batch; an `AccessWatcher` that knows of asynchrony."""

    def __init__(self, ctx: Context, lanes: Lanes, sites: Sequence[CodeSite], size: int) -> None:
        self.ctx, self.lanes, self.sites = ctx, lanes, sites
        self.clocks = Clocks(lanes)
        widths = [site.width for site in sites if site.space in ("shared", "generic")]
        self.grain = min([4, *(width for width in widths if width)])
        shape = (lanes.B, -(-size // self.grain))
        self.number = {id(site): index for index, site in enumerate(sites)}
        self.written = np.zeros(shape, np.bool_)
        self._writer = np.full(shape, -1, np.int16)
        self._step = np.zeros(shape, np.int32)
        self._by = np.zeros(shape, np.int32)  # the writing instruction
        self._how = np.zeros(shape, np.uint8)
        self._reader = np.zeros(shape, np.int32)  # the instruction that read it last
        self._reads: dict[int, NDArray[np.int32]] = {}
        #: Of each warp: the wait that it passed last, and how many phases had ended by then.
        self._waits: list[Instr] = []
        self._last = np.full((lanes.B, lanes.W), -1, np.int32)
        self._ended = np.zeros((lanes.B, lanes.W), np.int32)
        self._waited = np.zeros((lanes.B, lanes.W), np.int32)  # the mbarrier's agent

    # --- plain accesses

    def access(self, site: CodeSite, reach: Reach, kind: str) -> None:
        """Check one access of all lanes of the mask, then remember it."""
        lanes = self.lanes
        row, thread = np.nonzero(lanes.full(reach.mask))
        address = np.broadcast_to(reach.pattern.rel + reach.low, lanes.shape)[row, thread]
        owner, local = owner_of(lanes, row, address)
        for number in range(max(site.width // self.grain, 1)):
            touched = Actors(row, thread // WARP, owner, local // self.grain + number)
            if kind == "load":
                self.check_read(site, touched, "reads", defined=True)
                self.mark_read(site, touched, self.clocks.own[touched.row, touched.warp])
            else:
                atomic = kind == "atomic"
                verb = "changes" if atomic else "writes"
                self.check_write(site, touched, verb, atomic=atomic)
                if atomic:
                    self._check_defined(site, touched)
                agent = self.clocks.own[touched.row, touched.warp]
                step = self.clocks.known[touched.row, touched.warp, agent]
                # A thread's own cp.async wants no proxy fence: compilers put none behind it.
                copied = site.instr.parts[:2] == ("cp", "async")
                how = _ATOMIC if atomic else _THREAD_COPY if copied else _PLAIN
                self.mark_write(site, touched, (agent, step), how)
                if not atomic:
                    # Two warps that write one word in the same instruction: the later is in.
                    self.check_write(site, touched, verb, atomic=False)

    def barrier(self, mask: Mask) -> None:
        """The lanes of the mask have waited for each other, block by block."""
        self.clocks.meet(mask)

    def warp_barrier(self, mask: Mask) -> None:
        """A warp's own barrier orders nothing between warps."""

    # --- mbarriers

    def _split(self, keys: Ints) -> tuple[Ints, Ints]:
        each = self.ctx.rt.shared_bytes // BYTES
        return keys // each, keys % each * BYTES

    def initialized(self, site: CodeSite, spots: Spots, keys: Ints) -> None:
        """Mbarriers begin their first phase."""

    def arrived(self, spots: Spots, keys: Ints) -> None:
        """Lanes arrive at mbarriers."""
        pairs = np.unique(np.stack([spots.row, spots.thread // WARP, keys], axis=1), axis=0).T
        self.clocks.arrive(pairs[0], pairs[1], *self._split(pairs[2]))

    def phases(self, keys: Ints, completed: Ints) -> None:
        """Phases of mbarriers are over."""
        self.clocks.end_phases(*self._split(keys), completed)

    def passed(self, wait: Instr, row: Ints, thread: Ints, keys: Ints) -> None:
        """Lanes have waited for phases of mbarriers."""
        row, warp, keys = np.unique(np.stack([row, thread // WARP, keys], axis=1), axis=0).T
        owner, address = self._split(keys)
        self.clocks.passed(row, warp, owner, address)
        if not any(each is wait for each in self._waits):
            self._waits.append(wait)
        number = next(at for at, each in enumerate(self._waits) if each is wait)
        agent = self.clocks.barrier(owner, address)
        self._last[row, warp], self._waited[row, warp] = number, agent
        self._ended[row, warp] = self.clocks.known[row, warp, agent]

    def _blame_wait(self, row: int, warp: int, *, writer: int, step: int, what: str) -> None:
        """Raise where the last wait of a warp was over too early: by the wrong parity.

        That is where it was for the mbarrier of the copy (or, `writer` -1, for any) and the
        phase before the one that the copy ends (or none at all) was the last to have ended.
        """
        last, ended = int(self._last[row, warp]), int(self._ended[row, warp])
        right = writer < 0 or int(self._waited[row, warp]) == writer
        if last >= 0 and right and ended == step - 1:
            raise Fault(
                f"{self.ctx.where(self._waits[last])}: wait with the wrong parity: it lets warp "
                f"{warp} (from {who(self.lanes, row, warp * WARP)}) go on after {ended} phases of "
                f"its mbarrier, and {what}",
                "The first phase of an mbarrier has parity 0, the next 1, and so on: wait for the "
                "parity of the phase that the copies complete.",
            )

    def fence(self, mask: Mask) -> None:
        """A proxy fence of the mask's lanes."""
        self.clocks.fence(mask)

    # --- checks

    def check_read(
        self, site: CodeSite, who_: Actors, verb: str, *, defined: bool, proxy: bool = False
    ) -> None:
        """Raise where what is read may still be written, or (proxy) lacks a fence."""
        row, warp, owner, granule = who_
        if defined:
            self._check_defined(site, who_)
        writer, step = self._writer[owner, granule], self._step[owner, granule]
        known = self.clocks.known[row, warp, writer]
        mine = self.clocks.own[row, warp] == writer
        late = (writer >= 0) & ~mine & (known < step)
        if late.any():
            self._clash(site, who_, late, verb, written=True)
        if proxy:
            plain = (writer >= 0) & (self._how[owner, granule] < _COPY)
            late = plain & (self.clocks.fenced[row, warp, writer] < step)
            if late.any():
                at = self._first(late)
                other = self.ctx.where(self.sites[int(self._by[self._of(who_, at)])].instr)
                raise Fault(
                    f"{self._where(site)}: missing proxy fence: {self._who(who_, at)} {verb} "
                    f"{self._place(who_, at)}, which ordinary stores at {other} wrote with no "
                    "fence.proxy.async since",
                    _HINTS["proxy"],
                )

    def check_write(self, site: CodeSite, who_: Actors, verb: str, *, atomic: bool) -> None:
        """Raise where what is written may still be read or written by another agent."""
        row, warp, owner, granule = who_
        writer, step = self._writer[owner, granule], self._step[owner, granule]
        mine = self.clocks.own[row, warp]
        late = (writer >= 0) & (mine != writer) & (self.clocks.known[row, warp, writer] < step)
        if atomic:
            late &= self._how[owner, granule] != _ATOMIC
        if late.any():
            self._clash(site, who_, late, verb, written=True)
        for agent, steps in self._reads.items():
            known = self.clocks.known[row, warp, agent]
            late = (known < steps[owner, granule]) & (mine != agent)
            if late.any():
                self._clash(site, who_, late, verb, written=False, agent=agent)

    def mark_read(
        self, site: CodeSite, who_: Actors, agents: Ints, steps: Ints | None = None
    ) -> None:
        """Remember in which step of theirs agents read; None: in a warp's own present one."""
        row, warp, owner, granule = who_
        if steps is None:
            steps = self.clocks.known[row, warp, agents]
        agents, steps = (np.broadcast_to(each, granule.shape) for each in (agents, steps))
        owner = np.broadcast_to(owner, granule.shape)
        for agent in np.unique(agents).tolist():
            mine = agents == agent
            if agent not in self._reads:
                self._reads[agent] = np.zeros(self.written.shape, np.int32)
            self._reads[agent][owner[mine], granule[mine]] = steps[mine]
        self._reader[owner, granule] = self.number[id(site)]

    def mark_write(
        self, site: CodeSite, who_: Actors, agent: tuple[Ints, Ints], how: int = _COPY
    ) -> None:
        """Remember which agent writes in which of its steps."""
        where = who_.owner, who_.granule
        self._writer[where], self._step[where] = agent
        self._by[where], self._how[where] = self.number[id(site)], how
        self.written[where] = True

    def _check_defined(self, site: CodeSite, who_: Actors) -> None:
        unset = ~self.written[who_.owner, who_.granule]
        if unset.any():
            at = self._first(unset)
            what = f"{self._where(site)} then reads what nothing has written"
            self._blame_wait(*self._actor(who_, at), writer=-1, step=1, what=what)
            raise Fault(
                f"{self._where(site)}: uninitialized shared memory: {self._who(who_, at)} reads "
                f"{self._place(who_, at)}, which no thread of its block has written",
                "Shared memory is undefined when a block starts: write it before it is read.",
            )

    # --- words

    def _clash(
        self, site: CodeSite, who_: Actors, late: Bools, verb: str, *, written: bool,
        agent: int = -1,
    ) -> None:  # fmt: skip
        at = self._first(late)
        place = self._of(who_, at)
        other = self.sites[int((self._by if written else self._reader)[place])]
        agent = int(self._writer[place]) if written else agent
        does = f"{self._where(site)}: shared-memory race: {self._who(who_, at)} {verb} "
        does += self._place(who_, at)
        line = self.ctx.where(other.instr)
        offset = agent % self.clocks.each
        if written and self._how[place] == _COPY:
            what = f"{self._where(site)} then {verb} what the copy at {line} may still be writing"
            row, warp = self._actor(who_, at)
            self._blame_wait(row, warp, writer=agent, step=int(self._step[place]), what=what)
            raise Fault(
                f"{does}, which the copy at {line} may still be writing: its mbarrier has not "
                "been waited for",
                _HINTS["copy"],
            )
        if not written and offset >= self.lanes.W:
            raise Fault(f"{does}, which {line} may still be reading", _HINTS["reading"])
        done = "written" if written else "read"
        raise Fault(
            f"{does}, which was {done} by warp {offset} at {line} without a barrier between",
            _HINTS["order"],
        )

    @staticmethod
    def _first(bad: Bools) -> tuple[int, ...]:
        return tuple(int(axis) for axis in np.unravel_index(int(np.argmax(bad)), bad.shape))

    def _of(self, who_: Actors, at: tuple[int, ...]) -> tuple[int, int]:
        owner = np.broadcast_to(who_.owner, who_.granule.shape)[at]
        return int(owner), int(who_.granule[at])

    def _place(self, who_: Actors, at: tuple[int, ...]) -> str:
        return self.ctx.variable_at("shared", int(who_.granule[at]) * self.grain)

    def _who(self, who_: Actors, at: tuple[int, ...]) -> str:
        row, warp = self._actor(who_, at)
        return f"warp {warp} (from {who(self.lanes, row, warp * WARP)})"

    def _actor(self, who_: Actors, at: tuple[int, ...]) -> tuple[int, int]:
        shape = who_.granule.shape
        row, warp = (int(np.broadcast_to(each, shape)[at]) for each in (who_.row, who_.warp))
        return row, warp

    def _where(self, site: CodeSite) -> str:
        return self.ctx.where(site.instr)
