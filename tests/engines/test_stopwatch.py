"""The decisions of timing that need no device: rotation and method."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.engines.stopwatch import MAX_SETS, rotation, wants_graph

L2 = 60 << 20


@pytest.mark.parametrize(
    ("estimates", "graph"),
    [
        ([(19e-6, 1e-6)], True),  # short
        ([(300e-6, 5e-6)], False),  # long enough for events
        ([(30e-6, 40e-6)], True),  # the host is slower than the device
        ([(37e-6, 5e-6), (8e-6, 15e-6)], True),  # the baseline's host is
        ([(300e-6, 5e-6), (8e-6, 5e-6)], False),  # a short baseline that keeps up
    ],
)
def test_the_method_follows_the_documented_rule(
    estimates: list[tuple[float, float]], graph: bool
) -> None:
    assert wants_graph(estimates, 20e-6) is graph


@given(st.integers(1, 1 << 33), st.integers(1, 1 << 37))
def test_sets_rotate_over_twice_the_l2_or_it_is_said(one_set: int, room: int) -> None:
    count, cold = rotation(L2, one_set, room)
    assert 1 <= count <= MAX_SETS
    assert count * one_set <= room or count == 1
    assert cold == ((count - 1) * one_set >= 2 * L2)
    if cold and count > 2:
        # No more than needed.
        assert (count - 2) * one_set < 2 * L2


def test_large_buffers_need_two_sets_and_tiny_ones_stay_warm() -> None:
    assert rotation(L2, 3 * L2, 100 * L2) == (2, True)
    count, cold = rotation(L2, 12, 100 * L2)
    assert count == MAX_SETS and not cold
