"""The costs of a warp's addresses: sectors, tags, wavefronts. Pure functions.

All take `addresses`, int64 byte addresses shaped (warps, 32), and `active`, a bool
array of the same shape or None for "all lanes". Accesses are `width` bytes wide and
aligned to it. The rules are those by which Nsight Compute's source counters count:

* global: the distinct 32-byte sectors of a request; tags: distinct 128-byte lines;
  ideal: the sectors that the bytes of all active lanes would fill, or fewer if fewer are
  touched.
* shared: 32 banks of 4 bytes. Lanes that use the same word share it. A request of 8
  bytes per lane takes two passes of 16 lanes, of 16 bytes four passes of 8 lanes. A pass costs as
  many wavefronts as its worst bank has distinct words. Two passes of a load become one if every
  lane's neighbour (lane^1), or every lane's lane^2, wants the same bytes or nothing, and the banks
  of both do not collide; passes of a store never do. Ideal: the number of 128-byte rows that the
  bytes of all active lanes fill, or fewer if fewer wavefronts were taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ptxemu.state.values import Bools, Ints

SECTOR = 32
LINE = 128
BANKS = 32
WARP = 32


class GlobalCost(NamedTuple):
    """Sums over warps. `bytes` are distinct requested bytes."""

    requests: int
    sectors: int
    ideal: int
    tags: int
    bytes: int


class SharedCost(NamedTuple):
    """Sums over warps; `ways` is the worst number of wavefronts of one pass.

    `turns` are the iterations of the loop for an atomic that the chip lacks.
    """

    requests: int
    wavefronts: int
    ideal: int
    ways: int
    turns: int = 0


#: Cost of a request by addresses, active lanes and bytes of a lane.
Shared = Callable[[Ints, Bools | None, int], SharedCost]


def _filled(keys: Ints, active: Bools | None) -> Ints:
    """Keys in which each inactive lane has the key of an active lane in its row."""
    if active is None:
        return keys
    first = active.argmax(axis=1)
    return np.where(active, keys, keys[np.arange(len(keys)), first][:, None])


def distinct(keys: Ints, active: Bools | None) -> Ints:
    """Number of distinct keys of each row's active lanes; 0 for rows without any."""
    if not len(keys):
        return np.zeros(0, np.int64)
    keys = _filled(keys, active)
    steps = np.diff(keys, axis=1)
    if (steps < 0).any():
        steps = np.diff(np.sort(keys, axis=1), axis=1)
    count: Ints = 1 + np.count_nonzero(steps, axis=1)
    if active is not None:
        count[~active.any(axis=1)] = 0
    return count


def turns(groups: Ints) -> tuple[Ints, Ints]:
    """A stable order of items by group, and each ordered item's number within its group."""
    order = np.argsort(groups, kind="stable")
    ranked = groups[order]
    number = np.arange(len(ranked))
    new = np.ones(len(ranked), np.bool_)
    new[1:] = ranked[1:] != ranked[:-1]
    return order, number - np.maximum.accumulate(np.where(new, number, 0))


