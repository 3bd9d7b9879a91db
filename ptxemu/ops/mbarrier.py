"""``mbarrier``: barriers in shared memory that count arrivals and bytes.

A wait ends a block of the control flow: lanes whose phase is not over are parked until it is, or
until nothing else can run; then a wait gives up, as at its time limit on the chip.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.errors import Fault
from ptxemu.faults.words import first_lane, who
from ptxemu.ops.cluster import Fetch, Spots, lanes_of, shared_operand
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import CodeSite, Context, Registers, Run
from ptxemu.state.lanes import WARP, Mask
from ptxemu.state.values import UNSIGNED, Array, Bools, Ints

# --- An mbarrier's 64-bit word: its phase's pending arrivals and bytes, and its parity ---
# NVIDIA leaves the word opaque; ours holds, from the lowest bit up, 20 bits of pending arrivals, 20
# bits of arrivals that every phase expects, 22 bits of the transaction count above its middle, a
# bit that marks the word as an mbarrier, and the phase's parity. All functions take and return
# arrays of such words, one for each barrier.

Words = NDArray[np.uint64]

#: The largest number of arrivals in a phase; transaction counts reach as far both ways.
MOST = (1 << 20) - 1
_TX, _MARK, _PARITY = 40, 62, 63
_TX_MASK, _MIDDLE = (1 << 22) - 1, 1 << 21
#: Bytes of an mbarrier, and the alignment of its address.
BYTES = 8


class Phase(NamedTuple):
    """Words taken apart: `pending` and `expected` arrivals, `bytes` still to come, `parity`."""

    pending: Ints
    expected: Ints
    bytes: Ints
    parity: Ints

    @property
    def complete(self) -> Bools:
        """True for phases that are complete."""
        result: Bools = (self.pending == 0) & (self.bytes == 0)
        return result

    def words(self) -> Words:
        """Combine the parts into words."""
        whole: Ints = self.pending | self.expected << 20 | (self.bytes + _MIDDLE) << _TX
        signs = self.parity.astype(np.uint64) << np.uint64(_PARITY)
        return whole.astype(np.uint64) | np.uint64(1 << _MARK) | signs


def phase_of(words: Words) -> Phase:
    """Words taken apart."""
    low = (words & np.uint64((1 << _MARK) - 1)).astype(np.int64)
    return Phase(low & MOST, low >> 20 & MOST, (low >> _TX & _TX_MASK) - _MIDDLE, parity_of(words))


def parity_of(words: Words) -> Ints:
    """The parity of each barrier's current phase."""
    result: Ints = (words >> np.uint64(_PARITY)).astype(np.int64)
    return result


def is_barrier(words: Words) -> Bools:
    """True for words that are mbarriers: initialized, and not invalidated since."""
    marked: Bools = (words >> np.uint64(_MARK) & np.uint64(1)).astype(np.bool_)
    return marked


def fresh(counts: Ints) -> Words:
    """Barriers in their first phase, which expects the given number of arrivals."""
    zero = np.zeros_like(counts)
    return Phase(counts, counts, zero, zero).words()


class AfterArrivals(NamedTuple):
    """Barriers after something has happened to them."""

    words: Words  # their words
    completed: Ints  # how many phases of each ended
    beyond: Bools  # barriers at which more arrived than the phase expects
    overflow: Bools  # barriers whose transaction count left its range


def step(words: Words, arrivals: Ints, bytes_: Ints, drops: Ints | None = None) -> AfterArrivals:
    """Arrive at barriers, and change their transaction counts, in one step.

    `bytes_` are added to those that each waits for: negative if bytes arrived. Later phases no
    longer expect the arrivals `drops`.
    """
    pending, expected, waited, parity = phase_of(words)
    expected = expected - (0 if drops is None else drops)
    waited = waited + bytes_
    completed = np.zeros_like(arrivals)
    left = arrivals.copy()
    while True:
        taken = np.minimum(left, pending)
        pending, left = pending - taken, left - taken
        done = (pending == 0) & (waited == 0)
        # A phase without any event is not over: its arrivals are still to come.
        done &= (taken > 0) | (completed == 0)
        if not done.any():
            break
        completed += done
        parity ^= done
        pending = np.where(done, expected, pending)
        if not (left & -done.astype(np.int64)).any():
            break
    overflow = np.abs(waited) > MOST
    after = Phase(pending, expected, np.clip(waited, -MOST, MOST), parity)
    return AfterArrivals(after.words(), completed, left > 0, overflow)


