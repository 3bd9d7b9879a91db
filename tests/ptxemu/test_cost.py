"""Sectors and wavefronts against a slow model that says what the rules say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxemu.cost import (
    SharedCost,
    atomic_cost,
    bypass_cost,
    copy_cost,
    global_cost,
    local_cost,
    matrix_cost,
    shared_load_cost,
    shared_store_cost,
    spin_cost,
    swap_cost,
)

WIDTHS = st.sampled_from([1, 2, 4, 8, 16])


@st.composite
def accesses(draw: st.DrawFn, span: int) -> tuple[np.ndarray, np.ndarray, int]:
    """A warp's aligned addresses in one of several styles, a mask, a width."""
    width = draw(WIDTHS)
    style = draw(st.sampled_from(["random", "stride", "few", "reversed"]))
    limit = span // width
    if style == "random":
        units = draw(st.lists(st.integers(0, limit), min_size=32, max_size=32))
    elif style == "few":
        pool = draw(st.lists(st.integers(0, limit), min_size=1, max_size=3))
        units = [draw(st.sampled_from(pool)) for _ in range(32)]
    else:
        step, start = draw(st.integers(0, 40)), draw(st.integers(0, 50))
        units = [start + step * lane for lane in range(32)]
        if style == "reversed":
            units = units[::-1]
    mask = draw(st.one_of(st.just([True] * 32), st.lists(st.booleans(), min_size=32, max_size=32)))
    return np.array(units, np.int64) * width, np.array(mask), width


