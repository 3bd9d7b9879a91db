"""Sectors and wavefronts against a slow model that says what the rules say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.emulator.memory import global_cost, local_cost, shared_cost

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
    return int(mask.any()), len(sectors), -(-len(touched) // 32), len(lines), len(touched)


@settings(max_examples=300, deadline=None)
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


def slow_shared(addresses: np.ndarray, mask: np.ndarray, width: int) -> tuple[int, int]:
    lanes = [(int(a), bool(on)) for a, on in zip(addresses, mask, strict=True)]
    if width <= 4:
        groups = [lanes]
    else:
        groups = []
        whole = 32 if width == 8 else 16
        for start in range(0, 32, whole):
            group = lanes[start : start + whole]

            def merges(distance: int, group: list[tuple[int, bool]] = group) -> bool:
                return all(
                    not group[i][1]
                    or not group[i ^ distance][1]
                    or group[i][0] == group[i ^ distance][0]
                    for i in range(len(group))
                )

            if merges(1) or merges(2):
                groups.append(group)
            else:
                half = len(group) // 2
                groups += [group[:half], group[half:]]
    costs = [slow_pass(group, width) for group in groups]
    return sum(costs), sum(cost > 0 for cost in costs)


@settings(max_examples=300, deadline=None)
@given(accesses(1 << 13))
def test_shared_cost(case: tuple[np.ndarray, np.ndarray, int]) -> None:
    addresses, mask, width = case
    cost = shared_cost(addresses[None], mask[None], width)
    assert (cost.wavefronts, cost.ideal) == slow_shared(addresses, mask, width)


@settings(max_examples=100, deadline=None)
@given(st.lists(accesses(1 << 12), min_size=2, max_size=5), WIDTHS)
def test_costs_add_up_over_warps(
    cases: list[tuple[np.ndarray, np.ndarray, int]], width: int
) -> None:
    addresses = np.stack([a // width * width for a, _, _ in cases])
    masks = np.stack([m for _, m, _ in cases])
    for function in (global_cost, shared_cost):
        whole = function(addresses, masks, width)
        parts = [function(a[None], m[None], width) for a, m in zip(addresses, masks, strict=True)]
        assert whole[:3] == tuple(sum(part[i] for part in parts) for i in range(3))


@settings(max_examples=100, deadline=None)
@given(accesses(1 << 12), st.integers(0, 64))
def test_moving_all_lanes_by_words_keeps_the_conflicts(
    case: tuple[np.ndarray, np.ndarray, int], words: int
) -> None:
    addresses, mask, width = case
    step = max(width, 4)
    moved = shared_cost(addresses[None] + words * step, mask[None], width)
    assert moved == shared_cost(addresses[None], mask[None], width)


LANE = np.arange(32)


@pytest.mark.parametrize(
    ("what", "addresses", "width", "wavefronts", "ideal"),
    [
        # Seen in Nsight Compute's reports (per request): docs/emulator.md.
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
    cost = shared_cost(addresses[None], None, width)
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
