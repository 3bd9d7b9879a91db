"""The work of units: a unit's share of its peak times all of the time.

ncu's set *basic* holds no counts, only how near each unit was to its peak; and no count measures
work whose instructions differ in size or cost. Share × cycles is what the unit needs for its work
at its peak rate, so its ratio on two sides is that of the work, whatever the peak is
(https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#metrics-structure). An SM's units
count its cycles. The L2 counts its own where a report holds them; its clock follows the SMs' within
2% in one run, and 7% in two.
"""

from __future__ import annotations

from workbench.analysis.aggregate import value_of
from workbench.analysis.compare import Delta
from workbench.analysis.limits.limit import RESOURCES, Resource, running_of
from workbench.analysis.optional import Maybe, over, times, total
from workbench.counters import catalog
from workbench.language import _
from workbench.model import Launch, Profile

_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
#: The counter that shows a unit without one in the catalog: the highest share of all.
_SHOWN = "sm_throughput"
UNITS: dict[str, Resource] = {unit.id: unit for unit in RESOURCES if not unit.rest}


def works_of(profile: Profile) -> dict[str, float]:
    """Cycles that units need at their peak, by the keys of `UNITS`; those known."""
    launches = [launch for launch in profile.launches if launch.profiled]
    found = {
        name: total(_work(launch, unit) for launch in launches) for name, unit in UNITS.items()
    }
    return {name: work for name, work in found.items() if work is not None}


def _work(launch: Launch, unit: Resource) -> Maybe:
    cycles = _read(launch, unit.clock) if unit.clock else None
    names = (name + _ELAPSED for name in unit.worked or unit.metrics)
    share = next((s for name in names if (s := _read(launch, name)) is not None), None)
    if share is None and unit.counter:  # older reports have it only for active cycles
        share = times(value_of(launch, unit.counter), running_of(launch).mean)
    return times(over(share, 100.0), cycles or value_of(launch, "cycles"))


def _read(launch: Launch, name: str) -> Maybe:
    metric = launch.metrics.get(name)
    return None if metric is None or isinstance(metric.value, str) else float(metric.value)


def change_of(resource: str, old: float, new: float, moved: bool) -> Delta:
    """The work of a unit on both sides, as a derived counter."""
    unit = UNITS[resource]
    known = catalog()[unit.counter or _SHOWN]
    its, their = _("Cycles of {unit} at its peak rate"), _("Cycles of {unit} at their peak rate")
    return Delta(
        id=known.id,
        title=(their if unit.named.endswith("s") else its).format(unit=unit.title),
        group=known.group,
        unit="cycle",
        better="lower",
        ncu=f"{(unit.worked or unit.metrics)[0]}{_ELAPSED} × {unit.clock or 'cycles'}",
        old=old,
        new=new,
        delta=new - old,
        relative=new / old - 1.0 if old else None,
        moved=moved,
        verdict="changed" if moved else "same",
        rule=_("derived: share of peak × cycles"),
        derived=True,
    )
