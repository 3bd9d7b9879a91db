"""Arithmetic done and bytes moved by a launch: where it stands under the roofline.

Work is what the launch executed, not what the study says a job needs, so that a
report from anywhere has a point and recomputation counts. Its roof is that of the
unit that did most of it (see `workbench.analysis.arithmetic`); a launch whose work
cannot be counted gets a reason instead of a point in the wrong place.

Model: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual
performance model for multicore architectures", CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from workbench.analysis.aggregate import value_of
from workbench.analysis.arithmetic import Unit, work
from workbench.counters import Missing
from workbench.gpus import Chip, chip_for
from workbench.model import Launch, Record, Timing

Level = Literal["L1", "L2", "DRAM"]
#: From the registers outwards.
LEVELS: tuple[Level, ...] = ("L1", "L2", "DRAM")

_SECTOR_BYTES = 32
_L2_SHARE = "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"
#: Every byte of device memory that SMs ask for by loads and stores crosses the L1. Less than
#: this part of it there means that other instructions (bulk copies) moved the rest.
_PASSED_BY = 0.1
#: Operations per byte from which arithmetic decides, on chips that the table does not list.
_RIDGE = 10.0

RateUnit = Literal["flop/s", "op/s", "byte/s"]
Work = Literal["flop", "op"]


class Position(Record, frozen=True):
    """A launch under the roofline.

    `work` is operations by unit, `seconds` the duration seen by the same profiler,
    `traffic` the bytes that crossed each level that was measured.
    """

    work: dict[Unit, float]
    seconds: float
    traffic: dict[Level, float]

    @property
    def flops(self) -> float:
        """Operations of all units; on int8 units, integer ones."""
        return sum(self.work.values())

    @property
    def unit(self) -> Unit:
        """What did most of the work, and so sets the roof."""
        return max(self.work, key=lambda unit: self.work[unit])

    @property
    def rate(self) -> float:
        """Achieved operations per second."""
        return self.flops / self.seconds

    def intensity(self, level: Level) -> float | None:
        """Operations per byte at a level; None where its bytes are unknown or zero."""
        moved = self.traffic.get(level)
        return self.flops / moved if moved else None


class Roof(Record, frozen=True):
    """Ceilings: operations per second of a unit, bytes per second of each level. 0: unknown.

    `bandwidth` is that of device memory, by its data sheet; of `l1` 128 bytes per cycle and SM
    (NVIDIA's hardware model); of `l2` what the report's own percentage of peak makes of the
    sectors that it counted.
    """

    flops: float = 0.0
    bandwidth: float = 0.0
    unit: Unit = "float32"
    l1: float = 0.0
    l2: float = 0.0

    def slope(self, level: Level) -> float:
        """Bytes per second that a level moves at most; 0: unknown."""
        return {"L1": self.l1, "L2": self.l2, "DRAM": self.bandwidth}[level]

    def above(self, intensity: float, level: Level) -> float:
        """The rate that the roof allows at an intensity of a level; 0: unknown."""
        slope = intensity * self.slope(level)
        return min(self.flops, slope) if self.flops and slope else self.flops


def roof(chip: Chip | None, launch: Launch, unit: Unit) -> Roof:
    """The ceilings for a unit, at the clock that the profiler saw, else the device's own."""
    if chip is None:
        return Roof(unit=unit)
    clock = value_of(launch, "sm_clock") or None
    tensor = {
        "tensor half": chip.tensor_half,
        "tensor TF32": chip.tensor_tf32,
        "tensor int8": chip.tensor_int8,
    }
    fp32 = unit == "float32"
    peak = chip.fp32_peak(clock) if fp32 else chip.tensor_peak(tensor.get(unit, 0), clock)
    return Roof(
        flops=peak,
        bandwidth=chip.memory_bandwidth,
        unit=unit,
        l1=chip.line_bytes * chip.sms * (clock or chip.sm_clock),
        l2=_l2_bandwidth(launch),
    )


def _l2_bandwidth(launch: Launch) -> float:
    """Bytes per second of the L2 at its peak, from the share of it that the launch reached."""
    sectors, seconds = value_of(launch, "l2_sectors"), value_of(launch, "duration")
    share = launch.metrics.get(_L2_SHARE)
    if not sectors or not seconds or share is None or isinstance(share.value, str):
        return 0.0
    return _SECTOR_BYTES * sectors / seconds / (share.value / 100) if share.value > 0 else 0.0


def roofs(places: Iterable[tuple[Launch, Position]], chip: Chip | None) -> tuple[Roof, ...]:
    """One roof for each unit that did the work of some launch, at the highest clock seen."""
    tops: dict[Unit, Roof] = {}
    for launch, place in places:
        one = roof(chip, launch, place.unit)
        tops[place.unit] = max(tops.get(place.unit, one), one, key=lambda item: item.flops)
    return tuple(tops.values())


def traffic(launch: Launch) -> dict[Level, float]:
    """Bytes that crossed each level of the memory hierarchy, where the report tells."""
    out: dict[Level, float] = {}
    loads = value_of(launch, "global_load_sectors")
    stores = value_of(launch, "global_store_sectors")
    if loads is not None or stores is not None:
        local = value_of(launch, "local_sectors") or 0.0
        out["L1"] = _SECTOR_BYTES * ((loads or 0.0) + (stores or 0.0) + local)
    l2 = value_of(launch, "l2_sectors")
    if l2 is not None:
        out["L2"] = _SECTOR_BYTES * l2
    dram = value_of(launch, "dram_bytes")
    if dram is not None:
        out["DRAM"] = dram
        # Bulk copies pass the counted loads by; what is left of L1 traffic then says nothing.
        if out.get("L1", dram) < dram * _PASSED_BY:
            del out["L1"]
    return out


def position(launch: Launch) -> Position | Missing:
    """Place a launch under the roofline, or say why it has no place there."""
    seconds = value_of(launch, "duration")
    done = work(launch)
    if isinstance(done, Missing):
        return done
    if not seconds:
        return Missing("the report holds no duration")
    if not done:
        return Missing("it executed no float32 operation, matrix product or byte dot product")
    moved = traffic(launch)
    if not any(moved.values()):
        return Missing("the report holds no memory traffic")
    return Position(work=done, seconds=seconds, traffic=moved)


def rate_unit(timings: Sequence[Timing], work: Work = "flop") -> RateUnit:
    """Whether arithmetic or memory bounds the study: by the intensity of its largest problem.

    The problem's operations per byte of least traffic, against those at which the chip's
    float32 peak and its memory bandwidth meet.
    """
    arithmetic: RateUnit = "op/s" if work == "op" else "flop/s"
    largest = max(timings, key=lambda t: (t.flops, t.bytes), default=None)
    if largest is None or not largest.bytes:
        return arithmetic
    chip = chip_for(largest.device)
    ridge = chip.fp32_peak() / chip.memory_bandwidth if chip and chip.memory_bandwidth else 0.0
    return "byte/s" if largest.flops / largest.bytes < (ridge or _RIDGE) else arithmetic


def rate(timing: Timing, unit: RateUnit) -> float | None:
    """Work of the problem per second of this version; None where the study gives none."""
    work = timing.bytes if unit == "byte/s" else timing.flops
    return work / timing.time.value if work and timing.time.value else None
