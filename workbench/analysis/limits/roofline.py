"""The work of a launch: arithmetic by unit, bytes by level, and its place under the roofline.

Work is executed work, not the job's need according to the study: recomputation counts. Its roof is
that of the unit that did most of it; a launch whose work cannot be counted gets a reason.

Model: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual
performance model for multicore architectures", CACM 52(4), 2009.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Literal, NamedTuple

from workbench.analysis.aggregate import Recent, near, value_of
from workbench.analysis.optional import plus
from workbench.counters import Missing, Reading, read
from workbench.gpus import SECTOR_BYTES, WAVEFRONT_BYTES, Chip, chip_for
from workbench.language import _
from workbench.model import Dim3, Launch, Number, Profile, Record, Timing
from workbench.sass import (
    GLOBAL_ATOMICS,
    GLOBAL_LOADS,
    GLOBAL_STORES,
    OPCODES,
    lane_width,
    matrix_product,
    opcode_of,
    product_operations,
    those,
)

# --- Arithmetic, by the unit that does it, and the bytes of lanes ---------------------------------
#
# Float32 work has hardware counters (the catalog's `flops`). Matrix products and byte dot products
# have no counter with one name on every chip and ncu version; but a SASS opcode gives the shape of
# its product, so executions times shape is the same number: ``HMMA.16816.F32`` multiplies 16×16 by
# 16×8, 2·16·8·16 operations of a warp. In the same way a store's width times its lanes is the
# number of bytes written, whatever the sectors were.

Unit = Literal["float32", "tensor half", "tensor TF32", "tensor int8", "dp4a"]

#: A byte dot product: four multiplications and four additions by a thread.
_DP4A = 8
#: A product of two halves with two bytes: two multiplications and two additions by a thread.
_DP2A = 4
_FMA = 2
#: Forms of IMAD that do not really multiply.
_MOVES = {"MOV", "SHL", "IADD"}
#: Writers whose bytes do not follow from lanes: bulk copies, surfaces, atomics on the same word.
_UNTOLD = GLOBAL_ATOMICS | those(lambda row: row.access == "bulk out") | {"UBLKCP", "SUST"}


def _product(opcode: str, modifiers: Set[str]) -> tuple[Unit, float] | None:
    """Unit and operations of one execution by one warp; None if the shape is unknown."""
    if "SP" in modifiers:
        return None
    operations = product_operations(modifiers)
    unit = OPCODES[opcode].unit if opcode in OPCODES else ""
    if not operations or not unit:
        return None
    if unit == "tensor int8":
        # Four-bit integers share the opcode; only bytes have this unit's roof.
        return (unit, operations) if {"S8", "U8"} & {*modifiers} else None
    return ("tensor TF32" if "TF32" in modifiers else unit), operations


def _machine_work(launch: Launch) -> dict[Unit, float] | Missing:
    """Work of matrix units and byte dot products, from the instruction table."""
    table = launch.instructions
    warps = table.columns.get("inst_executed")
    threads = table.columns.get("thread_inst_executed_true")
    if warps is None:
        return Missing(_("its machine code was not counted"))
    out: dict[Unit, float] = {}
    for row, count in zip(warps.rows, warps.values, strict=True):
        opcode, modifiers = opcode_of(table.text[row])
        if not count or not matrix_product(opcode):
            continue
        product = _product(opcode, modifiers)
        if product is None:
            return Missing(
                _("the operations of {split_0} are not known").format(
                    split_0=table.text[row].split()[0]
                )
            )
        unit, operations = product
        out[unit] = out.get(unit, 0.0) + operations * count
    if threads is not None:
        for row, count in zip(threads.rows, threads.values, strict=True):
            opcode, modifiers = opcode_of(table.text[row])
            if opcode == "IDP" and "4A" in modifiers:
                out["dp4a"] = out.get("dp4a", 0.0) + _DP4A * count
    return out


#: Charts, panels and limits all use it.
_recent = Recent(_machine_work)
#: The matrix units' counter shows a few hundredths of a percent just for barriers.
_TENSOR_NOISE_PERCENT = 1.0


def work(launch: Launch) -> dict[Unit, float] | Missing:
    """Operations of a launch by unit; a multiply-add counts as two.

    Float64 is not counted; a launch with mostly float64 work, or whose matrix products cannot be
    counted, gets the reason instead.
    """
    flops = read(launch, "flops")
    if isinstance(flops, Missing):
        return flops
    machine = _recent(launch)
    used = read(launch, "tensor_utilization")
    if isinstance(used, Reading) and used.value > _TENSOR_NOISE_PERCENT:
        if isinstance(machine, Missing):
            return Missing(
                _("it worked on tensor cores, but {reason}").format(reason=machine.reason)
            )
        if not any(unit.startswith("tensor") for unit in machine):
            return Missing(_("it worked on tensor cores, but its machine code shows no such work"))
    if isinstance(machine, Missing):
        machine = {}
    total: dict[Unit, float] = {"float32": float(flops.value), **machine}
    double = read(launch, "dfma_threads")
    if isinstance(double, Reading) and 2 * double.value > sum(total.values()):
        return Missing(_("most of its work is float64, which is not counted here"))
    return {unit: count for unit, count in total.items() if count}


def operations_of(launch: Launch) -> float | None:
    """Operations on floats, matrix products and byte dot products; a multiply-add counts as two.

    None if `work` cannot count them.
    """
    return _operations(launch)


def _count_operations(launch: Launch) -> float | None:
    known = work(launch)
    if isinstance(known, Missing):
        return None
    double = read(launch, "dfma_threads")
    doubles = _FMA * float(double.value) if isinstance(double, Reading) else 0.0
    halves = 0.0
    for text, opcode, modifiers, lanes in executed(launch):
        # Constants are made by adding to a product with zero; HADD2.F32 converts.
        packed = OPCODES[opcode].packed if opcode in OPCODES else 0
        if packed and "RZ, RZ" not in text and "F32" not in modifiers:
            halves += packed * lanes
    return sum(known.values()) + doubles + halves


def all_arithmetic(launch: Launch) -> float | None:
    """`operations_of` plus the products of integers; None without machine code."""
    operations = operations_of(launch)
    if operations is None or "thread_inst_executed_true" not in launch.instructions.columns:
        return None
    integers = 0.0
    for __, opcode, modifiers, lanes in executed(launch):
        if opcode == "IMAD" and not _MOVES & modifiers:
            integers += _FMA * lanes
        elif opcode == "IDP" and "2A" in modifiers:
            integers += _DP2A * lanes
    return operations + integers


def stored_bytes(launch: Launch) -> float | None:
    """Bytes that the lanes of store instructions write to global memory.

    None without machine code, or if bulk copies or atomics write as well.
    """
    return _stored(launch)


#: Both sides of a step need the same launch.
_operations: Recent[Launch, float | None] = Recent(_count_operations)
_stored: Recent[Launch, float | None] = Recent(lambda launch: _lane_bytes(launch, GLOBAL_STORES))


def loaded_bytes(launch: Launch) -> float | None:
    """Bytes that the lanes of load instructions read from global memory; None if unknown."""
    return _loaded(launch)


_loaded: Recent[Launch, float | None] = Recent(lambda launch: _lane_bytes(launch, GLOBAL_LOADS))


def _lane_bytes(launch: Launch, opcodes: frozenset[str]) -> float | None:
    total, known = 0.0, False
    for __, opcode, modifiers, lanes in executed(launch):
        known = True
        if opcode in _UNTOLD:
            return None
        if opcode in opcodes:
            total += lanes * lane_width(modifiers)
    return total if known else None


def executed(launch: Launch) -> Iterator[tuple[str, str, frozenset[str], Number]]:
    """Text, opcode, modifiers and lanes of every machine instruction that ran."""
    table = launch.instructions
    column = table.columns.get("thread_inst_executed_true")
    if column is None:
        return
    for row, lanes in zip(column.rows, column.values, strict=True):
        opcode, modifiers = opcode_of(table.text[row])
        if opcode and lanes:
            yield table.text[row], opcode, modifiers, lanes


Measure = Callable[[Launch], float | None]


class Amounts(NamedTuple):
    """Work on both sides, (old, new): all launches together, and every configuration once."""

    together: tuple[float, float]
    once: tuple[float, float]

    @property
    def changed(self) -> float:
        """The smaller of the two factors, at least 1; 1 if the readings disagree."""
        ratios = [new / old if old and new else 0.0 for old, new in self]
        if min(ratios) <= 0 or (ratios[0] > 1) != (ratios[1] > 1):
            return 1.0
        return min(max(ratio, 1 / ratio) for ratio in ratios)


def amounts_of(sides: tuple[Profile, Profile], measure: Measure) -> Amounts | None:
    """`measure` for both sides; None if a launch has no number."""
    found = [_read_once(side, measure) for side in sides]
    together, once = ([reading[i] for reading in found] for i in (0, 1))
    if together[0] is None or together[1] is None or once[0] is None or once[1] is None:
        return None
    return Amounts((together[0], together[1]), (once[0], once[1]))


def each_once(profile: Profile, measure: Measure) -> float | None:
    """The sum of the means of every kernel and configuration: repetitions do not count."""
    return _read_once(profile, measure)[1]


def _read_once(profile: Profile, measure: Measure) -> tuple[float | None, float | None]:
    groups: dict[tuple[object, ...], list[float]] = defaultdict(list)
    grids: list[Dim3] = []
    for launch in measured(profile):
        amount = measure(launch)
        if amount is None:
            return None, None
        grid = next((each for each in grids if near(launch.grid, each)), launch.grid)
        grids.append(grid)
        groups[(launch.kernel, launch.signature, grid, launch.block)].append(amount)
    if not groups:
        return None, None
    sums = [(sum(group), len(group)) for group in groups.values()]
    return sum(total for total, __ in sums), sum(total / number for total, number in sums)


def measured(profile: Profile) -> list[Launch]:
    """The launches that were profiled."""
    return [launch for launch in profile.launches if launch.profiled]


Level = Literal["shared", "L1", "L2", "DRAM"]
#: Levels, from the registers outwards.
LEVELS: tuple[Level, ...] = ("shared", "L1", "L2", "DRAM")

_L2_SHARE = "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"
#: Every byte of device memory that SMs load or store by instructions crosses the L1. If less than
#: this part of it is counted there, other instructions (bulk copies) moved the rest.
_PASSED_BY = 0.1
#: The operations per byte from which arithmetic limits, for chips that the table does not list.
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
        """Operations of all units; integer operations on int8 units."""
        return sum(self.work.values())

    @property
    def unit(self) -> Unit:
        """The unit that did most of the work, and so sets the roof."""
        return max(self.work, key=lambda unit: self.work[unit])

    @property
    def rate(self) -> float:
        """Achieved operations per second."""
        return self.flops / self.seconds

    def intensity(self, level: Level) -> float | None:
        """Operations per byte at a level; None if its bytes are unknown or zero."""
        moved = self.traffic.get(level)
        return self.flops / moved if moved else None


class Roof(Record, frozen=True):
    """Ceilings: operations per second of a unit, bytes per second of each level. 0: unknown.

    `bandwidth` is device memory's by its data sheet; `l1` (the same for shared memory) that of 128
    bytes per cycle and SM (NVIDIA's hardware model); `l2` the counted sectors divided by the
    report's own percentage of peak.
    """

    flops: float = 0.0
    bandwidth: float = 0.0
    unit: Unit = "float32"
    l1: float = 0.0
    l2: float = 0.0

    def slope(self, level: Level) -> float:
        """The most bytes per second that a level moves; 0: unknown."""
        return {"L2": self.l2, "DRAM": self.bandwidth}.get(level, self.l1)

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
    """Bytes per second of the L2 at its peak, from the share of peak that the launch reached."""
    sectors, seconds = value_of(launch, "l2_sectors"), value_of(launch, "duration")
    share = launch.metrics.get(_L2_SHARE)
    if not sectors or not seconds or share is None or isinstance(share.value, str):
        return 0.0
    return SECTOR_BYTES * sectors / seconds / (share.value / 100) if share.value > 0 else 0.0


def roofs(places: Iterable[tuple[Launch, Position]], chip: Chip | None) -> tuple[Roof, ...]:
    """One roof for each unit that did the work of some launch, at the highest clock seen."""
    tops: dict[Unit, Roof] = {}
    for launch, place in places:
        one = roof(chip, launch, place.unit)
        tops[place.unit] = max(tops.get(place.unit, one), one, key=lambda item: item.flops)
    return tuple(tops.values())


def traffic(launch: Launch) -> dict[Level, float]:
    """Bytes that crossed each level of the memory hierarchy, if the report holds them.

    For shared memory, those that its wavefronts could have moved: conflicts take equal cycles.
    """
    out: dict[Level, float] = {}
    wavefronts = value_of(launch, "shared_wavefronts")
    if wavefronts is not None:
        out["shared"] = WAVEFRONT_BYTES * wavefronts
    loads = value_of(launch, "global_load_sectors")
    stores = value_of(launch, "global_store_sectors")
    passed = plus(loads, stores, value_of(launch, "local_sectors"))
    if passed is not None:
        out["L1"] = SECTOR_BYTES * passed
    l2 = value_of(launch, "l2_sectors")
    if l2 is not None:
        out["L2"] = SECTOR_BYTES * l2
    dram = value_of(launch, "dram_bytes")
    if dram is not None:
        out["DRAM"] = dram
        # Bulk copies bypass the counted loads; the rest of the L1 traffic then means nothing.
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
        return Missing(_("the report holds no duration"))
    if not done:
        return Missing(_("it executed no float32 operation, matrix product or byte dot product"))
    moved = traffic(launch)
    if not any(moved[level] for level in moved if level != "shared"):
        return Missing(_("the report holds no memory traffic"))
    return Position(work=done, seconds=seconds, traffic=moved)


def rate_unit(timings: Sequence[Timing], work: Work = "flop") -> RateUnit:
    """The rate that bounds the study, arithmetic or memory, by its largest problem's intensity.

    The problem's operations per byte of least traffic are compared with those at which the chip's
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
    """Work of the problem per second of this version; None if the study does not give the work."""
    work = timing.bytes if unit == "byte/s" else timing.flops
    return work / timing.time.value if work and timing.time.value else None