def slow_global(addresses: np.ndarray, mask: np.ndarray, width: int) -> tuple[int, ...]:
    touched = {
        int(a) + i for a, on in zip(addresses, mask, strict=True) if on for i in range(width)
    }
    sectors = {byte // 32 for byte in touched}
    lines = {byte // 128 for byte in touched}
    ideal = min(len(sectors), -(-int(mask.sum()) * width // 32))
    return int(mask.any()), len(sectors), ideal, len(lines), len(touched)


@settings(max_examples=120, deadline=None)
@given(accesses(1 << 14))
def test_global_cost(case: tuple[np.ndarray, np.ndarray, int]) -> None:
    addresses, mask, width = case
    assert global_cost(addresses[None], mask[None], width) == slow_global(addresses, mask, width)


def slow_pass(lanes: list[tuple[int, bool]], width: int) -> int:
    """Wavefronts of one pass: the most distinct words that any bank must give."""
    words = {(a + i) // 4 for a, on in lanes if on for i in range(0, width, min(width, 4))}
    banks: dict[int, int] = {}
    for word in words:
        banks[word % 32] = banks.get(word % 32, 0) + 1
    return max(banks.values(), default=0)


Lanes = list[tuple[int, bool]]


def agrees(group: Lanes, distance: int) -> bool:
    """Does every lane's partner want the same bytes, or nothing?"""
    pairs = [(lane, group[i ^ distance]) for i, lane in enumerate(group)]
    return all(not a[1] or not b[1] or a[0] == b[0] for a, b in pairs)


def slow_shared(
    addresses: np.ndarray, mask: np.ndarray, width: int, *, load: bool
) -> tuple[int, int]:
    lanes = [(int(a), bool(on)) for a, on in zip(addresses, mask, strict=True)]
    size = min(32, 128 // width)
    passes = [lanes[start : start + size] for start in range(0, 32, size)]
    costs = [slow_pass(group, width) for group in passes]
    if load and size < 32:
        for first in range(0, len(passes), 2):
            both = passes[first] + passes[first + 1]
            if width == 16 and first == 0 and 8 < sum(on for _, on in both) < 16:
                continue
            if (agrees(both, 1) or agrees(both, 2)) and slow_pass(both, width) <= 1:
                costs[first], costs[first + 1] = slow_pass(both, width), 0
    return sum(costs), min(sum(costs), -(-int(mask.sum()) * width // 128))


@settings(max_examples=120, deadline=None)
@given(accesses(1 << 13), st.booleans())
def test_shared_cost(case: tuple[np.ndarray, np.ndarray, int], load: bool) -> None:
    addresses, mask, width = case
    function = shared_load_cost if load else shared_store_cost
    cost = function(addresses[None], mask[None], width)
    assert (cost.wavefronts, cost.ideal) == slow_shared(addresses, mask, width, load=load)


@pytest.mark.parametrize("on", [7, 8, 9, 12, 15, 16])
@pytest.mark.parametrize("half", [0, 1])
def test_idle_lanes_keep_passes_of_the_first_half_apart(half: int, on: int) -> None:
    mask = np.ones(32, np.bool_)
    mask[16 * half + on : 16 * half + 16] = False
    addresses = np.zeros(32, np.int64)
    cost = shared_load_cost(addresses[None], mask[None], 16)
    assert (cost.wavefronts, cost.ideal) == slow_shared(addresses, mask, 16, load=True)


def test_halves_are_swapped_with_the_word_around_them() -> None:
    addresses, mask = 2 * np.arange(32)[None], np.ones((1, 32), np.bool_)
    mask[0, 5:9] = False
    assert spin_cost(addresses, mask, 2) == spin_cost(addresses // 4 * 4, mask, 4)


@pytest.mark.parametrize("width", [4, 8, 16])
def test_a_warp_without_an_active_lane_costs_nothing(width: int) -> None:
    addresses, none = np.arange(32)[None] * width, np.zeros((1, 32), np.bool_)
    assert set(global_cost(addresses, none, width)) == {0}
    for function in (shared_load_cost, shared_store_cost, atomic_cost, swap_cost, spin_cost):
        assert set(function(addresses, none, width)) == {0}


def served(addresses: list[int], width: int) -> int:
    """The most lanes of a pass that any bank has to serve."""
    banks = [a // 4 % 32 + k for a in addresses for k in range(max(width // 4, 1))]
    return max((banks.count(bank) for bank in banks), default=0)


@settings(max_examples=100, deadline=None)
@given(accesses(1 << 12))
def test_an_atomic_serves_one_lane_of_a_bank_at_a_time(
    case: tuple[np.ndarray, np.ndarray, int],
) -> None:
    addresses, mask, width = case
    size = min(32, 128 // width)
    wavefronts = sum(
        served([int(addresses[i]) for i in range(start, start + size) if mask[i]], width)
        for start in range(0, 32, size)
    )
    cost = atomic_cost(addresses[None], mask[None], width)
    assert cost.wavefronts == wavefronts
    assert cost.ideal == min(wavefronts, -(-int(mask.sum()) * width // 128))
    swap = swap_cost(addresses[None], mask[None], width)
    assert (swap.wavefronts, swap.ideal) == (2 * wavefronts, 2 * cost.ideal)


@settings(max_examples=100, deadline=None)
@given(accesses(1 << 12), accesses(1 << 12))
def test_lanes_of_a_copy_wait_for_those_in_their_way(
    source: tuple[np.ndarray, np.ndarray, int], target: tuple[np.ndarray, np.ndarray, int]
) -> None:
    width = max(source[2], 4)
    places = [case[0] // width * width for case in (source, target)]
    reading, writing = source[1] & target[1], target[1]
    size = 128 // width
    banks = [place // width % size for place in places]

    def apart(one: int, two: int) -> bool:
        reads = reading[one] and reading[two]
        return bool(
            (not reads or banks[0][one] != banks[0][two]) and banks[1][one] != banks[1][two]
        )

    wavefronts = 0
    for start in range(0, 32, size):
        lanes = [lane for lane in range(start, start + size) if writing[lane]]
        wavefronts += max((sum(not apart(one, two) for two in lanes) for one in lanes), default=0)
    cost = copy_cost(places[0][None], places[1][None], reading[None], writing[None], width)
    assert cost.wavefronts == wavefronts


def moved(source: np.ndarray, target: np.ndarray, reading: np.ndarray) -> tuple[int, int]:
    """Sectors and wavefronts of one copy past the first-level cache, lane by lane."""
    turns: dict[tuple[int, ...], int] = {}
    moves: dict[tuple[int, ...], set[int]] = {}
    for lane in reversed(range(32)):
        if not reading[lane]:
            continue
        start, end = int(source[lane]) // 16, int(target[lane]) // 16
        exchanged = (start ^ end) & 1
        asked = (start, end // 8, exchanged)
        turns[asked] = turns.get(asked, -1) + 1
        moves.setdefault((start // 2, end // 2, exchanged, turns[asked]), set()).add(start % 2)
    sectors = {move[:3] for move in moves}
    waves = {
        (start // 4, end // 4, exchanged, (start ^ end) & 1, turn, frozenset(halves))
        for (start, end, exchanged, turn), halves in moves.items()
    }
    return len(sectors), len(waves)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([8, 16, 64, 1000]).flatmap(
                lambda span: st.lists(st.integers(0, span), min_size=32, max_size=32)
            ),
            st.permutations(range(64)),
            st.lists(st.booleans(), min_size=32, max_size=32),
            st.lists(st.booleans(), min_size=32, max_size=32),
        ),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)
def test_copies_past_the_cache_move_sectors(
    cases: list[tuple[list[int], list[int], list[bool], list[bool]]], sized: bool
) -> None:
    source = np.array([case[0] for case in cases]) * 16 + (1 << 36)
    target = np.array([case[1][:32] for case in cases]) * 16
    writing = np.array([case[3] for case in cases])
    reading = np.array([case[2] for case in cases]) & writing
    sectors = wavefronts = ideal = 0
    for row in range(len(cases)):
        own = moved(source[row], target[row], reading[row])
        lanes, some = int(reading[row].sum()), (slice(row, row + 1),)
        sectors, wavefronts = sectors + own[0], wavefronts + own[1]
        ideal += min(own[1], -(-lanes // 8))
        if sized or (writing[row] & ~reading[row]).any():
            zeros = copy_cost(source[some], target[some], reading[some], writing[some], 16)
            wavefronts, ideal = wavefronts + zeros.wavefronts, ideal + zeros.ideal
    cost = bypass_cost(source, target, reading, writing, sized=sized)
    assert (cost.sectors, cost.shared.wavefronts, cost.shared.ideal) == (sectors, wavefronts, ideal)
    assert cost.shared.requests == int(writing.any(axis=1).sum())


@settings(max_examples=100, deadline=None)
@given(st.lists(accesses(1 << 12), min_size=2, max_size=5), WIDTHS)
def test_costs_add_up_over_warps(
    cases: list[tuple[np.ndarray, np.ndarray, int]], width: int
) -> None:
    addresses = np.stack([a // width * width for a, _, _ in cases])
    masks = np.stack([m for _, m, _ in cases])
    for function in (global_cost, shared_load_cost, shared_store_cost, atomic_cost):
        whole = function(addresses, masks, width)
        parts = [function(a[None], m[None], width) for a, m in zip(addresses, masks, strict=True)]
        assert whole[:3] == tuple(sum(part[i] for part in parts) for i in range(3))


LANE = np.arange(32)


@pytest.mark.parametrize(
    ("what", "addresses", "width", "wavefronts", "ideal"),
    [
        # Seen in Nsight Compute's reports (per request).
        ("a column of a 32×32 tile", LANE * 128, 4, 32, 1),
        ("the same, padded", LANE * 132, 4, 1, 1),
        ("broadcast", LANE * 0, 4, 1, 1),
        ("float4, side by side", LANE * 16, 16, 4, 4),
        ("float4, every other one, twice", LANE % 16 * 32, 16, 8, 4),
        ("float4, two broadcasts", LANE // 16 * 32, 16, 2, 2),
        ("two lanes a bank", LANE // 2 * 4 + LANE % 2 * 2048, 4, 2, 1),
    ],
)
def test_shared_patterns_of_real_reports(
    what: str, addresses: np.ndarray, width: int, wavefronts: int, ideal: int
) -> None:
    cost = shared_load_cost(addresses[None], None, width)
    assert (cost.wavefronts, cost.ideal) == (wavefronts, ideal), what


@pytest.mark.parametrize(
    ("what", "addresses", "width", "sectors", "ideal", "tags"),
    [
        ("coalesced", LANE * 4, 4, 4, 4, 1),
        ("rows apart", LANE * 4096, 4, 32, 4, 32),
        ("one address", LANE * 0, 4, 1, 1, 1),
        ("float4 in 16 rows", LANE // 2 * 4096 + LANE % 2 * 16, 16, 16, 16, 16),
        ("float4, side by side", LANE * 16, 16, 16, 16, 4),
        ("float4, every other one, two rows", LANE % 16 * 32 + LANE // 16 * 32768, 16, 32, 16, 8),
        ("two rows of 64 bytes", LANE % 16 * 4 + LANE // 16 * 16384, 4, 4, 4, 2),
    ],
)
def test_global_patterns_of_real_reports(
    what: str, addresses: np.ndarray, width: int, sectors: int, ideal: int, tags: int
) -> None:
    cost = global_cost(addresses[None], None, width)
    assert (cost.sectors, cost.ideal, cost.tags) == (sectors, ideal, tags), what


def test_local_memory_is_interleaved() -> None:
    same = np.full((1, 32), 64, np.int64)
    assert local_cost(same, None, 4)[:4] == (1, 4, 4, 1)
    assert local_cost(same, None, 8)[:3] == (1, 8, 8)


@pytest.mark.parametrize(
    ("what", "addresses", "width", "cost"),
    [
        # Per request, as an H200 counts them: tests/data/probes.
        ("pairs share, no conflict: one pass", LANE // 2 * 8, 8, SharedCost(1, 1, 1, 1)),
        ("pairs share, conflicts: two passes", LANE // 2 * 128, 8, SharedCost(1, 16, 2, 8)),
        ("halves share: two passes", LANE % 16 * 8, 8, SharedCost(1, 2, 2, 1)),
        ("every other pair of lanes shares", (LANE & ~2) * 8, 8, SharedCost(1, 2, 2, 1)),
        ("one address", LANE * 0, 16, SharedCost(1, 2, 2, 1)),
    ],
)
def test_wide_loads_of_real_reports(
    what: str, addresses: np.ndarray, width: int, cost: SharedCost
) -> None:
    assert shared_load_cost(addresses[None], None, width) == cost, what


def test_stores_of_real_reports() -> None:
    assert shared_store_cost((LANE * 0)[None], None, 8)[1:3] == (2, 2)
    assert shared_store_cost((LANE * 0)[None], None, 16)[1:3] == (4, 4)


@pytest.mark.parametrize(
    ("what", "addresses", "width", "wavefronts"),
    [
        ("every lane a word", LANE * 4, 4, 1 + 2),
        ("two lanes a bank", LANE * 8, 4, (2 + 2) + (1 + 2)),
        ("one word", LANE * 0, 4, 32 * (1 + 2)),
        ("32 lanes a bank", LANE * 128, 4, sum(range(1, 33)) + 32 * 2),
        ("64 bits, every lane a word", LANE * 8, 8, 2 + 4),
        ("64 bits, halves share", LANE % 16 * 8, 8, (2 + 4) + (1 + 2)),
    ],
)
def test_floats_are_added_in_turns(
    what: str, addresses: np.ndarray, width: int, wavefronts: int
) -> None:
    """Float sums in shared memory, per request, as an H200 counts them."""
    assert spin_cost(addresses[None], None, width).wavefronts == wavefronts, what


@pytest.mark.parametrize(
    ("what", "to", "source", "sectors", "wavefronts"),
    [
        ("in place", LANE, LANE, 16, 4),
        ("lanes change places within a line, as a swizzle has it", LANE ^ 5, LANE, 16, 4),
        ("32 bytes further", LANE + 2, LANE, 16, 8),
        ("16 bytes further", LANE + 1, LANE, 32, 12),
        ("halves of a sector go to two lines", LANE + LANE % 2 * 64, LANE, 32, 8),
        ("rows of 64 bytes", LANE, LANE % 4 + LANE // 4 * 16, 16, 8),
        ("eight lanes want the same", LANE, np.where(LANE < 8, 5, LANE), 20, 11),
        ("the first line starts in the middle of a sector", LANE + 1, LANE + 1, 17, 6),
    ],
)
def test_copies_past_the_cache_by_distance(
    what: str, to: np.ndarray, source: np.ndarray, sectors: int, wavefronts: int
) -> None:
    """As an H200 counts them."""
    cost = bypass_cost(source[None] * 16, to[None] * 16, None, None)
    assert (cost.sectors, cost.shared.wavefronts) == (sectors, wavefronts), what


def test_zeros_of_copies_past_the_cache_are_written_like_others() -> None:
    """As an H200 counts them: 16 lanes with data and 16 with zeros, then zeros alone."""
    place = (LANE * 16)[None]
    half = bypass_cost(place, place, (LANE % 2 == 1)[None], None)
    assert (half.sectors, half.shared.wavefronts, half.shared.ideal) == (16, 4 + 4, 2 + 4)
    none = bypass_cost(place, place, (LANE < 0)[None], None)
    assert (none.sectors, none.shared.wavefronts, none.shared.ideal) == (0, 4, 4)
    assert none.shared.ways == 1
    whole = bypass_cost(place, place, None, None, sized=True)
    assert (whole.sectors, whole.shared.wavefronts, whole.shared.ideal) == (16, 8, 8)


def test_rows_of_matrices() -> None:
    for stride, wavefronts in ((16, 4), (32, 8), (128, 32), (144, 4)):
        assert matrix_cost((LANE * stride)[None], None)[1:3] == (wavefronts, 4)
        # Eight lanes name a matrix: of one that none of them asks for nothing is read.
        half = matrix_cost((LANE * stride)[None], (LANE < 16)[None])
        assert half[:3] == (1, wavefronts // 2, 2)