_U64 = UNSIGNED[8]


class Change(NamedTuple):
    """Changes that an instruction makes to barriers, one entry per spot."""

    arrivals: Array
    bytes: Array
    drops: Array | None = None


def barrier_operand(instr: Instr, ctx: Context, place: int) -> Fetch:
    """The spots of an instruction's mbarrier operand."""
    return shared_operand(instr, ctx, instr.operands[place], BYTES, BYTES)


def words_of(ctx: Context) -> Array:
    """Shared memory of the batch as 64-bit words."""
    return ctx.rt.memory("shared", _U64)


def keys_of(ctx: Context, spots: Spots) -> Ints:
    """The indices of the spots' barriers in `words_of`."""
    keys: Ints = spots.owner * (ctx.rt.shared_bytes // BYTES) + spots.address // BYTES
    return keys


def change(instr: Instr, ctx: Context, spots: Spots, by: Change) -> None:
    """Arrive at the barriers of spots and change their transaction counts.

    Raises:
        Fault: a barrier that was never initialized, or one that more threads arrive
            at, or more bytes come to, than it can count.
    """
    memory, keys = words_of(ctx), keys_of(ctx, spots)
    unique, first, group = np.unique(keys, return_index=True, return_inverse=True)
    check_barriers(instr, ctx, spots)

    def total(values: Array) -> Ints:
        return np.bincount(group, values, len(unique)).astype(np.int64)

    drops = None if by.drops is None else total(by.drops)
    after = step(memory[unique], total(by.arrivals), total(by.bytes), drops)
    if after.beyond.any():
        # Copies in flight may have completed by now, which may end their phases.
        ctx.rt.flights.land(unique)
        after = step(memory[unique], total(by.arrivals), total(by.bytes), drops)
    bad = after.beyond | after.overflow
    if bad.any():
        at = int(np.argmax(bad))
        what = "more arrivals than it was initialized for" if after.beyond[at] else (
            f"its transaction count exceeds ±{MOST:,} bytes"
        )  # fmt: skip
        raise _at_barrier(instr, ctx, spots, int(first[at]), what, (
            "Compare the count of mbarrier.init with the arrivals of one phase, and the bytes "
            "of expect_tx with those that are copied."
        ))  # fmt: skip
    if after.completed.any() and len(unique) < len(keys):
        _check_together(instr, ctx, spots, Together(keys, by.arrivals, memory[keys]))
    memory[unique] = after.words
    if ctx.rt.order is not None:
        ctx.rt.order.phases(unique, after.completed)


class Together(NamedTuple):
    """Arrivals of several lanes, one entry per spot: place, number, and the word before."""

    keys: Ints
    arrivals: Array
    words: Array


def _check_together(instr: Instr, ctx: Context, spots: Spots, by: Together) -> None:
    """Raise if lanes of one warp arrive together past the end of a phase.

    An H200 stops ("unspecified launch failure"): the lanes' arrivals are one, of more than is still
    expected. Warps follow each other in unknown order: here in thread order.
    """
    order = np.lexsort((spots.thread, by.keys))
    pending, expected, _, _ = phase_of(by.words)
    key, warp, left = -1, -1, 0
    for at in order.tolist():
        if by.keys[at] != key:
            key, warp, left = int(by.keys[at]), -1, int(pending[at])
        if left <= 0 and int(spots.thread[at]) // WARP != warp:
            left = int(expected[at])  # the next warp begins the next phase
        warp = int(spots.thread[at]) // WARP
        left -= int(by.arrivals[at])
        if left < 0:
            raise _at_barrier(
                instr, ctx, spots, at, "more lanes of a warp arrive together than its phase "
                f"still expects, {int(expected[at])} in all",
                "Let one lane of the warp arrive, or initialize the barrier for all of them.",
            )  # fmt: skip


def check_barriers(instr: Instr, ctx: Context, spots: Spots) -> None:
    """Raise if a spot is not an initialized mbarrier."""
    keys = keys_of(ctx, spots)
    known = is_barrier(words_of(ctx)[keys])
    if not known.all():
        raise _at_barrier(
            instr, ctx, spots, int(np.argmin(known)), "it has not been initialized",
            "One thread must call mbarrier.init, and a barrier must make it visible to the "
            "others.",
        )  # fmt: skip
    if ctx.rt.order is not None:
        ctx.rt.order.used(instr, spots, keys)


def _at_barrier(instr: Instr, ctx: Context, spots: Spots, at: int, what: str, hint: str) -> Fault:
    place = ctx.variable_at("shared", int(spots.address[at]))
    lane = spots.who(ctx.rt.lanes, at)
    return ctx.fault(instr, "other", f"mbarrier {place}: {what}: {lane}", hint)


def build(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """All of ``mbarrier`` except its waits; Fault: a form that capability 9.0 lacks."""
    what = instr.parts[1]
    if what == "init":
        return _init(instr, ctx, site)
    if what == "inval":
        find = barrier_operand(instr, ctx, 0)

        def invalidate(R: Registers, M: Mask) -> None:
            words_of(ctx)[keys_of(ctx, find(R, M))] = 0

        return invalidate
    if what == "pending_count":
        state = ctx.slot(instr.operands[1], 8)

        def pending(R: Registers, M: Mask) -> Array:
            lanes = ctx.rt.lanes
            words = lanes_of(R, state, 8, lanes.all, lanes).reshape(lanes.shape)
            return phase_of(words).pending.astype(UNSIGNED[4])

        return pending
    if what in ("expect_tx", "complete_tx"):
        return _transaction(instr, ctx)
    if what in ("arrive", "arrive_drop"):
        return _arrive(instr, ctx)
    raise ctx.unsupported(instr)


def _init(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    find, count = barrier_operand(instr, ctx, 0), ctx.slot(instr.operands[1], 4)

    def initialize(R: Registers, M: Mask) -> None:
        spots = find(R, M)
        counts = lanes_of(R, count, 4, M, ctx.rt.lanes).astype(np.int64)
        wrong = (counts < 1) | (counts > MOST)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise _at_barrier(
                instr, ctx, spots, at, f"initialized with a count of {int(counts[at])}",
                f"A phase waits for 1 to {MOST:,} arrivals.",
            )  # fmt: skip
        words_of(ctx)[keys_of(ctx, spots)] = fresh(counts)
        if ctx.rt.order is not None:
            ctx.rt.order.initialized(site, spots, keys_of(ctx, spots))

    return initialize


def _transaction(instr: Instr, ctx: Context) -> Run:
    find, bytes_ = barrier_operand(instr, ctx, 0), ctx.slot(instr.operands[1], 4)
    sign = 1 if instr.parts[1] == "expect_tx" else -1

    def move(R: Registers, M: Mask) -> None:
        spots = find(R, M)
        counts = lanes_of(R, bytes_, 4, M, ctx.rt.lanes).astype(np.int64)
        change(instr, ctx, spots, Change(np.zeros_like(counts), sign * counts))

    return move


def _arrive(instr: Instr, ctx: Context) -> Run:
    """Arrive, with a count or bytes to expect; return the word before, which is the state."""
    find = barrier_operand(instr, ctx, 1)
    number = ctx.slot(instr.operands[2], 4) if len(instr.operands) > 2 else -1
    expects, drops = "expect_tx" in instr.parts, instr.parts[1] == "arrive_drop"

    def arrive(R: Registers, M: Mask) -> Array:
        lanes, spots = ctx.rt.lanes, find(R, M)
        ones, zeros = np.ones_like(spots.row), np.zeros_like(spots.row)
        given = lanes_of(R, number, 4, M, lanes).astype(np.int64) if number >= 0 else ones
        arrivals, bytes_ = (ones, given) if expects else (given, zeros)
        before = np.zeros(lanes.shape, _U64)
        before[spots.row, spots.thread] = words_of(ctx)[keys_of(ctx, spots)]
        if ctx.rt.order is not None:
            ctx.rt.order.arrived(spots, keys_of(ctx, spots))
        change(instr, ctx, spots, Change(arrivals, bytes_, arrivals if drops else None))
        return before

    return arrive


def arrive_with_copies(instr: Instr, ctx: Context) -> Run:
    """``cp.async.mbarrier.arrive``: an arrival when the thread's ``cp.async`` are complete.

    They complete at once. Without ``.noinc`` the phase expects this arrival as an extra one.
    """
    find, counts = barrier_operand(instr, ctx, 0), "noinc" in instr.parts
    rt = ctx.rt

    def arrive(R: Registers, M: Mask) -> None:
        spots = find(R, M)
        rt.copies.wait_all(M)
        if rt.order is not None:
            rt.order.arrived(spots, keys_of(ctx, spots))
        arrivals = np.full_like(spots.row, int(counts))
        change(instr, ctx, spots, Change(arrivals, np.zeros_like(arrivals)))

    return arrive


class _Asked(NamedTuple):
    """The phases that lanes wait for, in the shape of the batch."""

    keys: Ints
    address: Ints
    parity: Ints


class PhaseWait:
    """``mbarrier.test_wait`` and ``try_wait``."""

    timed = True

    def __init__(self, instr: Instr, ctx: Context) -> None:
        self.instr, self.ctx = instr, ctx
        self.target = ctx.target(instr.operands[0])
        self._find = barrier_operand(instr, ctx, 1)
        self._by_parity = "parity" in instr.parts
        self._slot = ctx.slot(instr.operands[2], 4 if self._by_parity else 8)

    def ask(self, R: Registers, M: Mask) -> _Asked:
        """The phases for which the lanes of a mask wait."""
        ctx, lanes = self.ctx, self.ctx.rt.lanes
        spots = self._find(R, M)
        check_barriers(self.instr, ctx, spots)
        known = lanes_of(R, self._slot, 4 if self._by_parity else 8, M, lanes)
        parity = known.astype(np.int64) & 1 if self._by_parity else parity_of(known)
        out = _Asked(*(np.zeros(lanes.shape, np.int64) for _ in range(3)))
        for whole, part in zip(out, (keys_of(ctx, spots), spots.address, parity), strict=True):
            whole[spots.row, spots.thread] = part
        return out

    def ready(self, asked: _Asked, M: Mask) -> Bools:
        """True for lanes whose phase is over; completes the copies for which they wait."""
        on = self.ctx.rt.lanes.full(M)
        keys = asked.keys[on]
        self.ctx.rt.flights.land(keys)
        done = np.zeros(on.shape, np.bool_)
        done[on] = parity_of(words_of(self.ctx)[keys]) != asked.parity[on]
        return done

    def passed(self, asked: _Asked, M: Mask) -> None:
        """The lanes of the mask now see everything done before the phase ended."""
        if self.ctx.rt.order is not None:
            row, thread = np.nonzero(self.ctx.rt.lanes.full(M))
            self.ctx.rt.order.passed(self.instr, row, thread, asked.keys[row, thread])

    def stuck(self, asked: _Asked, M: Mask) -> Fault:
        """The error if no lane can continue."""
        ctx, lanes = self.ctx, self.ctx.rt.lanes
        row, thread = first_lane(lanes, lanes.full(M))
        phase = phase_of(words_of(ctx)[asked.keys[row : row + 1, thread]])
        place = ctx.variable_at("shared", int(asked.address[row, thread]))
        more = f" and {M.count - 1} more in this batch" if M.count > 1 else ""
        return ctx.fault(
            self.instr, "endless", f"mbarrier {place} never completes: "
            f"{who(lanes, row, thread)}{more} wait forever for its phase of parity "
            f"{int(asked.parity[row, thread])}, which lacks {int(phase.pending[0])} of "
            f"{int(phase.expected[0])} arrivals and {int(phase.bytes[0]):,} bytes",
            "Check the parity that is waited for, the count of mbarrier.init, and the bytes of "
            "expect_tx against those that are copied.",
        )  # fmt: skip
