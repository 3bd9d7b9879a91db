"""The decisions of timing that need no device: rotation and method; and its sets of buffers."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.engines.device import DeviceArray
from workbench.engines.job import BufferSpec
from workbench.engines.stopwatch import MAX_SETS, make_sets, rotation, wants_graph

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


class Host:
    """A session whose device memory is the host's; counts the copies."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.copies = 0

    def arena(self, size: int) -> int:
        self.kept.append(ctypes.create_string_buffer(size))
        return ctypes.addressof(self.kept[-1])

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        self.move(target.address, source.address, source.nbytes)

    def move(self, target: int, source: int, size: int) -> None:
        self.copies += 1
        ctypes.memmove(target, source, size)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9, 130])
def test_every_set_holds_the_inputs_and_none_overlaps_another(count: int) -> None:
    host = Host()
    specs = (
        BufferSpec(name="x", role="input", shape=(3, 5), dtype="<f4"),
        BufferSpec(name="y", role="output", shape=(700,), dtype="|i1"),
    )
    first = {}
    for spec in specs:
        values = np.arange(np.prod(spec.shape), dtype=spec.dtype)
        address = host.arena(values.nbytes)
        ctypes.memmove(address, values.ctypes.data, values.nbytes)
        first[spec.name] = DeviceArray(address, spec.shape, np.dtype(spec.dtype))
    sets = make_sets(host, specs, first, count)  # type: ignore[arg-type]
    assert len(sets) == count and sets[0] is first
    spans = []
    for arrays in sets:
        for spec in specs:
            array = arrays[spec.name]
            assert (array.shape, array.dtype) == (spec.shape, np.dtype(spec.dtype))
            content = ctypes.string_at(array.address, array.nbytes)
            assert content == ctypes.string_at(first[spec.name].address, array.nbytes)
            spans.append((array.address, array.address + array.nbytes))
    spans.sort()
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    # Two buffers once, then as much again each time.
    assert host.copies <= 2 + count.bit_length()
