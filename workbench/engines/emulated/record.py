"""An emulated launch as the records of `workbench.model`.

A metric has ncu's name only if ncu defines it by addresses and masks alone; a metric that counts
PTX instructions has the prefix ``ptx__``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ptxemu import SECTOR, Counts, Executed, MachineCode, Module
from workbench.analysis.aggregate import COMPILED
from workbench.analysis.limits.occupancy import LEAST_REGISTERS, of_block, unfit
from workbench.compile.build import BuildResult
from workbench.compile.image import code_digests
from workbench.engines.emulated.chips import device_of
from workbench.gpus import Chip, chip_for
from workbench.model import (
    Build,
    ByTiming,
    Column,
    Device,
    InstructionTable,
    KernelResources,
    Launch,
    Metric,
    Number,
    SourceFile,
)
from workbench.specs import Version
from workbench.study.launches import ResolvedLaunch
from workbench.study.mangling import demangled, own_name
from workbench.study.signatures import launch_key

_ADDRESS_STEP = 16  # as wide as a machine instruction; PTX has no addresses of its own

Get = Callable[[Executed], Number]
_GLOBAL = ("global", "generic")


def _from(spaces: tuple[str, ...], name: str) -> Get:
    def get(row: Executed) -> Number:
        return getattr(row.site, name) if row.site.space in spaces else 0

    return get


#: ncu name -> a row's contribution. Their sums are the kernel's metrics as well.
COLUMNS: dict[str, tuple[Get, str]] = {
    "memory_l2_theoretical_sectors_global": (_from(_GLOBAL, "sectors"), "sector"),
    "memory_l2_theoretical_sectors_global_ideal": (_from(_GLOBAL, "ideal"), "sector"),
    "memory_l1_tag_requests_global": (_from(_GLOBAL, "tags"), "request"),
    "memory_l2_theoretical_sectors_local": (_from(("local",), "sectors"), "sector"),
    "memory_l1_wavefronts_shared": (lambda row: row.site.wavefronts, "wavefront"),
    "memory_l1_wavefronts_shared_ideal": (lambda row: row.site.wideal, "wavefront"),
    "smsp__branch_targets_threads_divergent": (lambda row: row.site.divergent, "branch"),
    "ptx__inst_executed": (lambda row: row.warps, "inst"),
    "ptx__thread_inst_executed": (lambda row: row.threads, "inst"),
    "ptx__thread_inst_executed_true": (lambda row: row.on, "inst"),
}


#: A share of the moved bytes, for kernels that move more than their sectors show.
_PER_BYTE = "ptx__operations_per_l2_byte"
#: The least cycles by all known units, and the unit that binds.
_LEAST, _BINDS = "ptx__bound_cycles", "ptx__bound_by"
_TEXTURE_SECTORS = "l1tex__t_sectors_pipe_tex_mem_texture.sum"


#: Metrics from which texture fetches are missing.
TEXTURES_UNCOUNTED = "requests of texture fetches to L1 and L2 are unknown and not counted"


def texture_fetches(rows: Sequence[Executed]) -> list[Executed]:
    """The texture fetches that ran."""
    return [row for row in rows if row.warps and row.site.space == "texture"]


#: Metrics that depend on the number of issued machine instructions.
ISSUED = (
    "ptx__machine_inst_estimate",
    "ptx__bound_cycles_issue_slots",
    "ptx__machine_local_ld_estimate",
    "ptx__machine_local_st_estimate",
    "ptx__machine_local_sectors_estimate",
)
_LOCAL_SECTORS = "memory_l2_theoretical_sectors_local"
_SPILLS = "ptx__machine_spill_estimate"


def _absent(rows: list[Executed], calls: str) -> dict[str, str]:
    """Metrics that would omit some of the kernel's work, and why; `calls` is from `not_counted`."""
    why = "bulk copies also move data, and no count of sectors includes them"
    out = {_PER_BYTE: why} if any(row.copied for row in rows) else {}
    if texture_fetches(rows):
        absent = (_PER_BYTE, _LEAST, _BINDS, _TEXTURE_SECTORS)
        out |= dict.fromkeys(absent, TEXTURES_UNCOUNTED)
    return out | (dict.fromkeys(ISSUED, f"not counted: {calls}") if calls else {})


def not_counted(code: MachineCode | None, module: Module) -> str:
    """Describe calls of routines whose instructions were not counted; empty if all were.

    `code` is the code that the launch issued, if known.
    """
    if code is None or code.complete:
        return ""
    calls: Counter[tuple[str, str]] = Counter()
    for each in code.left_out:
        calls[each.routine, module.where(each.instr)] += each.calls
    return ", ".join(
        f"{often:,} {'call' if often == 1 else 'calls'} of {routine} ({place})"
        for (routine, place), often in calls.most_common(3)
    )


