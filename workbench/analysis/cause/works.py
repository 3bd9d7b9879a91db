"""The work of units whose counts a report lacks: a unit's share of its peak times all of the time.

ncu's set *basic* holds no counts, but how near its peak every unit was. Share × cycles are the
cycles that the unit needs for its work at its peak rate, so that their ratio on two sides is that
of the work, whatever the peak is
(https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#metrics-structure). An SM's units
count its cycles. The L2 counts its own where a report holds them; its clock follows the SMs' within
2% in one run, and 7% in two.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.analysis.aggregate import value_of
from workbench.analysis.compare import Delta
from workbench.analysis.limits.limit import RESOURCES, Resource, ResourceId
from workbench.analysis.optional import Maybe, over, times, total
from workbench.counters import catalog
from workbench.gpus import of_all_chips
from workbench.language import _
from workbench.model import Launch, Profile, Record

_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"


class Unit(Record, frozen=True):
    """A unit that works, by its resource: a row of ``data/machine.toml``."""

    id: str
    of: ResourceId
    metrics: tuple[str, ...]
    cycles: str = ""
    low: float = 60.0
    high: float = 85.0

    @property
    def resource(self) -> Resource:
        """What it is called, and the counter of its share."""
        return next(each for each in RESOURCES if each.id == self.of)


UNITS = {unit.id: unit for unit in of_all_chips("work", Unit)}

#: Units whose work no count of the catalog says: an instruction of theirs may be of any size.
UNCOUNTED = ("tensor",)


def works_of(profile: Profile) -> dict[str, float]:
    """Cycles that units need at their peak, by the keys of `UNITS`; those known."""
    launches = [launch for launch in profile.launches if launch.profiled]
    found = {
        name: total(_work(launch, unit) for launch in launches) for name, unit in UNITS.items()
    }
    return {name: work for name, work in found.items() if work is not None}


def _work(launch: Launch, unit: Unit) -> Maybe:
    for name in unit.metrics:
        metric = launch.metrics.get(name + _ELAPSED)
        if metric is not None and not isinstance(metric.value, str):
            own = launch.metrics.get(unit.cycles)
            cycles = (
                float(own.value) if own is not None and not isinstance(own.value, str) else None
            )
            cycles = cycles if unit.cycles else value_of(launch, "cycles")
            return times(over(float(metric.value), 100.0), cycles)
    return None


def change_of(resource: str, old: float, new: float, moved: bool) -> Delta:
    """The work of a unit on both sides, as a counter that was derived."""
    unit = UNITS[resource]
    named, known = unit.resource.named, catalog()[unit.resource.counter]
    its, their = _("Time of {unit} at its peak rate"), _("Time of {unit} at their peak rate")
    return Delta(
        id=known.id,
        title=(their if named.endswith("s") else its).format(unit=_(named)),
        group=known.group,
        unit="cycle",
        better="lower",
        ncu=f"{unit.metrics[0]}{_ELAPSED} × {unit.cycles or 'cycles'}",
        old=old,
        new=new,
        delta=new - old,
        relative=new / old - 1.0 if old else None,
        moved=moved,
        verdict="changed" if moved else "same",
        rule=_("derived: share of peak × cycles"),
        derived=True,
    )


def lacking(deltas: Sequence[Delta]) -> bool:
    """Whether a side holds no counts, so that shares of peaks are all that can be compared."""
    return any(delta.id == "instructions" and delta.derived for delta in deltas)
