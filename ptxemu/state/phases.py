"""An mbarrier's 64-bit word: arrivals and bytes that its phase waits for, and its parity.

NVIDIA leaves the word opaque; ours holds, from the lowest bit on, 20 bits of arrivals that
are pending, 20 bits of arrivals that every phase expects, 22 bits of the transaction count
above its middle, a bit that says that this is an mbarrier at all, and the phase's parity.
All functions take and give arrays of such words, one for each barrier.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: The largest number of arrivals of a phase; transaction counts reach as far both ways.
MOST = (1 << 20) - 1
_TX, _MARK, _PARITY = 40, 62, 63
_TX_MASK, _MIDDLE = (1 << 22) - 1, 1 << 21
#: Bytes of an mbarrier, and what its address must be a multiple of.
BYTES = 8


class Phase(NamedTuple):
    """Words taken apart: `pending` and `expected` arrivals, `bytes` still to come, `parity`."""

    pending: Ints
    expected: Ints
    bytes: Ints
    parity: Ints

    @property
    def complete(self) -> Bools:
        """Which phases wait for nothing more."""
        result: Bools = (self.pending == 0) & (self.bytes == 0)
        return result

    def words(self) -> Words:
        """The words again."""
        whole: Ints = self.pending | self.expected << 20 | (self.bytes + _MIDDLE) << _TX
        signs = self.parity.astype(np.uint64) << np.uint64(_PARITY)
        return whole.astype(np.uint64) | np.uint64(1 << _MARK) | signs


def phase_of(words: Words) -> Phase:
    """Words taken apart."""
    low = (words & np.uint64((1 << _MARK) - 1)).astype(np.int64)
    return Phase(
        low & MOST,
        low >> 20 & MOST,
        (low >> _TX & _TX_MASK) - _MIDDLE,
        parity_of(words),
    )


def parity_of(words: Words) -> Ints:
    """The parity of the phase that each barrier is in."""
    result: Ints = (words >> np.uint64(_PARITY)).astype(np.int64)
    return result


def is_barrier(words: Words) -> Bools:
    """Which words are mbarriers: initialized, and not invalidated since."""
    marked: Bools = (words >> np.uint64(_MARK) & np.uint64(1)).astype(np.bool_)
    return marked


def fresh(counts: Ints) -> Words:
    """Barriers in their first phase, which waits for so many arrivals."""
    zero = np.zeros_like(counts)
    return Phase(counts, counts, zero, zero).words()


class AfterArrivals(NamedTuple):
    """Barriers after something has happened to them.

    Attributes:
        words: Their words.
        completed: How many phases of each came to an end.
        beyond: Barriers at which more arrived than the phase expects.
        overflow: Barriers whose transaction count left its range.
    """

    words: Words
    completed: Ints
    beyond: Bools
    overflow: Bools


def step(words: Words, arrivals: Ints, bytes_: Ints, drops: Ints | None = None) -> AfterArrivals:
    """Arrive at barriers, and move their transaction counts, in one.

    Args:
        words: The barriers.
        arrivals: How many arrive at each.
        bytes_: What is added to the bytes that each waits for; negative where bytes came.
        drops: Arrivals that later phases are not to expect any more.
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
        # A phase that nothing has touched is not over: its arrivals are still to come.
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
