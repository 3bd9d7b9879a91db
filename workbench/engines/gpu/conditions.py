"""Under which conditions a time was measured: clocks, power, temperature, slow-downs."""

from __future__ import annotations

from workbench.analysis.timing import moved
from workbench.engines.gpu.nvml import Sampler
from workbench.model import DeviceState, Notice
from workbench.units import quantity

#: A clock that moves by more than this while we measure makes times hard to compare.
CLOCK_LIMIT = 0.03


class Conditions:
    """Watches the device from entering to leaving; then `state` and `notices` stand.

    Args:
        bus_id: PCI address of the device.
    """

    def __init__(self, bus_id: str) -> None:
        self._sampler = Sampler(bus_id)
        self.state: DeviceState | None = None
        self.notices: tuple[Notice, ...] = ()

    def __enter__(self) -> Conditions:
        self._sampler.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.state = self._sampler.stop()
        self.notices = judge(self.state, self._sampler.slowed_by, self._sampler.problem)


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