def _plain(value: float) -> Number:
    return int(value) if float(value).is_integer() else value


def sources_of(module: Module, built: BuildResult) -> tuple[SourceFile, ...]:
    """The files that the PTX names, in its order; with text if they are our own."""
    own = {source.path: source for source in built.sources}
    names = list(dict.fromkeys([*module.files.values(), *own]))
    return tuple(own.get(name, SourceFile(path=name)) for name in names)


def instruction_table(
    counts: Counts, module: Module, sources: tuple[SourceFile, ...], issued: Sequence[float] | None
) -> InstructionTable:
    """The PTX instructions with their non-zero counters; `issued`: the machine's for each."""
    place = {source.path: index for index, source in enumerate(sources)}
    rows = counts.rows
    homes = [module.place(row.instr) for row in rows]
    columns = {}
    found_in: dict[str, tuple[Sequence[float], str]] = {
        name: ([get(row) for row in rows], unit) for name, (get, unit) in COLUMNS.items()
    }
    if issued is not None:
        found_in["ptx__machine_inst_estimate"] = issued, "inst"
    for name, (values, unit) in found_in.items():
        found = [(index, _plain(value)) for index, value in enumerate(values)]
        kept = [(index, value) for index, value in found if value]
        if kept:
            columns[name] = Column(
                rows=tuple(index for index, _ in kept),
                values=tuple(value for _, value in kept),
                unit=unit,
            )
    return InstructionTable(
        address=tuple(index * _ADDRESS_STEP for index in range(len(rows))),
        text=tuple(" ".join(row.instr.text.split()) for row in rows),
        file=tuple(place.get(path, -1) for path, _ in homes),
        line=tuple(line for _, line in homes),
        columns=columns,
    )


def _arithmetic(rows: list[Executed]) -> dict[str, Metric]:
    """The instruction mix, operations, and the most operations per byte to and from L2."""
    mix: Counter[str] = Counter()
    for row in rows:
        mix[row.kind] += row.warps
    out = {
        f"ptx__inst_executed_class_{name}": Metric(value=_plain(warps), unit="inst")
        for name, warps in sorted(mix.items())
    }
    work = sum(row.operations for row in rows)
    out["ptx__operations"] = Metric(value=_plain(work), unit="op")
    moved = SECTOR * sum(row.site.sectors for row in rows if row.site.space in _GLOBAL)
    if moved:
        out[_PER_BYTE] = Metric(value=work / moved, unit="op/byte")
    return out


def _metrics(rows: list[Executed], issued: Sequence[float] | None) -> dict[str, Metric]:
    """Kernel-wide sums; `issued` are the machine instructions of each row, if known."""

    def total(get: Get, which: Callable[[Executed], bool] = lambda _row: True) -> Number:
        return _plain(sum(get(row) for row in rows if which(row)))

    out = {name: Metric(value=total(get), unit=unit) for name, (get, unit) in COLUMNS.items()}
    for name, ops, store in (("ld", ("ld", "ldu", "cp", "wmma"), False),
                             ("st", ("st", "wmma"), True)):  # fmt: skip
        chosen = [row for row in rows if row.instr.op in ops and row.site.store == store]
        spread = [row for row in chosen if row.site.space in _GLOBAL]
        requests = sum(row.site.requests for row in spread)
        moved = sum(row.site.sectors for row in spread)
        key = f"pipe_lsu_mem_global_op_{name}.sum"
        out[f"l1tex__t_requests_{key}"] = Metric(value=_plain(requests), unit="request")
        out[f"l1tex__t_sectors_{key}"] = Metric(value=_plain(moved), unit="sector")
        if moved:
            used = sum(row.site.bytes for row in spread)
            key = f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{name}.ratio"
            out[key] = Metric(value=used / moved, unit="byte/sector")
        for space in ("global", "shared", "local"):
            warps = sum(
                row.warps for row in chosen if row.site.space == space and not row.site.joined
            )
            key = f"ptx__inst_executed_op_{space}_{name}"
            out[key] = Metric(value=_plain(warps), unit="inst")
    constants = sum(row.warps for row in rows if row.site.space == "const")
    out["ptx__inst_executed_op_const"] = Metric(value=_plain(constants), unit="inst")
    out |= _arithmetic(rows)
    out["ptx__shared_conflict_ways_max"] = Metric(value=max((r.site.ways for r in rows), default=0))
    for short, names in (("ffma", ("fma",)), ("fadd", ("add", "sub")), ("fmul", ("mul",))):
        threads = sum(
            row.on for row in rows if row.instr.op in names and row.instr.parts[-1] == "f32"
        )
        key = f"ptx__thread_inst_executed_op_{short}_pred_on"
        out[key] = Metric(value=_plain(threads), unit="inst")
    if issued is not None:
        out["ptx__machine_inst_estimate"] = Metric(value=round(sum(issued)), unit="inst")
    absent = _absent(rows, "")
    return {name: metric for name, metric in out.items() if name not in absent}