def global_cost(addresses: Ints, active: Bools | None, width: int) -> GlobalCost:
    """The cost of one global (or local) access of each warp."""
    used = distinct(addresses, active) * width
    sectors = distinct(addresses >> 5, active)
    lanes = np.full(len(used), WARP) if active is None else active.sum(axis=1)
    wanted = -(-lanes * width // SECTOR)
    return GlobalCost(
        int((lanes > 0).sum()),
        int(sectors.sum()),
        int(np.minimum(sectors, wanted).sum()),
        int(distinct(addresses >> 7, active).sum()),
        int(used.sum()),
    )


def _passes(words: Ints, active: Bools) -> Ints:
    """Worst bank's distinct words for each row of (rows, words in the pass)."""
    rows, width = words.shape
    if not rows:
        return np.zeros(0, np.int64)
    # Rows are sorted by (bank, word): equal words are neighbours, banks are runs.
    bank = words % BANKS
    span = np.int64(1) << 40
    keys = np.where(active, bank * span + words, np.int64(BANKS) * span)
    keys.sort(axis=1)
    new = np.ones((rows, width), np.bool_)
    new[:, 1:] = keys[:, 1:] != keys[:, :-1]
    new &= keys < BANKS * span
    return _worst((keys // span)[new], new, rows)


def _worst(bank: Ints, which: Bools, rows: int) -> Ints:
    """The largest count of one bank in each row; `bank` lists the banks of `which`."""
    place = bank + np.nonzero(which)[0] * BANKS
    counts = np.bincount(place, minlength=rows * BANKS)
    worst: Ints = counts[: rows * BANKS].reshape(rows, BANKS).max(axis=1)
    return worst


def _pairs_agree(addresses: Ints, active: Bools, distance: int) -> Bools:
    """True for rows in which every lane's partner wants the same bytes, or none."""
    lanes = np.arange(addresses.shape[1])
    partner = lanes ^ distance
    same = addresses == addresses[:, partner]
    idle = ~active | ~active[:, partner]
    result: Bools = (same | idle).all(axis=1)
    return result


def _spread(addresses: Ints, active: Bools, lanes: int, width: int) -> tuple[Ints, Bools]:
    """Words of passes of `lanes` lanes: (passes, words of a pass), and a mask of wanted ones."""
    words = max(width // 4, 1)
    lines, alive = addresses.reshape(-1, lanes), active.reshape(-1, lanes)
    spread = (lines[:, :, None] >> 2) + np.arange(words)
    return spread.reshape(-1, lanes * words), np.repeat(alive, words, axis=1)


def whole(active: Bools | None, shape: tuple[int, ...]) -> Bools:
    """The mask as an array; None means all lanes."""
    return np.ones(shape, np.bool_) if active is None else active


def summed(passes: Ints, active: Bools, width: int) -> SharedCost:
    """Costs from the wavefronts of each pass, (warps, passes)."""
    wavefronts = passes.sum(axis=1)
    wanted = -(-active.sum(axis=1) * width // LINE)
    return SharedCost(
        int(active.any(axis=1).sum()),
        int(wavefronts.sum()),
        int(np.minimum(wavefronts, wanted).sum()),
        int(passes.max(initial=0)),
    )


def shared_load_cost(addresses: Ints, active: Bools | None, width: int) -> SharedCost:
    """The cost of one load from shared memory of each warp.

    Neighbouring passes are one if the lanes of both agree in pairs and no bank must give two words.
    """
    active = whole(active, addresses.shape)
    warps = len(addresses)
    if width <= 4:
        return summed(_passes(addresses >> 2, active)[:, None], active, width)
    lanes = WARP * 4 // width
    single = _passes(*_spread(addresses, active, lanes, width)).reshape(-1, 2)
    both = _passes(*_spread(addresses, active, 2 * lanes, width))
    where, live = addresses.reshape(-1, 2 * lanes), active.reshape(-1, 2 * lanes)
    agree = _pairs_agree(where, live, 1) | _pairs_agree(where, live, 2)
    merged = agree & (both <= 1)
    if width == 16:
        # Seen on an H200: idle lanes in the first half of the warp keep its passes apart,
        # if more lanes are left than one pass has.
        lanes_on = live.sum(axis=1).reshape(-1, 2)
        apart = (lanes_on < 16) & (lanes_on > 8)
        apart[:, 1] = False
        merged &= ~apart.reshape(-1)
    passes = np.where(merged[:, None], np.stack([both, 0 * both], axis=1), single)
    return summed(passes.reshape(warps, -1), active, width)


def shared_store_cost(addresses: Ints, active: Bools | None, width: int) -> SharedCost:
    """The cost of one store to shared memory of each warp: passes never merge."""
    active = whole(active, addresses.shape)
    lanes = min(WARP, WARP * 4 // width)
    passes = _passes(*_spread(addresses, active, lanes, width))
    return summed(passes.reshape(len(addresses), -1), active, width)


def matrix_cost(addresses: Ints, active: Bools | None, width: int = 16) -> SharedCost:
    """The cost of one ``ldmatrix``: every 8 lanes name the 16-byte rows of one matrix."""
    active = whole(active, addresses.shape)
    passes = _passes(*_spread(addresses, active, 8, width)).reshape(len(addresses), -1)
    return SharedCost(
        int(active.any(axis=1).sum()),
        int(passes.sum()),
        int((passes > 0).sum()),
        int(passes.max(initial=0)),
    )


def atomic_cost(addresses: Ints, active: Bools | None, width: int) -> SharedCost:
    """The cost of one atomic in shared memory: a bank serves its lanes one by one.

    Unlike in a load, lanes that share a word do not share the wavefront.
    """
    active = whole(active, addresses.shape)
    words, wanted = _spread(addresses, active, min(WARP, WARP * 4 // width), width)
    passes = _worst((words % BANKS)[wanted], wanted, len(words))
    return summed(passes.reshape(len(addresses), -1), active, width)


def spin_cost(addresses: Ints, active: Bools | None, width: int) -> SharedCost:
    """The cost of an atomic that is a loop of a load and a compare-and-swap.

    In each iteration one lane of every bank succeeds, if no earlier lane took its word.
    A swap costs two wavefronts per pass. Halves are swapped together with their word.
    """
    addresses, width = addresses // 4 * 4 if width < 4 else addresses, max(width, 4)
    active = whole(active, addresses.shape).copy()
    requests = int(active.any(axis=1).sum())
    lanes = WARP * 4 // width
    bank = addresses // width % lanes
    total, ideal, ways, turns = 0, 0, 0, 0
    while active.any():
        turns += int(active.any(axis=1).sum())
        load = shared_load_cost(addresses, active, width)
        passes = active.reshape(len(active), -1, lanes).any(axis=2).sum(axis=1)
        wanted = -(-active.sum(axis=1) * width // LINE)
        total += load.wavefronts + int(2 * passes.sum())
        ideal += load.ideal + int(2 * np.minimum(passes, wanted).sum())
        ways = max(ways, load.ways)
        for row in np.nonzero(active.any(axis=1))[0]:
            taken: set[tuple[int, int]] = set()
            words: set[int] = set()
            for lane in np.nonzero(active[row])[0]:
                place = (int(lane) // lanes, int(bank[row, lane]))
                if place not in taken and int(addresses[row, lane]) not in words:
                    active[row, lane] = False
                taken.add(place)
                words.add(int(addresses[row, lane]))
    return SharedCost(requests, total, ideal, ways, turns)


def led(cost: Shared, *, all_there: bool) -> Shared:
    """The cost of an atomic that one lane does for its warp; it passes the result on.

    `all_there`: only if all lanes of the warp take part.
    """

    def leading(addresses: Ints, active: Bools | None, width: int) -> SharedCost:
        lanes = whole(active, addresses.shape)
        first = lanes & (lanes.cumsum(axis=1) == 1)
        if all_there:
            first = np.where(lanes.all(axis=1, keepdims=True), first, lanes)
        return cost(addresses, first, width)

    return leading


def swap_cost(addresses: Ints, active: Bools | None, width: int) -> SharedCost:
    """The cost of a compare-and-swap in shared memory: every wavefront twice."""
    cost = atomic_cost(addresses, active, width)
    return SharedCost(cost.requests, 2 * cost.wavefronts, 2 * cost.ideal, cost.ways)


def local_cost(offsets: Ints, active: Bools | None, width: int) -> GlobalCost:
    """The cost of a local access: `offsets` within each thread's own memory.

    The hardware interleaves threads word by word, so that a warp that uses one offset
    touches one line: word w of lane l is at (w * 32 + l) * 4.
    """
    words = max(width // 4, 1)
    lane = np.arange(WARP, dtype=np.int64) * 4
    parts = [((offsets >> 2) + k) * (WARP * 4) + lane for k in range(words)]
    costs = [global_cost(part, active, 4) for part in parts]
    sums = (sum(counts) for counts in list(zip(*costs, strict=True))[1:])
    return GlobalCost(costs[0].requests, *sums)


# --- The cost of a warp's ``cp.async``, with and without the first-level cache. Pure functions ---
# There are two paths from global to shared memory. Through the first-level cache, lanes share the
# banks that they read and those that they write. Past it (``.cg``), the second level sends data
# directly to shared memory: one 32-byte sector at a time into a sector of the target, its halves
# exchanged or not:
#
# * A sector is fetched for each target sector that receives its bytes, and again if it receives
# them in both orders.
# * One wavefront carries bytes from one line of 128 bytes to one line. All its bytes agree in
# whether halves are exchanged, whether the sectors of a pair are, and which halves of a sector are
# moved (the first, the second, both). Lanes that want the same 16 bytes in the same line take
# turns, the highest lane first.
#
# Zeros are written by the first path: a request in which some lanes get zeros costs both. So does
# every request whose number of bytes is known only from a register.
#
# Derived from counters of an H200. docs/emulator-rules.md lists the recordings used for this, and
# the others used to check it.

#: Bytes per lane of a copy that bypasses the first-level cache; no other size exists.
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

    Two lanes of a pass conflict if they read from one bank of the cache or write to one bank of
    shared memory, even the same word. A pass costs as many wavefronts as the largest number of
    lanes that conflict with one lane, plus that lane.
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

    Lanes that write without reading write zeros. `sized`: the number of bytes to read is in a
    register, so it is unknown.
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
    # The halves of a sector that are moved: 1, 2 or both.
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
    """For each item, the number of earlier ones in its group."""
    order, before = turns(groups)
    out = np.empty_like(order)
    out[order] = before
    return out


def _each(owners: Ints, groups: Ints, count: int) -> Ints:
    """The number of groups of each owner; all items of a group have one owner."""
    first = np.unique(groups, return_index=True)[1]
    result: Ints = np.bincount(owners[first], minlength=count).astype(np.int64)
    return result
