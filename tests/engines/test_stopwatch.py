"""The decisions of timing that need no device: rotation and method; and its sets of buffers."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.times.timing import median_interval, relative_width
from workbench.engines.gpu import stopwatch
from workbench.engines.gpu.device import DeviceArray, DeviceContext
from workbench.engines.gpu.stopwatch import (
    MAX_SETS,
    Contestant,
    Stopwatch,
    make_sets,
    rotation,
    wants_graph,
)
from workbench.engines.host.job import BufferSpec, TimeOptions

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


class Clockwork:
    """A session on a clock of its own: a launch moves it, and nothing else does."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stream = SimpleNamespace(synchronize=lambda: None, handle=0)
        self.cuda = SimpleNamespace(Event=lambda: Mark(self), memset_d8_async=lambda *_: None)

    def perf_counter(self) -> float:
        return self.now

    def arena(self, size: int) -> int:
        return 0

    def doing(self, step: str) -> AbstractContextManager[None]:
        return nullcontext()

    def contestant(
        self, seconds: float, pace: Sequence[float] = (1.0,)
    ) -> tuple[Contestant, list[float]]:
        begun: list[float] = []

        def step() -> None:
            begun.append(self.now)
            self.now += seconds * pace[0]

        return Contestant("v0", [(("kernel", step),)] * 2, first_launch=0.0), begun


class Mark:
    """An event of `Clockwork`."""

    def __init__(self, clock: Clockwork) -> None:
        self._clock = clock
        self.at = 0.0

    def record(self, stream: object) -> Mark:
        self.at = self._clock.now
        return self

    def time_since(self, other: Mark) -> float:
        return 1e3 * (self.at - other.at)


@pytest.mark.parametrize(
    ("seconds", "executions"),
    [
        # Once to warm up, once to estimate, and the six that a 95% interval needs.
        (18.0, 1 + 1 + 6),
        # Twice to warm up, which took over a second.
        (0.6, 2 + 1 + 6),
        # Five times to estimate, and the six: the limit was passed on the way to 20.
        (0.4, 2 + 5 + 8),
        # Warm-up for a tenth of a second, five, and the least number of samples.
        (0.01, 10 + 5 + 20),
    ],
)
def test_a_kernel_runs_as_often_as_its_interval_needs(
    monkeypatch: pytest.MonkeyPatch, seconds: float, executions: int
) -> None:
    clock = Clockwork()
    monkeypatch.setattr(stopwatch, "time", clock)
    version, begun = clock.contestant(seconds)
    watch = Stopwatch(cast(DeviceContext, clock), TimeOptions(limit_s=3.0))

    times = watch.measure(version, None)

    assert times.time.value == pytest.approx(seconds)
    assert times.converged and times.method == "events"
    assert abs(len(begun) - executions) <= 1  # a sum of hundredths may miss the tenth by one
    assert len(version.samples) == min(20, times.time.n)


def test_two_states_of_a_kernel_take_turns_so_that_neither_is_always_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clockwork()
    monkeypatch.setattr(stopwatch, "time", clock)
    new, new_begun = clock.contestant(0.0103)
    old, old_begun = clock.contestant(0.01)
    loads: list[int] = []

    def settle(load: Callable[[], None]) -> None:
        load()
        loads.append(len(new_begun))

    options = TimeOptions(pairs=True, min_samples=20, width=0.005)
    times = Stopwatch(cast(DeviceContext, clock), options).measure(new, old, settle)

    assert loads and loads[0] > 1  # once after the warm-up, with the work of both
    assert len(times.samples) == len(times.baseline_samples) == 20 and times.converged
    assert times.ratio is not None and times.ratio.value == pytest.approx(1 / 1.03)
    order = sorted([*((at, "B") for at in new_begun), *((at, "A") for at in old_begun)])
    assert "".join(name for _, name in order[-40:]) == "BAAB" * 10


def test_a_clock_that_wanders_prolongs_no_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """It moves all alike: their ratios stand, while the interval of each stays wide."""
    clock = Clockwork()
    monkeypatch.setattr(stopwatch, "time", clock)
    pace = [1.0]
    same, other, slow = (clock.contestant(seconds, pace)[0] for seconds in (0.01, 0.01003, 0.0103))
    paces = itertools.cycle([1.0, 1.2, 0.9, 1.1])
    watch = Stopwatch(cast(DeviceContext, clock), TimeOptions(limit_s=1e9))
    real = watch._hold_back
    monkeypatch.setattr(watch, "_hold_back", lambda: (pace.__setitem__(0, next(paces)), real()))

    left = watch.race([same, other, slow])

    assert left == [same]
    assert relative_width(median_interval(same.samples)) > 0.05
    assert [len(each.samples) for each in (same, other, slow)] == [20, 20, 20]


def test_without_pairs_the_single_times_stay_where_they_were_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clockwork()
    monkeypatch.setattr(stopwatch, "time", clock)
    (new, _), (old, _) = clock.contestant(0.01), clock.contestant(0.01)
    times = Stopwatch(cast(DeviceContext, clock), TimeOptions()).measure(new, old)
    assert times.samples == times.baseline_samples == ()


def test_what_restores_buffers_is_in_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clockwork()
    monkeypatch.setattr(stopwatch, "time", clock)
    version, begun = clock.contestant(0.3)
    restored: list[float] = []

    def restore() -> None:
        restored.append(clock.now)
        clock.now += 7.0

    version.restores = [(("fill y", restore),)] * 2
    times = Stopwatch(cast(DeviceContext, clock), TimeOptions(limit_s=3.0)).measure(version, None)

    assert times.time.value == pytest.approx(0.3)
    # Each launch but those of warm-up and estimate finds what the one before it on its set changed
    # put back.
    assert all(any(one < at < two for at in restored) for one, two in pairwise(begun[-6:]))