def _local(
    known: Mapping[str, Metric],
    code: MachineCode | None,
    kernel: KernelResources | None,
    smem: bool,
) -> dict[str, Metric]:
    """Accesses to local memory, and the part of them from spilled registers, if known.

    `smem`: registers may spill to shared memory.
    """
    spills = smem or kernel is None or kernel.spill_stores + kernel.spill_loads > 0
    out = {} if spills else {_SPILLS: (0.0, "inst")}
    if code is not None:
        local = [each for each in code.accesses if each.space == "local"]
        added = [each for each in (code.accesses if smem else local) if each.added]
        for name, store in zip(ISSUED[2:4], (False, True), strict=True):
            out[name] = math.fsum(each.warps for each in local if each.store is store), "inst"
        kept = float(known[_LOCAL_SECTORS].value) if any(not e.added for e in local) else 0.0
        # Lanes are contiguous: a warp moves as many sectors as a lane moves bytes.
        moved = kept + math.fsum(each.warps * each.width for each in local if each.added)
        if moved != known[_LOCAL_SECTORS].value:
            out[ISSUED[4]] = moved, "sector"
        if spills and kernel is not None:
            out[_SPILLS] = math.fsum(each.warps for each in added), "inst"
    return {name: Metric(value=round(value), unit=unit) for name, (value, unit) in out.items()}


def _by_timing(
    counts: Counts, issued: Sequence[float] | None, metrics: Mapping[str, Metric]
) -> ByTiming | None:
    """Return those of a launch's `metrics` that depend on the order of warps, or None."""
    marked = {id(row) for row in counts.schedule_dependent}
    if not marked:
        return None
    rest = [n for n, row in enumerate(counts.rows) if id(row) not in marked]
    known = _metrics([counts.rows[n] for n in rest], [issued[n] for n in rest] if issued else None)
    values = {
        name: known[name].value if name in known else None if metrics[name].value else 0
        for name in metrics
    }
    return ByTiming(
        rows=tuple(n for n, row in enumerate(counts.rows) if id(row) in marked),
        without={
            name: value
            for name, value in values.items()
            if not isinstance(value, str) and value != metrics[name].value
        },
    )


def _shape(counts: Counts) -> dict[str, Metric]:
    launch = counts.launch
    threads, blocks = launch.geometry.threads, launch.geometry.blocks
    return {
        "launch__block_size": Metric(value=threads),
        "launch__grid_size": Metric(value=blocks),
        "launch__thread_count": Metric(value=threads * blocks),
        "launch__shared_mem_per_block_dynamic": Metric(value=launch.dynamic_shared, unit="byte"),
    }


def resident(launch: ResolvedLaunch, build: Build) -> int:
    """Blocks of a launch that its target chip holds at once; 0: unknown."""
    kernel = next((each for each in build.resources if each.name == launch.kernel), None)
    chip = chip_for(device_of(build.arch))
    if kernel is None or chip is None:
        return 0
    fits = of_block(chip, kernel, math.prod(launch.block), launch.dynamic_shared)
    return fits.blocks * chip.sms


def check_launches(version: Version, launches: Iterable[ResolvedLaunch], build: Build) -> None:
    """Refuse launches that the chip of a build cannot make, as its driver would.

    Raises UsageError at the line of their block.
    """
    known = {each.name: each for each in build.resources}
    chip = chip_for(device_of(build.arch))
    for launch in launches:
        if chip is not None and (kernel := known.get(launch.kernel)) is not None:
            why, hint = unfit(chip, kernel, math.prod(launch.block), launch.dynamic_shared)
            if why:
                raise launch_key(version, launch, "block").error(why, hint)


def _fit(counts: Counts, kernel: KernelResources, chip: Chip | None) -> dict[str, Metric]:
    """Registers and shared memory, and the resulting occupancy."""
    out = {
        "launch__registers_per_thread": Metric(value=max(kernel.registers, LEAST_REGISTERS)),
        "launch__shared_mem_per_block_static": Metric(value=kernel.static_shared, unit="byte"),
    }
    if chip is None:
        return out
    launch = counts.launch
    fits = of_block(chip, kernel, launch.geometry.threads, launch.dynamic_shared)
    for name, limit in fits.limits.items():
        key = f"launch__occupancy_limit_{name.replace('shared memory', 'shared_mem')}"
        out[key] = Metric(value=limit, unit="block")
    out["sm__maximum_warps_per_active_cycle_pct"] = Metric(value=fits.percent, unit="%")
    if fits.blocks and chip.sms:
        waves = launch.geometry.blocks / (fits.blocks * chip.sms)
        out["launch__waves_per_multiprocessor"] = Metric(value=waves)
    return out


