"""Find races and uninitialized reads by recording the accesses to each granule.

For every granule of shared memory the watcher keeps the warp that last wrote it, the
warp (or "several") that read it, and the warp that used an atomic on it, all since the
block's last barrier. Two warps that access a granule without a barrier between, at least one of
them writing, race; so do lanes of one warp if nothing between orders them. Races between blocks are
not found. As long as there are no writes, loads are only noted: they are checked if a write follows
before the next barrier, and cannot conflict otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ptxemu.faults.words import first_lane, triple, who
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import CodeSite, Context
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.spaces import Reach, same_rows
from ptxemu.state.values import Array, Bools

# Races between lanes of one warp: a lane must not use another's store without a __syncwarp(). Lanes
# run in lock step here, but not on a chip since compute capability 7, and ptxas considers each lane
# alone: it moves a lane's load over that lane's own store to another address, even if a neighbour
# waits for just that store. A warp is ordered by a barrier, ``__syncwarp()``, a fence, or any
# instruction that the lanes run together (shuffles, votes, matrix products). By the manual some of
# these order less, but none of them is reported.

_TOGETHER = frozenset((
    "shfl", "vote", "match", "redux", "elect", "mma", "wmma", "ldmatrix", "stmatrix", "movmatrix",
    "bar", "barrier", "membar", "fence",
))  # fmt: skip
#: Accesses that are ordered, or part of an ordered operation.
_STRONG = frozenset(("volatile", "relaxed", "acquire", "release", "mmio", "cp", *_TOGETHER))
#: A mark is an epoch, a warp, how far its order is `kept`, and a lane; 32 stands for several.
_LANES, _SEVERAL_LANES, _TURN = 64, WARP, 3 * 64
_MASKS = 512  # the most whose addresses are remembered
_LOADS = 512  # the most that are noted together
#: Number of an access -> the fault and its hint; a note has none.
_Words = Callable[[int], tuple[str, str]]
#: A load, by the parts that decide its addresses: instruction, base, lowest address and mask.
_Key = tuple[int, int, int, int]


def orders_warp(instr: Instr) -> bool:
    """Test whether an instruction orders a warp's accesses before and after it."""
    return instr.op in _TOGETHER


def stores_fragment(instr: Instr) -> bool:
    """Test whether a warp stores a matrix, which unordered lanes must not read."""
    return instr.op == "stmatrix" or (instr.op == "wmma" and "store" in instr.parts)


def kept(instr: Instr) -> int:
    """Where compilers keep an access: 2 beside all others of its warp, 1 beside such, 0 nowhere."""
    return 2 if stores_fragment(instr) else int("volatile" in instr.parts)


def is_weak(instr: Instr) -> bool:
    """True for a plain access: the compiler may assume that no other lane depends on it."""
    return _STRONG.isdisjoint(instr.parts)


class _Granules(NamedTuple):
    """One granule of every lane of an access, one entry per lane."""

    site: CodeSite
    rows: Array  # row of the followed memory
    at: Array  # granule
    threads: Array
    me: Array  # warp, from 1 on


