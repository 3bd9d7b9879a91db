"""Clocks and heat: waited for within a limit, watched, told, and never changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace

import pytest

from workbench.engines.gpu import stopwatch
from workbench.engines.gpu.stopwatch import Conditions, judge
from workbench.model import DeviceState

_HEAT = 0x20


class Chip(ModuleType):
    """NVML of a chip whose clock and reasons follow a script; any other call is an error."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = "sm", "memory", "gpu"

    class NVMLError(Exception):
        pass

    def __init__(self, looks: Callable[[float], tuple[float, int]]) -> None:
        super().__init__("pynvml")
        self.now = 0.0
        self.loads = 0
        self._looks = looks

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByPciBusId(self, bus_id: bytes) -> str:
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle: str, which: str) -> float:
        return self._looks(self.now)[0] if which == "sm" else 3201

    def nvmlDeviceGetPowerUsage(self, handle: str) -> float:
        return 300_000

    def nvmlDeviceGetTemperature(self, handle: str, which: str) -> float:
        return 60

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return self._looks(self.now)[1]

    # --- time: of load, and of rest

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def load(self) -> None:
        self.loads += 1
        self.now += 0.01


@pytest.fixture
def chip(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Chip]]:
    def make(looks: Callable[[float], tuple[float, int]]) -> Chip:
        made = Chip(looks)
        monkeypatch.setitem(sys.modules, "pynvml", made)
        clock = SimpleNamespace(perf_counter=made.perf_counter, sleep=made.sleep)
        monkeypatch.setattr(stopwatch, "time", clock)
        return made

    yield make


def settled(chip: Chip, limit_s: float = 5.0) -> Conditions:
    with Conditions("0000:00:00.0", limit_s) as watched:
        watched.settle(chip.load)
    return watched


def state(watched: Conditions) -> DeviceState:
    assert watched.state is not None and watched.state.waited is not None
    return watched.state


def test_a_clock_that_stands_is_found_at_once(chip: Callable[..., Chip]) -> None:
    watched = settled(chip(lambda now: (1980, 0)))
    assert state(watched).settled and state(watched).waited == pytest.approx(0.09, abs=0.02)
    assert watched.notices == ()


def test_a_clock_that_rises_is_waited_for_and_what_it_was_is_not_recorded(
    chip: Callable[..., Chip],
) -> None:
    rising = settled(chip(lambda now: (min(1980, 345 + 1000 * now), 0)))
    assert 1.6 < (state(rising).waited or 0) < 2.0
    assert state(rising).sm_clock == (1980e6, 1980e6) and rising.notices == ()


def test_a_hot_chip_is_left_to_cool(chip: Callable[..., Chip]) -> None:
    made = chip(lambda now: (1980, _HEAT if now < 2 else 0))
    watched = settled(made)
    assert state(watched).settled and 2.0 < (state(watched).waited or 0) < 2.6
    assert made.loads < 50  # it rested between
    assert watched.notices == ()  # it was hot before, and not while it was measured


@pytest.mark.parametrize(
    "looks", [lambda now: (1980, _HEAT), lambda now: (1980 if int(now / 0.03) % 2 else 1500, 0)]
)
def test_the_wait_is_bounded_and_told(
    chip: Callable[..., Chip], looks: Callable[[float], tuple[float, int]]
) -> None:
    watched = settled(chip(looks), limit_s=3.0)
    assert not state(watched).settled and 3.0 <= (state(watched).waited or 0) < 3.5
    assert "unsettled" in {notice.code for notice in watched.notices}


def test_without_nvml_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    loads: list[int] = []
    with Conditions("0000:00:00.0") as watched:
        watched.settle(lambda: loads.append(1))
    assert watched.state is None and [each.code for each in watched.notices] == ["no-clocks"]


def test_a_clock_that_moved_and_a_chip_that_was_slowed_are_told() -> None:
    moved = DeviceState(sm_clock=(1.5e9, 1.98e9), memory_clock=(3.2e9, 3.2e9), waited=0.1)
    codes = [notice.code for notice in judge(moved, ("power cap",))]
    assert codes == ["clock-moved", "throttled"]
