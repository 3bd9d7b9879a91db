"""Under which conditions a time was measured: clocks, power, temperature, slow-downs.

Nothing is set here: clocks and power are what the machine gives. They are waited for, watched,
and told.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from workbench.analysis.timing import moved
from workbench.engines.gpu.nvml import Sampler
from workbench.model import DeviceState, Notice
from workbench.units import quantity

#: A clock that moves by more than this while we measure makes times hard to compare.
CLOCK_LIMIT = 0.03
#: The clock stands when so many readings, each after a stretch of load, lie this close together.
_READINGS, _STRETCH_S, _STANDING = 3, 0.03, 0.01
#: How long a hot chip is left alone before it is asked again.
_REST_S = 0.25


class Conditions:
    """Watches the device from entering to leaving; then `state` and `notices` stand.

    Args:
        bus_id: PCI address of the device.
        limit_s: How long `settle` may take.
    """

    def __init__(self, bus_id: str, limit_s: float = 5.0) -> None:
        self._sampler = Sampler(bus_id)
        self._limit_s = limit_s
        self._waited: float | None = None
        self._settled = True
        self.state: DeviceState | None = None
        self.notices: tuple[Notice, ...] = ()

    def __enter__(self) -> Conditions:
        self._sampler.start()
        return self

    def settle(self, load: Callable[[], None]) -> None:
        """Wait until the SM clock stands under load and no heat lowers it, within the limit.

        A chip without work lets its clock fall, so the clock is waited for at work; one that is
        too hot is left to cool. What is seen meanwhile is no part of `state`.

        Args:
            load: Does a little of the work that will be timed, and waits for its end.
        """
        begin = time.perf_counter()
        readings: list[float] = []
        self._settled = False
        while not self._settled and time.perf_counter() - begin < self._limit_s:
            end = time.perf_counter() + _STRETCH_S
            while time.perf_counter() < end:
                load()
            look = self._sampler.look()
            if look is None:  # nobody to ask
                self._settled = True
                return
            if look.hot:
                readings.clear()
                time.sleep(_REST_S)
                continue
            readings = [*readings, look.sm_clock][-_READINGS:]
            low, high = min(readings), max(readings)
            self._settled = len(readings) == _READINGS and moved(low, high) <= _STANDING
        self._waited = time.perf_counter() - begin
        self._sampler.forget()

    def __exit__(self, *exc: object) -> None:
        state = self._sampler.stop()
        if state is not None:
            state = replace(state, waited=self._waited, settled=self._settled)
        self.state = state
        self.notices = judge(state, self._sampler.slowed_by, self._sampler.problem)


def judge(
    state: DeviceState | None, slowed_by: tuple[str, ...], problem: str = ""
) -> tuple[Notice, ...]:
    """What a reader of the time should know about its conditions."""
    if state is None:
        return (
            Notice(
                code="no-clocks",
                message=f"Clocks and power were not recorded: {problem or 'no samples'}.",
            ),
        )
    notices = []
    if not state.settled:
        notices.append(
            Notice(
                code="unsettled",
                message="The chip's clock did not stand, or heat lowered it, for all of the "
                f"{quantity(state.waited or 0.0, 's')} that were waited before this was timed.",
            )
        )
    for name, (low, high) in (("SM", state.sm_clock), ("memory", state.memory_clock)):
        if moved(low, high) > CLOCK_LIMIT:
            notices.append(
                Notice(
                    code="clock-moved",
                    message=f"The {name} clock moved between {quantity(low, 'hz')} and "
                    f"{quantity(high, 'hz')} while this was timed.",
                )
            )
    if slowed_by:
        notices.append(
            Notice(
                code="throttled",
                message="The chip lowered its clocks while this was timed: "
                + ", ".join(slowed_by)
                + ".",
            )
        )
    return tuple(notices)
