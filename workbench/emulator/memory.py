"""What a warp's addresses cost: sectors, tags, wavefronts. Pure functions.

All take `addresses`, int64 byte addresses shaped (warps, 32), and `active`, a bool
array of the same shape or None for "all lanes". Accesses are `width` bytes wide and
aligned to it. The rules are those by which Nsight Compute's source counters count:

* global: the distinct 32-byte sectors of a request; ideal: the sectors that its
  distinct bytes would fill side by side; tags: distinct 128-byte lines.
* shared: 32 banks of 4 bytes. Lanes that read the same word share it. A request of 8
  bytes a lane takes two passes of 16 lanes, of 16 bytes four passes of 8 lanes;
  neighbouring passes merge where every lane's neighbour (lane^1), or every lane's
  lane^2, wants the same bytes or nothing. A pass costs as many wavefronts as its worst
  bank has distinct words; ideal: one per pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SECTOR = 32
LINE = 128
BANKS = 32
WARP = 32


class GlobalCost(NamedTuple):
    """Sums over warps. `bytes` are distinct bytes asked for."""

    requests: int
    sectors: int
    ideal: int
    tags: int
    bytes: int


class SharedCost(NamedTuple):
    """Sums over warps; `ways` is the worst number of wavefronts of one pass."""

    requests: int
    wavefronts: int
    ideal: int
    ways: int


def _filled(keys: Ints, active: Bools | None) -> Ints:
    """Keys with each inactive lane given some active lane's key of its row."""
    if active is None:
        return keys
    first = active.argmax(axis=1)
    return np.where(active, keys, keys[np.arange(len(keys)), first][:, None])


def distinct(keys: Ints, active: Bools | None) -> Ints:
    """Distinct keys of each row's active lanes; 0 for rows without any."""
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


def global_cost(addresses: Ints, active: Bools | None, width: int) -> GlobalCost:
    """The cost of one global (or local) access of each warp."""
    words = distinct(addresses, active)
    used = words * width
    sectors = distinct(addresses >> 5, active)
    requests = len(words) if active is None else int(active.any(axis=1).sum())
    return GlobalCost(
        requests,
        int(sectors.sum()),
        int((-(-used // SECTOR)).sum()),
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
    place = (keys // span) + (np.arange(rows) * BANKS)[:, None]
    counts = np.bincount(place[new], minlength=rows * BANKS)
    worst: Ints = counts[: rows * BANKS].reshape(rows, BANKS).max(axis=1)
    return worst


def _pairs_agree(addresses: Ints, active: Bools, distance: int) -> Bools:
    """Per row: does every lane's partner want the same bytes, or nothing?"""
    lanes = np.arange(addresses.shape[1])
    partner = lanes ^ distance
    same = addresses == addresses[:, partner]
    idle = ~active | ~active[:, partner]
    result: Bools = (same | idle).all(axis=1)
    return result


def shared_cost(addresses: Ints, active: Bools | None, width: int) -> SharedCost:
    """The cost of one shared-memory access of each warp."""
    if active is None:
        active = np.ones(addresses.shape, np.bool_)
    requests = int(active.any(axis=1).sum())
    if width <= 4:
        worst = _passes(addresses >> 2, active)
        ideal = requests
        return SharedCost(requests, int(worst.sum()), ideal, int(worst.max(initial=0)))
    if width == 128:  # ldmatrix: every 8 lanes name the 16-byte rows of one matrix
        lines, alive = addresses.reshape(-1, 8), active.reshape(-1, 8)
        spread = (lines[:, :, None] >> 2) + np.arange(4)
        worst = _passes(spread.reshape(-1, 32), np.repeat(alive, 4, axis=1))
        return SharedCost(
            requests, int(worst.sum()), int((worst > 0).sum()), int(worst.max(initial=0))
        )
    # 8 bytes: one group of 32 lanes in 2 passes; 16 bytes: two groups of 16, 2 passes each.
    group = WARP if width == 8 else WARP // 2
    where = addresses.reshape(-1, group)
    live = active.reshape(-1, group)
    merged = _pairs_agree(where, live, 1) | _pairs_agree(where, live, 2)
    words = width // 4
    total, ideal, ways = 0, 0, 0
    for chosen, lanes in ((merged, group), (~merged, group // 2)):
        lines = where[chosen].reshape(-1, lanes)
        alive = live[chosen].reshape(-1, lanes)
        spread = (lines[:, :, None] >> 2) + np.arange(words)
        worst = _passes(spread.reshape(len(lines), lanes * words), np.repeat(alive, words, axis=1))
        total += int(worst.sum())
        ideal += int((worst > 0).sum())
        ways = max(ways, int(worst.max(initial=0)))
    return SharedCost(requests, total, ideal, ways)


def local_cost(offsets: Ints, active: Bools | None, width: int) -> GlobalCost:
    """The cost of a local access: `offsets` within each thread's own memory.

    The hardware interleaves threads word by word, so that a warp that uses one offset
    touches one line: word w of lane l lies at (w * 32 + l) * 4.
    """
    words = max(width // 4, 1)
    lane = np.arange(WARP, dtype=np.int64) * 4
    parts = [((offsets >> 2) + k) * (WARP * 4) + lane for k in range(words)]
    costs = [global_cost(part, active, 4) for part in parts]
    return GlobalCost(
        costs[0].requests,
        sum(c.sectors for c in costs),
        sum(c.ideal for c in costs),
        sum(c.tags for c in costs),
        sum(c.bytes for c in costs),
    )
