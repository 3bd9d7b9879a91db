"""How long SMs were active: what a launch itself takes, and what blocks that end unevenly cost.

``sm__cycles_active`` counts the cycles in which an SM held a warp, ``sm__cycles_elapsed`` all of
them (https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#metrics-structure). What the
busiest SM was idle, no grid fills: the launch has to begin and to end, which took 1.2 to 2.4 µs
of nine launches of ten that were recorded here. What the mean SM was idle beyond that, blocks left.
"""

from __future__ import annotations

from workbench.analysis.aggregate import value_of
from workbench.model import Launch, Record

#: A part of the SMs' cycles that limits before any unit does: blocks that leave it idle, ...
UNEVEN = 0.25
#: ... or the launch itself, where no unit is full while SMs are active, ...
SHORT = 1 / 3
#: ... or even where one is.
VERY_SHORT = 0.5


class Running(Record, frozen=True):
    """Parts (0-1) of a launch's cycles in which the mean SM and the busiest one were active.

    `busiest` is 1 where only the mean is known: then nothing is said of the launch itself.
    """

    mean: float
    busiest: float = 1.0

    @property
    def outside(self) -> float:
        """Part of the cycles in which not even the busiest SM was active, at most."""
        return 1.0 - self.busiest

    @property
    def uneven(self) -> float:
        """Part of the busiest SM's cycles in which the mean one had no block."""
        return 1.0 - self.mean / self.busiest

    @property
    def short(self) -> bool:
        """Whether the launch itself takes more of the time than blocks leave idle."""
        return self.outside >= SHORT and self.outside > self.busiest - self.mean


#: Of a launch of which nothing is known.
UNKNOWN = Running(mean=1.0)


def running_of(launch: Launch) -> Running:
    """How long SMs were active in one launch; `UNKNOWN`, all of the time, where no counter says."""
    mean, busiest, elapsed = (
        value_of(launch, name) for name in ("active_cycles", "busiest_cycles", "cycles")
    )
    if not mean or not elapsed:
        return UNKNOWN
    # Passes of one launch differ by some cycles.
    most = min(max(busiest, mean) / elapsed, 1.0) if busiest else 1.0
    return Running(mean=min(mean / elapsed, most), busiest=most)
