"""What a warp's ``cp.async`` costs, with and without the first-level cache. Pure functions.

Two ways lead from global to shared memory. Through the first-level cache, lanes share the
banks that they read and those that they write. Past it (``.cg``), what the second
level sends goes straight to shared memory, a sector of 32 bytes at a time into a sector of
the target, its halves exchanged or not:

* A sector is fetched for each sector of the target that its bytes go to, and again if
  they go there both ways.
* One wavefront carries bytes from one line of 128 bytes to one line. What it carries has in
  common whether halves are exchanged, whether the sectors of a pair of sectors are, and
  which halves of a sector are moved at all (the first, the second, both). Lanes that want
  the same 16 bytes in the same line take turns, the highest lane first.

Zeros are written the first way: a request of which some lanes get zeros costs both. So does
every request whose number of bytes is known to no one but the register it is in.

Found by the counters of an H200. docs/emulator-rules.md says on which recordings, and on which
others this was checked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ptxemu.cost.addresses import (
    LINE,
    SECTOR,
    WARP,
    Bools,
    Ints,
    SharedCost,
    summed,
    turns,
    whole,
)

#: What a copy past the first-level cache moves a lane: the only size that it has.
UNIT = 16


class BypassCost(NamedTuple):
    """Sums over warps: of shared memory, then of global memory."""

    shared: SharedCost
    sectors: int
    ideal: int


def copy_cost(
    source: Ints, target: Ints, reading: Bools | None, writing: Bools | None, width: int
) -> SharedCost:
    """The cost for shared memory of one ``cp.async`` through the first-level cache.

    Two lanes of a pass are in each other's way if they read from one bank of the cache or
    write to one bank of shared memory, be it the same word or not. A pass costs as many
    wavefronts as the lane that is in the way of most, itself counted.
    """
    writing = whole(writing, target.shape)
    reading = whole(reading, source.shape) & writing
    lanes = WARP * 4 // width
    give, take = (places.reshape(-1, lanes) // width % lanes for places in (target, source))
    wants, reads = writing.reshape(-1, lanes), reading.reshape(-1, lanes)
    in_the_way = (take[:, :, None] == take[:, None, :]) & reads[:, None, :] & reads[:, :, None]
    in_the_way |= (give[:, :, None] == give[:, None, :]) & wants[:, None, :] & wants[:, :, None]
    passes = in_the_way.sum(axis=2).max(axis=1)
    return summed(passes.reshape(len(target), -1), writing, width)


def bypass_cost(
    source: Ints, target: Ints, reading: Bools | None, writing: Bools | None, *, sized: bool = False
) -> BypassCost:
    """The cost of one ``cp.async`` past the first-level cache.

    Args:
        source: Where lanes read from, (warps, 32).
        target: Where they write to.
        reading: Lanes that read.
        writing: Lanes that write; those that do not read write zeros.
        sized: The number of bytes to read is in a register, and could be any.
    """
    writing = whole(writing, target.shape)
    reading = whole(reading, source.shape) & writing
    sectors, waves, ways = _moves(source, target, reading)
    lanes = reading.sum(axis=1)
    requests, wavefronts = int(writing.any(axis=1).sum()), int(waves.sum())
    ideal = int(np.minimum(waves, -(-lanes * UNIT // LINE)).sum())
    cached = writing.any(axis=1) if sized else (writing & ~reading).any(axis=1)
    if cached.any():
        more = copy_cost(source[cached], target[cached], reading[cached], writing[cached], UNIT)
        wavefronts, ideal = wavefronts + more.wavefronts, ideal + more.ideal
        ways = max(ways, more.ways)
    return BypassCost(
        SharedCost(requests, wavefronts, ideal, ways),
        int(sectors.sum()),
        int(np.minimum(sectors, -(-lanes * UNIT // SECTOR)).sum()),
    )


def _moves(source: Ints, target: Ints, reading: Bools) -> tuple[Ints, Ints, int]:
    """Sectors and wavefronts of each warp, and the most wavefronts from line to line."""
    warps = len(source)
    # The highest lane first: it has the first turn.
    warp, lane = np.nonzero(reading[:, ::-1])
    start, end = (places[warp, WARP - 1 - lane] // UNIT for places in (source, target))
    if not len(warp):
        return np.zeros(warps, np.int64), np.zeros(warps, np.int64), 0
    halves = (start ^ end) % 2
    sectors = (start // 2 ^ end // 2) % 2
    begin, goal, line, row = start // 2, end // 2, start * UNIT // LINE, end * UNIT // LINE
    turn = _earlier(_groups(warp, start, row, halves))
    # Which halves of a sector are moved: 1, 2 or both.
    move = _groups(warp, begin, goal, halves, turn)
    moved = np.zeros(move.max() + 1, np.int64)
    np.bitwise_or.at(moved, move, 1 << start % 2)
    wave = _groups(warp, line, row, halves, sectors, turn, moved[move])
    pair = _groups(warp, line, row)
    return (
        _each(warp, _groups(warp, begin, goal, halves), warps),
        _each(warp, wave, warps),
        int(_each(pair, wave, int(pair.max()) + 1).max()),
    )


def _groups(*keys: Ints) -> Ints:
    """A number for each item, the same for items with the same keys."""
    number = keys[0]
    for key in keys[1:]:
        # Renumbered at each step, so that products stay small.
        pairs = number * (int(key.max()) - int(key.min()) + 1) + key - key.min()
        number = np.unique(pairs, return_inverse=True)[1].reshape(-1)
    return number


def _earlier(groups: Ints) -> Ints:
    """For each item, how many before it are in its group."""
    order, before = turns(groups)
    out = np.empty_like(order)
    out[order] = before
    return out


def _each(owners: Ints, groups: Ints, count: int) -> Ints:
    """How many groups each owner has; all items of a group have one owner."""
    first = np.unique(groups, return_index=True)[1]
    result: Ints = np.bincount(owners[first], minlength=count).astype(np.int64)
    return result
