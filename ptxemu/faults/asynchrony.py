"""Check work that is asynchronous to the threads: bulk copies, products, and their waits.

A copy into shared memory is a write by its mbarrier's phase. A copy out of it, and a product, read
until a wait for the group in which they are committed. A product owns its sums until then, and a
``wgmma.fence`` must precede it after threads access them. Vector clocks (`clocks`) record each
agent's knowledge of the others' work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import proxy

import numpy as np
from numpy.typing import NDArray

from ptxemu.errors import Kind
from ptxemu.faults.clocks import Clocks, Ints
from ptxemu.faults.watching import WAIT, InFlight
from ptxemu.faults.words import who
from ptxemu.ops.cluster import Spots, owner_of
from ptxemu.ops.copies import Shared
from ptxemu.ops.mbarrier import BYTES
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import CodeSite, Context
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.spaces import Reach
from ptxemu.state.values import Bools

# --- Races in shared memory where mbarriers, bulk copies and asynchronous products order work ---
# For every granule of shared memory the watcher keeps which agent (`clocks`) wrote it in which of
# its steps, and in which step each agent last read it. An agent that accesses a granule must know
# that those steps are over. A proxy fence must also follow plain stores before a copy or a product
# reads their data. Threads of one warp count as one.

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
    """Accesses, one entry each: the warp, and the granules of a block's memory.

    `row` and `warp` have one axis less than `granule`, or one entry for each of it; `owner`
    is the block whose memory it is.
    """

    row: Ints
    warp: Ints
    owner: Ints
    granule: Ints


class OrderWatcher:
    """Follows the shared memory of one batch; an `AccessWatcher` that handles asynchrony."""

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
        self.flights = InFlight(shape)
        #: Mbarrier -> the warp that initialized it, in which of its steps, and the instruction.
        self._begun: dict[int, tuple[int, int, Instr]] = {}
        #: For each warp: the wait that it passed last, and how many phases had ended by then.
        self._waits: list[Instr] = []
        self._last = np.full((lanes.B, lanes.W), -1, np.int32)
        self._ended = np.zeros((lanes.B, lanes.W), np.int32)
        self._waited = np.zeros((lanes.B, lanes.W), np.int32)  # the mbarrier's agent

    # --- plain accesses

    def settle(self, changed: Bools, lost: Bools) -> None:
        """Two agents that store the same value race here as well."""

    def access(self, site: CodeSite, reach: Reach, kind: str) -> None:
        """Check one access of all lanes of the mask, then remember it."""
        lanes = self.lanes
        row, thread = np.nonzero(lanes.full(reach.mask))
        address = np.broadcast_to(reach.pattern.rel + reach.low, lanes.shape)[row, thread]
        owner, local = owner_of(lanes, row, address)
        for number in range(max(site.width // self.grain, 1)):
            touched = Actors(row, thread // WARP, owner, local // self.grain + number)
            if kind == "landed":
                self._landed(site, touched, thread)
            elif kind == "load":
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
                # A thread's own cp.async needs no proxy fence: compilers put none after it.
                how = _ATOMIC if atomic else _THREAD_COPY if kind == "copy" else _PLAIN
                self.mark_write(site, touched, (agent, step), how)
                if not atomic:
                    # Two warps that write one word in the same instruction: the later one is kept.
                    self.check_write(site, touched, verb, atomic=False)
                if kind == "copy":
                    number = self.number[id(site)]
                    self.flights.begin(touched.owner, touched.granule, thread, number)

    def _landed(self, site: CodeSite, touched: Actors, thread: Ints) -> None:
        """Threads have waited for their copies, which count as their stores from now on."""
        self.flights.end(touched.owner, touched.granule, thread)
        agent = self.clocks.own[touched.row, touched.warp]
        step = self.clocks.known[touched.row, touched.warp, agent]
        self.mark_write(site, touched, (agent, step), _THREAD_COPY)

    def _check_copies(self, site: CodeSite, who_: Actors, verb: str) -> None:
        """Raise if a thread's copy that it has not waited for may still be writing."""
        owner = np.broadcast_to(who_.owner, who_.granule.shape)
        found = self.flights.met(owner, who_.granule)
        if found is not None:
            at = self._first(found)
            self.ctx.tell(
                site.instr, "async-copy", f"shared-memory race: {self._who(who_, at)} {verb} "
                f"{self._place(who_, at)}, "
                f"{self.flights.words(self._of(who_, at), self.ctx, self.sites)}",
                WAIT,
            )  # fmt: skip

    def barrier(self, mask: Mask) -> None:
        """The lanes of the mask have waited for each other, block by block."""
        self.clocks.meet(mask)

    def warp_barrier(self, mask: Mask) -> None:
        """Do nothing: a warp's own barrier does not order warps."""

    # --- mbarriers

    def _split(self, keys: Ints) -> tuple[Ints, Ints]:
        each = self.ctx.rt.shared_bytes // BYTES
        return keys // each, keys % each * BYTES

    def initialized(self, site: CodeSite, spots: Spots, keys: Ints) -> None:
        """Mbarriers begin their first phase: other warps must know this before they use them."""
        warp = spots.thread // WARP
        agent = self.clocks.own[spots.row, warp]
        step = self.clocks.known[spots.row, warp, agent]
        for number, key in enumerate(keys.tolist()):
            self._begun[key] = int(agent[number]), int(step[number]), site.instr

    def used(self, instr: Instr, spots: Spots, keys: Ints) -> None:
        """Raise if lanes use mbarriers whose initialization they cannot know about."""
        for key in np.unique(keys).tolist():
            begun = self._begun.get(key)
            if begun is None:
                continue
            agent, step, init = begun
            mine = np.nonzero(keys == key)[0]
            row, warp = spots.row[mine], spots.thread[mine] // WARP
            late = (self.clocks.own[row, warp] != agent) & (
                self.clocks.known[row, warp, agent] < step
            )
            if late.any():
                at = int(mine[int(np.argmax(late))])
                place = self.ctx.variable_at("shared", int(spots.address[at]))
                lane = spots.who(self.lanes, at)
                self.ctx.tell(
                    instr, "barrier", f"mbarrier {place}: {lane} uses it without a barrier "
                    f"after its initialization by warp {agent % self.clocks.each} at "
                    f"{self.ctx.where(init)}",
                    "Put a __syncthreads() (of a cluster: its barrier) between the initialization "
                    "and all that uses the mbarrier.",
                )  # fmt: skip

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

    def _blame_wait(self, row: int, warp: int, *, writer: int, step: int, what: str) -> bool:
        """Report the last wait of a warp if it ended too early, because of the wrong parity.

        That is so if it was for the copy's mbarrier (or, `writer` -1, for any) and the last phase
        that had ended was the one before the copy's phase (or there was none).
        """
        last, ended = int(self._last[row, warp]), int(self._ended[row, warp])
        right = writer < 0 or int(self._waited[row, warp]) == writer
        early = last >= 0 and right and ended == step - 1
        if early:
            self.ctx.tell(
                self._waits[last], "async-copy", f"wait with the wrong parity: it lets "
                f"{_warp(self.lanes, row, warp)} go on after {ended} phases of its mbarrier, and "
                f"{what}",
                "The first phase of an mbarrier has parity 0, the next 1, and so on: wait for the "
                "parity of the phase that the copies complete.",
            )  # fmt: skip
        return early

    # --- checks

    def check_read(
        self, site: CodeSite, who_: Actors, verb: str, *, defined: bool, proxy: bool = False
    ) -> None:
        """Raise if the granules read may still be written, or (proxy) lack a fence."""
        row, warp, owner, granule = who_
        self._check_copies(site, who_, verb)
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
                self.ctx.tell(
                    site.instr, "async-copy", f"missing proxy fence: {self._who(who_, at)} {verb} "
                    f"{self._place(who_, at)}, which ordinary stores at {other} wrote with no "
                    "fence.proxy.async since",
                    _HINTS["proxy"],
                )  # fmt: skip

    def check_write(self, site: CodeSite, who_: Actors, verb: str, *, atomic: bool) -> None:
        """Raise if the granules written may still be read or written by another agent."""
        row, warp, owner, granule = who_
        self._check_copies(site, who_, verb)
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
        """Remember in which of their steps agents read; None: in the warp's current step."""
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
            what = f"{self.ctx.where(site.instr)} then reads what nothing has written"
            if self._blame_wait(*self._actor(who_, at), writer=-1, step=1, what=what):
                return
            self.ctx.tell(
                site.instr, "uninitialized",
                f"uninitialized shared memory: {self._who(who_, at)} reads "
                f"{self._place(who_, at)}, which no thread of its block has written",
                "Shared memory is undefined when a block starts: write it before it is read.",
            )  # fmt: skip

    # --- words

    def _clash(
        self, site: CodeSite, who_: Actors, late: Bools, verb: str, *, written: bool,
        agent: int = -1,
    ) -> None:  # fmt: skip
        at = self._first(late)
        place = self._of(who_, at)
        other = self.sites[int((self._by if written else self._reader)[place])]
        agent = int(self._writer[place]) if written else agent
        lane, what = self._who(who_, at), self._place(who_, at)
        line = self.ctx.where(other.instr)
        offset = agent % self.clocks.each
        kind: Kind = "async-copy"
        if written and self._how[place] == _COPY:
            here = self.ctx.where(site.instr)
            then = f"{here} then {verb} what the copy at {line} may still be writing"
            row, warp = self._actor(who_, at)
            if self._blame_wait(row, warp, writer=agent, step=int(self._step[place]), what=then):
                return
            how = f"which the copy at {line} may still be writing: its mbarrier has not been "
            how, hint = f"{how}waited for", "copy"
        elif not written and offset >= self.lanes.W:
            how, hint = f"which {line} may still be reading", "reading"
        else:
            done = "written" if written else "read"
            how = f"which was {done} by warp {offset} at {line} without a barrier between"
            kind, hint = "race", "order"
        self.ctx.tell(
            site.instr, kind, f"shared-memory race: {lane} {verb} {what}, {how}", _HINTS[hint]
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
        return _warp(self.lanes, *self._actor(who_, at))

    def _actor(self, who_: Actors, at: tuple[int, ...]) -> tuple[int, int]:
        shape = who_.granule.shape
        row, warp = (int(np.broadcast_to(each, shape)[at]) for each in (who_.row, who_.warp))
        return row, warp


_GROUP = 4  # warps


class _Committed:
    """Groups of asynchronous work that warps have committed."""

    def __init__(self, lanes: Lanes, clocks: Clocks, agents: Ints) -> None:
        self._clocks, self.agents = clocks, agents
        self.groups = np.zeros((lanes.B, lanes.W), np.int32)
        self.done = np.zeros((lanes.B, lanes.W), np.int32)

    def commit(self, mask: Mask) -> None:
        """The warps in the mask close a group."""
        self.groups += self._clocks.warps_of(mask)

    def wait(self, mask: Mask, keep: int) -> None:
        """The warps in the mask have waited for all groups but the newest `keep`."""
        warps = self._clocks.warps_of(mask)
        over = np.maximum(self.groups - keep, self.done)
        self.done = np.where(warps, over, self.done)
        self._clocks.waited(warps, self.agents, over)


def _warp(lanes: Lanes, row: int, warp: int) -> str:
    return f"warp {warp} (from {who(lanes, row, warp * WARP)})"


def _one_of(lanes: Lanes, warps: NDArray[np.bool_]) -> str:
    """The first of these warps (blocks, warps), in words."""
    return _warp(lanes, *(int(axis[0]) for axis in np.nonzero(warps)))


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
        self._watcher: OrderWatcher = proxy(watcher)  # the watcher that it belongs to
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

    def writes(self, site: CodeSite, barriers: Spots, target: Shared) -> None:
        """Copies into shared memory start, which report to barriers."""
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

    def reads(self, site: CodeSite, spots: Spots, source: Shared) -> None:
        """Copies read shared memory; `spots` are those of the threads that start them."""
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

    def unread(self) -> None:
        """Report a copy without a wait, if all threads of the batch have ended.

        Another block gets a block's shared memory when its last thread ends.
        """
        for instr, newest in self._out.values():
            early = newest > self.done
            if early.any():
                self._watcher.ctx.tell(
                    instr, "async-copy", "block ended during its own copy: "
                    f"{_one_of(self._watcher.lanes, early)} has not waited for this bulk copy, "
                    "which may still be reading the shared memory of its block",
                    "Run cp.async.bulk.commit_group after it, and cp.async.bulk.wait_group.read 0 "
                    "in the same thread before it ends.", late=True,
                )  # fmt: skip


class ProductOrder(_Committed):
    """Asynchronous products of one batch, in shared memory and in registers."""

    def __init__(self, watcher: OrderWatcher) -> None:
        self._watcher: OrderWatcher = proxy(watcher)  # the watcher that it belongs to
        lanes, clocks = watcher.lanes, watcher.clocks
        super().__init__(lanes, clocks, _agents(lanes, clocks, products=True))
        self._ctx, self._lanes = watcher.ctx, lanes
        self._fences = np.zeros((lanes.B, lanes.W), np.int32)
        makers = watcher.ctx.makers.items()
        self._sums = {name for name, made in makers if any(each.op == "wgmma" for each in made)}
        #: Register -> the group of each warp's product into it, and the product.
        self._flying: dict[str, tuple[Ints, Instr]] = {}
        #: Register -> each warp's fences before another write to it, and that write.
        self._touched: dict[str, tuple[Ints, Instr]] = {}

    def issue(
        self, instr: Instr, site: CodeSite, mask: Mask,
        operands: Sequence[Sequence[tuple[Ints, Ints, Ints]]],
    ) -> None:  # fmt: skip
        """A product starts.

        `operands`: for each matrix in shared memory, blocks, warpgroups and the addresses that they
        read.
        """
        warps = self._clocks.warps_of(mask)
        self._check_fence(instr, warps)
        for parts in operands:
            for block, group, addresses in parts:
                self._reads(site, block, group, addresses)
        mine = np.where(warps, self.groups + 1, 0)
        for name in instr.writes:
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
        for name in instr.reads:
            found = self._touched.get(name)
            if found is not None:
                late = warps & (found[0] == self._fences)
                if late.any():
                    line = self._ctx.where(found[1])
                    self._missing(instr, late, f"none since {line} wrote its register {name}")

    def _missing(self, instr: Instr, warps: NDArray[np.bool_], why: str) -> None:
        who_ = _one_of(self._lanes, warps)
        self._ctx.tell(
            instr, "async-copy",
            f"missing wgmma.fence: {who_} starts a wgmma.mma_async with {why}",
            "Run wgmma.fence before the first wgmma.mma_async, and again after other instructions "
            "have written registers that it uses.",
        )  # fmt: skip

    def touches(self, instr: Instr, mask: Mask) -> None:
        """Another instruction reads or writes registers of sums."""
        warps = self._clocks.warps_of(mask)
        written = set(instr.writes)
        for name in {*instr.reads, *written}:
            found = self._flying.get(name)
            if found is not None:
                early = warps & (found[0] > self.done)
                if early.any():
                    verb = "writes" if name in written else "reads"
                    self._ctx.tell(
                        instr, "async-copy", f"accumulator used before its wait: "
                        f"{_one_of(self._lanes, early)} {verb} an accumulator of "
                        f"{self._ctx.where(found[1])}, whose wgmma group has not been waited for",
                        "Run wgmma.commit_group after wgmma.mma_async, and wgmma.wait_group before "
                        "its accumulators are used.",
                    )  # fmt: skip
        for name in written:
            self._written(name, instr, warps)

    def _written(self, name: str, instr: Instr, warps: NDArray[np.bool_]) -> None:
        """An instruction other than a product writes a register of sums."""
        sources = instr.reads if instr.op == "mov" else []
        if len(sources) == 1 and sources[0] in self._sums:
            # A copy inherits its source's state: the compiler may make it at any time.
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
        """The compiler may put a literal into a register later than the PTX does."""
        makers = self._ctx.makers
        return instr.op == "mov" and all(
            self._constant(each) for name in instr.reads for each in makers.get(name, [instr])
            if each is not instr
        )  # fmt: skip


class AsyncWatcher(OrderWatcher):
    """`OrderWatcher` with its copies and products."""

    def __init__(self, ctx: Context, lanes: Lanes, sites: Sequence[CodeSite], size: int) -> None:
        super().__init__(ctx, lanes, sites, size)
        self.bulk = BulkOrder(self)
        self.products = ProductOrder(self)


def is_asynchronous(instr: Instr) -> bool:
    """Test whether an instruction orders work, or leaves work to others, for `AsyncWatcher`."""
    return instr.op in ("mbarrier", "wgmma", "mapa") or "bulk" in instr.parts
