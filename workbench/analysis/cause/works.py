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
from typing import NamedTuple

from workbench.analysis.absent import Maybe, over, times, total
from workbench.analysis.aggregate import value_of
from workbench.analysis.compare import Delta
from workbench.counters import catalog
from workbench.language import N_, _
from workbench.model import Launch, Profile

_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"


class Unit(NamedTuple):
    """A unit by the id of its resource: the counter of its share, its name, what is shared."""

    counter: str
    title: str
    metrics: tuple[str, ...]
    base: str = ""
    low: float = 60.0
    high: float = 85.0


#: Between `low` and `high` percent of its peak a unit begins to bind, as in `hypotheses`.
UNITS = {
    "l1_data": Unit(
        "l1_throughput",
        N_("the L1 data stage"),
        ("l1tex__data_pipe_lsu_wavefronts",),
        low=50,
        high=80,
    ),
    "l2": Unit(
        "l2_throughput", N_("the L2"), ("lts__t_sectors",), "lts__cycles_elapsed.avg", 60, 90
    ),
    "l2 by SM cycles": Unit("l2_throughput", N_("the L2"), ("lts__t_sectors",), "", 60, 90),
    "tensor": Unit(
        "tensor_utilization",
        N_("the tensor cores"),
        ("sm__pipe_tensor_cycles_active", "sm__inst_executed_pipe_tensor"),
    ),
    "fma": Unit("fma_utilization", N_("the FMA pipe"), ("sm__pipe_fma_cycles_active",)),
    "alu": Unit("alu_utilization", N_("the ALU pipe"), ("sm__pipe_alu_cycles_active",)),
    "xu": Unit("xu_utilization", N_("the XU pipe"), ("sm__inst_executed_pipe_xu",)),
    "fp64": Unit(
        "fp64_utilization",
        N_("the FP64 pipe"),
        ("sm__pipe_fp64_cycles_active", "sm__inst_executed_pipe_fp64"),
    ),
}

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
            own = launch.metrics.get(unit.base)
            cycles = (
                float(own.value) if own is not None and not isinstance(own.value, str) else None
            )
            cycles = cycles if unit.base else value_of(launch, "cycles")
            return times(over(float(metric.value), 100.0), cycles)
    return None


def change_of(resource: str, old: float, new: float, moved: bool) -> Delta:
    """The work of a unit on both sides, as a counter that was derived."""
    unit = UNITS[resource]
    known = catalog()[unit.counter]
    its, their = _("Time of {unit} at its peak rate"), _("Time of {unit} at their peak rate")
    return Delta(
        id=unit.counter,
        title=(their if unit.title.endswith("s") else its).format(unit=_(unit.title)),
        group=known.group,
        unit="cycle",
        better="lower",
        ncu=f"{unit.metrics[0]}{_ELAPSED} × {unit.base or 'cycles'}",
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