#: Lanes of an SM's load/store units: a warp instruction takes one of its cycles.
_LSU_LANES = 32


@dataclass(frozen=True, slots=True)
class Bound:
    """Cycles of one SM, by unit."""

    cycles: dict[str, float]

    @property
    def least(self) -> float:
        """The largest bound, in cycles."""
        return max(self.cycles.values())


def bound(
    counts: Counts, chip: Chip, machine_instructions: float | None, least_bytes: int
) -> Bound:
    """Compute the least cycles of a launch on a chip, by each of the chip's throughputs.

    This is not a time: latency, dependencies, caches and clocks are left out. The bound from issue
    slots is as uncertain as its estimate of machine instructions. `machine_instructions` are warp
    instructions that the chip issues; None: unknown. `least_bytes` are the fewest bytes that cross
    the device memory's bus; 0: unknown.
    """
    fma = sum(
        row.on for row in counts.rows
        if row.instr.op in ("fma", "mul", "add", "sub") and row.instr.parts[-1] == "f32"
    )  # fmt: skip
    lsu = sum(
        row.warps for row in counts.rows
        if row.instr.op in ("ld", "st", "atom", "red", "shfl") and not row.site.joined
        and row.site.space != "const" and "param" not in row.instr.parts
    )  # fmt: skip
    waves = counts.total("wavefronts")
    sms = max(chip.sms, 1)
    cycles = {
        "FMA pipe": fma / chip.fp32_lanes / sms,
        "load/store units": lsu * 32 / _LSU_LANES / sms,
    }
    if machine_instructions is not None:
        cycles["issue slots"] = machine_instructions / chip.schedulers / sms
    cycles["shared memory"] = waves / sms
    if least_bytes and chip.memory_bandwidth and chip.sm_clock:
        cycles["device memory"] = least_bytes / chip.memory_bandwidth * chip.sm_clock
    return Bound(cycles)


def _bounds(
    counts: Counts, chip: Chip, machine: float | None, least_bytes: int
) -> dict[str, Metric]:
    found = bound(counts, chip, machine, least_bytes)
    out = {}
    for unit, cycles in found.cycles.items():
        name = unit.replace(" ", "_").replace("/", "_").lower()
        out[f"ptx__bound_cycles_{name}"] = Metric(value=cycles, unit="cycle")
    out[_LEAST] = Metric(value=found.least, unit="cycle")
    out[_BINDS] = Metric(value=max(found.cycles, key=found.cycles.__getitem__))
    absent = _absent(counts.rows, "")
    return {name: metric for name, metric in out.items() if name not in absent}


def launch_records(
    every: Sequence[Counts], built: BuildResult, module: Module, device: Device, least_bytes: int
) -> tuple[Launch, ...]:
    """Make the records of a version's emulated launches, whose counters are `every`.

    `least_bytes` is the study's least traffic, for one launch's bound from device memory.
    """
    chip = chip_for(device)
    # The least traffic of several launches cannot be split among them.
    least_bytes = least_bytes if len(every) == 1 else 0
    sources = sources_of(module, built)
    resources = {kernel.name: kernel for kernel in built.build.resources}
    # The build of a recorded profile has only PTX.
    made = code_digests(built.cubin.read_bytes()) if built.cubin.is_file() else {}
    records = []
    for index, counts in enumerate(every):
        launch = counts.launch
        code = counts.machine_code()
        calls = not_counted(code, module)
        code = None if calls else code
        issued = code.issued if code is not None else None
        metrics = _metrics(counts.rows, issued)
        kernel = resources.get(launch.kernel)
        smem = "enable_smem_spilling" in built.build.ptx
        metrics |= _local(metrics, code, kernel, smem)
        if ISSUED[4] in metrics:
            del metrics[_LOCAL_SECTORS]  # of PTX alone
        by_timing = _by_timing(counts, issued, metrics)
        metrics |= _shape(counts)
        if kernel is not None:
            metrics |= _fit(counts, kernel, chip)
        if launch.kernel in made:
            metrics[COMPILED] = Metric(value=made[launch.kernel])
        if chip is not None and chip.sms:
            metrics |= _bounds(counts, chip, code.total if code else None, least_bytes)
        records.append(
            Launch(
                kernel=own_name(launch.kernel),
                signature=signature
                if (signature := demangled(launch.kernel)) != launch.kernel
                else "",
                index=index,
                grid=launch.grid,
                block=launch.block,
                dynamic_shared=launch.dynamic_shared,
                metrics=metrics,
                instructions=instruction_table(counts, module, sources, issued),
                absent=_absent(counts.rows, calls),
                by_timing=by_timing,
            )
        )
    return tuple(records)