class Mates:
    """The last lanes of a warp that wrote and read each granule since the warp was last ordered."""

    def __init__(self, warps: int, shape: tuple[int, int]) -> None:
        self.epoch = np.ones((shape[0], warps), np.int64)
        self.writer = np.zeros(shape, np.int64)
        self.reader = np.zeros(shape, np.int64)

    def _marks(self, granules: _Granules) -> Array:
        warp = granules.threads // WARP
        epoch = self.epoch[granules.rows, warp]
        mark = (epoch * WARP + warp) * _TURN + kept(granules.site.instr) * _LANES
        return np.asarray(mark + granules.threads % WARP)

    def met(self, granules: _Granules, *, store: bool) -> Iterator[tuple[Array, bool]]:
        """Yield marks of other lanes of its warp that an access meets, else 0; are both `kept`?"""
        mine = self._marks(granules)
        for marks in (self.writer, self.reader) if store else (self.writer,):
            known = marks[granules.rows, granules.at]
            clash = (known // _TURN == mine // _TURN) & ((known - mine) % _LANES != 0)
            # If several lanes wrote at once, each of them may read: they were meant to agree.
            if marks is self.writer:
                clash &= known % _LANES != _SEVERAL_LANES
            if clash.any():
                held = known // _LANES % 3 + kept(granules.site.instr) > 1
                yield np.where(clash & ~held, known, 0), False
                yield np.where(clash & held, known, 0), True

    def mark(self, granules: _Granules, *, store: bool) -> None:
        """Remember an access."""
        mine, rows, at = self._marks(granules), granules.rows, granules.at
        marks = self.writer if store else self.reader
        if not store:
            known = marks[rows, at]
            lane = np.where((known - mine) % _LANES == 0, mine % _LANES, _SEVERAL_LANES)
            both = np.minimum(known, mine) // _LANES * _LANES + lane
            mine = np.where(known // _TURN == mine // _TURN, both, mine)
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


class InFlight:
    """Granules that threads' own copies (``cp.async``) may still be writing.

    A copy is over when its thread has waited for its group.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._by: Array = np.zeros(shape, np.int32)  # the copying instruction, from 1 on; 0: none
        self._thread: Array = np.zeros(shape, np.int16)
        self._began = False

    def begin(self, rows: Array, at: Array, threads: Array, number: int) -> None:
        """Threads start copies."""
        self._by[rows, at], self._thread[rows, at] = number + 1, threads
        self._began = True

    def end(self, rows: Array, at: Array, threads: Array) -> None:
        """Threads have waited for their copies."""
        mine = self._thread[rows, at] == threads
        self._by[rows[mine], at[mine]] = 0

    def met(self, rows: Array, at: Array) -> Bools | None:
        """True for granules that a copy may still be writing; None: there are none."""
        if not self._began:
            return None
        found = self._by[rows, at] != 0
        return found if found.any() else None

    def any(self) -> bool:
        """Test whether any copy is still in flight."""
        self._began = self._began and bool(self._by.any())
        return self._began

    def words(self, place: tuple[int, int], ctx: Context, sites: Sequence[CodeSite]) -> str:
        """The copy that writes a granule, and why it may still do so, in words."""
        thread = triple(int(self._thread[place]), ctx.rt.lanes.geometry.block)
        line = ctx.where(sites[int(self._by[place]) - 1].instr)
        return (
            f"which the copy of thread {thread} at {line} may still be writing: that thread has "
            "not waited for its group"
        )


#: The hint for a copy that is still in flight.
WAIT = (
    "First wait for the copy's group in the thread that started it (`__pipeline_wait_prior(0)`, or "
    "cp.async.wait_group 0), then put a __syncthreads() between that wait and the accesses."
)
_SEVERAL = 255  # a block has at most 32 warps


class _Doubt(NamedTuple):
    """Marks that lanes of a store met; it is a race if the store changes the value there.

    `at_once`: they met each other; it is a race if one of their values is lost.
    """

    rows: Array
    threads: Array
    site: CodeSite
    words: _Words  # of one of these lanes
    at_once: bool
    late: bool  # reported at the end of the batch


class _Marks:
    """The warp that last accessed each granule, and where in the code."""

    def __init__(self, shape: tuple[int, int], was: str) -> None:
        self.warp: Array = np.zeros(shape, np.uint8)
        self.site: Array = np.zeros(shape, np.int32)
        self.was = was


class SharedWatcher:
    """Follows the shared memory of one batch.

    As long as all of its blocks do the same (addresses and masks depend only on the thread), one
    block represents all.
    """

    def __init__(self, ctx: Context, lanes: Lanes, sites: Sequence[CodeSite], size: int) -> None:
        self.ctx, self.lanes, self.sites = ctx, lanes, sites
        widths = [site.width for site in sites if site.space in ("shared", "generic")]
        self.grain = min([4, *(width for width in widths if width)])
        self.number = {id(site): index for index, site in enumerate(sites)}
        # `volatile` does not order the lanes of a warp either, since compute capability 7.
        self.weak = {id(site) for site in sites if kept(site.instr) or is_weak(site.instr)}
        self.rows = 1
        shape = (1, -(-size // self.grain))
        self.written = np.zeros(shape, np.bool_)
        self.writer, self.reader = _Marks(shape, "written"), _Marks(shape, "read")
        self.atomic = _Marks(shape, "changed")
        self.mates, self.flights = Mates(lanes.W, shape), InFlight(shape)
        self.me = (np.arange(lanes.T) // WARP + 1).astype(np.uint8)
        #: Has there been a write since the last barrier of all, or is a copy in flight?
        self._busy = False
        #: Loads, and orderings of warps, from a time without writes: checked at the next write
        #: before the next barrier, and discarded otherwise.
        self._noted: list[tuple[CodeSite, Reach] | Mask] = []
        self._same: set[_Key] = set()
        #: Loads of written memory, with the objects that their keys refer to.
        self._defined: dict[_Key, Reach] = {}
        #: Doubts about the current store, until its values are known; None: conflicts are reported.
        self._doubts: list[_Doubt] | None = None
        #: Mask -> its lanes in one block if they are the same in all, else None.
        self._even: dict[Mask, Array | None] = {}
        #: Mask -> rows and threads of its lanes, among all blocks.
        self._lanes: dict[Mask, tuple[Array, Array]] = {}

    def _row(self, mask: Mask) -> Array | None:
        """The lanes of a mask in one block; None: they differ between blocks."""
        if mask not in self._even:
            if len(self._even) > _MASKS:
                self._even.clear()
            on = self.lanes.full(mask)
            self._even[mask] = on[0] if (on == on[:1]).all() else None
        return self._even[mask]

    def _entries(self, mask: Mask) -> tuple[Array, Array]:
        if mask not in self._lanes:
            if len(self._lanes) > _MASKS:
                self._lanes.clear()
            row, thread = np.nonzero(self.lanes.full(mask))
            self._lanes[mask] = row, thread
        return self._lanes[mask]

    def _spread(self) -> None:
        """Blocks no longer do the same: follow each."""
        self.rows = self.lanes.B
        for each in (self.writer, self.reader, self.atomic, self.mates, self.flights):
            for name, array in vars(each).items():
                if isinstance(array, np.ndarray):  # the first axis of all is blocks
                    setattr(each, name, np.repeat(array, self.rows, axis=0))
        self.written = np.repeat(self.written, self.rows, axis=0)

    def access(self, site: CodeSite, reach: Reach, kind: str) -> None:
        """Check one access of all lanes of the mask, then remember it.

        `plain`: a store whose changes will be passed to `settle`.
        """
        self._doubts = [] if kind == "plain" else None
        if kind == "load" and not self._busy:
            self._note(site, reach)
            return
        if kind != "load":
            self._catch_up()
            self._busy = True
        for granules in self._granules(site, reach):
            if kind == "landed":
                self._landed(granules)
                continue
            verb = {"load": "reads", "atomic": "changes"}.get(kind, "writes")
            self._meet_copies(granules, verb)
            if kind == "load":
                self._load(granules)
            else:
                self._store(granules, verb)
            if kind == "copy":
                number = self.number[id(site)]
                self.flights.begin(granules.rows, granules.at, granules.threads, number)

    def settle(self, changed: Array, lost: Array) -> None:
        """Report the marks that the store met, if they make a difference.

        That is if lanes stored another value than was there, or others overwrote theirs. Raises
        Fault: it does.
        """
        for doubt in self._doubts or ():
            told = np.broadcast_to(lost if doubt.at_once else changed, self.lanes.shape)
            told = np.asarray(told.any(axis=0, keepdims=True)) if self.rows == 1 else told
            found = np.flatnonzero(told[doubt.rows, doubt.threads])
            if len(found):
                self._tell(doubt.site, doubt.words, int(found[0]), late=doubt.late)

    def _tell(self, site: CodeSite, words: _Words, index: int, *, late: bool) -> None:
        ctx = self.ctx
        if (ctx.rt.found is None and not late) or not ctx.told(site.instr, "race"):
            what, hint = words(index)
            if hint:
                ctx.tell(site.instr, "race", what, hint, late=late)
            else:
                ctx.rt.apart.setdefault(ctx.where(site.instr), what)

    def _found(
        self, granules: _Granules, clash: Array, words: _Words, *,
        same: bool, at_once: bool = False, late: bool = False,
    ) -> None:  # fmt: skip
        """Report a race, or keep it until it is known whether a store changes anything.

        `words` describe one granule, by its number. `same`: it is not a race if the store leaves
        the old value; `at_once` and `late` are as in `_Doubt`.
        """
        where = np.flatnonzero(clash)
        if self._doubts is None or not same:
            self._tell(granules.site, words, int(where[0]), late=late)
            return
        rows, threads = granules.rows[where], granules.threads[where]
        later: _Words = lambda index: words(int(where[index]))  # noqa: E731
        self._doubts.append(_Doubt(rows, threads, granules.site, later, at_once, late))

    def _granules(self, site: CodeSite, reach: Reach) -> Iterator[_Granules]:
        lanes, address = self.lanes, reach.pattern.rel
        if self.rows == 1 and lanes.B > 1:
            row = self._row(reach.mask) if same_rows(reach.base) else None
            if row is None:
                self._spread()
            else:
                threads = np.nonzero(row)[0]
                rows = np.zeros_like(threads)
                start = np.broadcast_to(address[:1], (1, lanes.T))[0, threads]
        if self.rows == lanes.B:
            rows, threads = self._entries(reach.mask)
            start = np.broadcast_to(address, lanes.shape)[rows, threads]
        start = (start + reach.low) // self.grain
        me = self.me[threads]
        for number in range(max(site.width // self.grain, 1)):
            yield _Granules(site, rows, start + number, threads, me)

    def _note(self, site: CodeSite, reach: Reach) -> None:
        """A load while no thread writes: it can only meet unwritten memory."""
        key = id(site), id(reach.base), reach.low, id(reach.mask)
        if key not in self._defined:
            for granules in self._granules(site, reach):
                self._check_defined(granules)
            if len(self._defined) >= _LOADS:
                self._defined.clear()
            self._defined[key] = reach
        if key not in self._same:
            if len(self._noted) >= _LOADS:
                self._catch_up()
            self._same.add(key)
            self._noted.append((site, reach))

    def _catch_up(self) -> None:
        """Remember the loads that were noted, since there is a write now."""
        noted, self._noted = self._noted, []
        self._same.clear()
        self._busy = self._busy or bool(noted)
        for each in noted:
            if isinstance(each, Mask):
                self._order(each)
            else:
                for granules in self._granules(*each):
                    self._load(granules)

    def _meet_copies(self, granules: _Granules, verb: str) -> None:
        """Raise a fault if a copy without a wait may still be writing."""
        found = self.flights.met(granules.rows, granules.at)
        if found is not None:
            index = int(np.argmax(found))
            place = int(granules.rows[index]), int(granules.at[index])
            lane, what = self._found_at(granules, index)
            words = self.flights.words(place, self.ctx, self.sites)
            self.ctx.tell(
                granules.site.instr, "async-copy",
                f"shared-memory race: {lane} {verb} {what}, {words}", WAIT,
            )  # fmt: skip

    def _landed(self, granules: _Granules) -> None:
        """Threads have waited for their copies: from now on these are as their stores."""
        site, rows, at, threads, me = granules
        self.flights.end(rows, at, threads)
        self.writer.warp[rows, at] = me
        self.writer.site[rows, at] = self.number[id(site)]

    def _load(self, granules: _Granules) -> None:
        _, rows, at, _, me = granules
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

    def _store(self, granules: _Granules, verb: str) -> None:
        _, rows, at, _, me = granules
        plain = verb == "writes"
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
            self._meet(granules, self.writer, verb, at_once=True)
        elif (target.warp[rows, at] != me).any():
            target.warp[rows, at] = _SEVERAL

    def _found_at(self, granules: _Granules, index: int) -> tuple[str, str]:
        """The thread that makes an access, and the element, in words."""
        lane = who(self.lanes, int(granules.rows[index]), int(granules.threads[index]))
        place = self.ctx.variable_at("shared", int(granules.at[index]) * self.grain)
        return lane, place

    def _meet(
        self, granules: _Granules, marks: _Marks, verb: str, *, at_once: bool = False
    ) -> None:
        """Raise if another warp has left its mark since the last barrier."""
        _, rows, at, _, me = granules
        known = marks.warp[rows, at]
        clash = (known != 0) & (known != me)
        if not clash.any():
            return

        sites = marks.site[rows, at].copy()

        def words(index: int) -> tuple[str, str]:
            other, warp = self.sites[int(sites[index])], int(known[index])
            lane, what = self._found_at(granules, index)
            return (
                f"shared-memory race: {lane} {verb} {what}, which was {marks.was} by "
                f"{'several warps' if warp == _SEVERAL else f'warp {warp - 1}'} at "
                f"{self.ctx.where(other.instr)} without a barrier between",
                "Put a __syncthreads() between the two accesses, or use an atomic.",
            )

        self._found(granules, clash, words, same=marks is self.writer, at_once=at_once)

    def _meet_mates(self, granules: _Granules, verb: str) -> None:
        """Raise if another lane of the warp has left its mark since the warp was ordered."""
        if id(granules.site) not in self.weak:
            return
        for marks, held in self.mates.met(granules, store=verb == "writes"):
            if marks.any():
                self._tell_mates(granules, marks, verb, held=held)
        self.mates.mark(granules, store=verb == "writes")

    def _tell_mates(self, granules: _Granules, marks: Array, verb: str, *, held: bool) -> None:
        _, rows, at, _, _ = granules
        written = self.mates.writer[rows, at] == marks
        noted = self.writer.site[rows, at], self.reader.site[rows, at]

        def words(index: int) -> tuple[str, str]:
            other = self.sites[int(noted[0 if written[index] else 1][index])]
            was, where = "written" if written[index] else "read", self.ctx.where(other.instr)
            if held:
                return f"a lane {verb} what another lane of its warp has {was} at {where}", ""
            lane, what = self._found_at(granules, index)
            return (
                f"shared-memory race in a warp: {lane} {verb} {what}, which was "
                f"{was} by {self.mates.who(int(marks[index]))} of its "
                f"warp at {where} without a __syncwarp() between",
                "The lanes of a warp need not run together, and the compiler moves a lane's loads "
                "over its own stores: put a __syncwarp() or __syncthreads() between the two "
                "accesses.",
            )

        # Reported at the end of the batch: races between warps are reported first, since whatever
        # orders warps orders lanes as well, but not the other way round.
        same = bool(written[marks != 0].all())
        self._found(granules, marks != 0, words, same=same, late=True)

    def _check_defined(self, granules: _Granules) -> None:
        """Note reads of unwritten memory: they are faults if they change the result."""
        site, rows, at, _, _ = granules
        unset = ~self.written[rows, at]
        if not unset.any():
            return
        self.written[rows, at] = True  # reported once
        rt, line = self.ctx.rt, site.instr.ptx_line
        if rt.undefined and (rt.found is None or line in rt.undefined):
            return
        index = int(np.argmax(unset))
        row, where = int(rows[index]), self.ctx.where(site.instr)
        lane, place = self._found_at(granules, index)
        for branch, mask in rt.left:
            if count := int(self.lanes.full(mask)[row].sum()):
                rt.undefined[line] = self.ctx.fault(
                    branch, "uninitialized",
                    f"uninitialized shared memory: {count} threads of "
                    f"the block have returned here, and at {where} {lane} reads {place}, which no "
                    "thread of its block has written",
                    "Let all threads of a block load their part of the tile and reach its "
                    "barriers: guard the last store instead of returning early.",
                )  # fmt: skip
                return
        rt.undefined[line] = self.ctx.fault(
            site.instr, "uninitialized",
            f"uninitialized shared memory: {lane} reads {place}, which no thread of its "
            "block has written",
            "Shared memory is undefined when a block starts: write it before it is read.",
        )  # fmt: skip

    def barrier(self, mask: Mask) -> None:
        """Forget the accesses of the blocks that have passed a barrier."""
        blocks: Array | slice = slice(None)
        if mask.arr is not None:
            passed: Bools = np.asarray(mask.arr.any(axis=1))
            if not passed.all():
                blocks = passed
                self._catch_up()
                if self.rows == 1:
                    self._spread()
        if isinstance(blocks, slice):
            self._noted.clear()
            self._same.clear()
            if not self._busy:
                return
            self._busy = self.flights.any()
        for marks in (self.writer, self.reader, self.atomic):
            marks.warp[blocks] = 0
        self.mates.epoch[blocks] += 1

    def warp_barrier(self, mask: Mask) -> None:
        """A warp's own barrier orders its lanes, but not warps."""
        if self._noted:
            self._same.clear()
            self._noted.append(mask)
        else:
            self._order(mask)

    def _order(self, mask: Mask) -> None:
        lanes = self.lanes
        if mask.arr is None:
            self.mates.epoch += 1
            return
        row = self._row(mask) if self.rows == 1 else None
        if self.rows < lanes.B and row is None:
            self._spread()
        on = mask.arr if row is None else row
        self.mates.epoch += on.reshape(self.rows, lanes.W, WARP).any(axis=2)


def check_written(ctx: Context, site: CodeSite, bad: Array, address: Array) -> None:
    """Note a global load by lanes, `bad`, of unwritten memory.

    The error waits until the batch has ended, so that its consequences (an endless wait, a wild
    address) are reported first.
    """
    if ctx.told(site.instr, "uninitialized"):
        return
    lanes = ctx.rt.lanes
    row, thread = first_lane(lanes, bad)
    place = ctx.rt.arena.name_at(int(np.broadcast_to(address, lanes.shape)[row, thread]))
    ctx.tell(
        site.instr, "uninitialized",
        f"uninitialized memory: {who(lanes, row, thread)} reads {place}, which nothing has written",
        "Outputs and scratch buffers are undefined when a kernel starts: write them before they "
        "are read.", late=True,
    )  # fmt: skip
