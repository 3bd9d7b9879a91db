"""Sections of ``workbench show``: each is a small table, or None where nothing is known."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from workbench.analysis import stalls
from workbench.counters import Missing, Reading
from workbench.gpus import chip_for
from workbench.model import Device, Launch, Number
from workbench.units import quantity
from workbench.views.terminal.console import DIM, bar, grid, section

Readings = dict[str, Reading | Missing]

_SPEED = (
    ("Compute", "sm_throughput"),
    ("Memory", "memory_throughput"),
    ("  L1 and shared", "l1_throughput"),
    ("  L2", "l2_throughput"),
    ("  DRAM", "dram_throughput"),
)
_LIMITS = (
    ("registers", "occupancy_limit_registers"),
    ("shared memory", "occupancy_limit_shared"),
    ("warps", "occupancy_limit_warps"),
    ("block slots", "occupancy_limit_blocks"),
    ("barriers", "occupancy_limit_barriers"),
)
#: Stall reasons under this share of the warp time are noise on a bar chart.
_SMALL = 0.01
_TOP_STALLS = 6


def value_of(readings: Readings, counter: str) -> Number | None:
    """A counter's value, or None where it is missing."""
    reading = readings[counter]
    return None if isinstance(reading, Missing) else reading.value


def text_of(readings: Readings, counter: str) -> str:
    """A counter's value, formatted; a dash where it is missing."""
    reading = readings[counter]
    if isinstance(reading, Missing):
        return quantity(None)
    return quantity(reading.value, reading.unit)


def _color(share: float) -> str:
    return "green" if share >= 0.8 else "yellow" if share >= 0.4 else "blue"


def speed_of_light(readings: Readings, width: int) -> RenderableType | None:
    """Throughputs as bars: which unit is busiest, and how close it is to what it can do."""
    known = [(title, v) for title, c in _SPEED if (v := value_of(readings, c)) is not None]
    if not known:
        return None
    cells = max(10, min(40, width - 36))
    table = grid("l", "r", "l")
    for title, value in known:
        share = float(value) / 100.0
        gauge = Text(bar(share, cells), style=_color(share))
        gauge.append("·" * (cells - len(gauge.plain)), style=DIM)
        table.add_row(title, quantity(value, "%"), gauge)
    return section("Speed of light", table, "share of what the chip can sustain")


def memory(readings: Readings, device: Device) -> RenderableType | None:
    """How accesses use sectors, banks and caches."""
    table = grid("l", "r", "f")
    for kind in ("load", "store"):
        if value_of(readings, f"global_{kind}s") == 0:
            continue
        per = value_of(readings, f"global_{kind}_sectors_per_request")
        used = value_of(readings, f"global_{kind}_efficiency")
        if per is None and used is None:
            continue
        note = f"{quantity(used, '%')} of bytes used" if used is not None else ""
        table.add_row(f"Global {kind}s", quantity(per), _note("sectors per request", note))
    _excess(table, readings, "Global sectors", "global_sectors")
    _excess(table, readings, "Shared wavefronts", "shared_wavefronts")
    ways = value_of(readings, "shared_conflict_ways")
    if ways is not None:
        table.add_row("  to the ideal", quantity(ways), _note("1: no bank conflict"))
    if value_of(readings, "shared_bank_conflicts"):
        loads, stores = (text_of(readings, f"shared_{k}_bank_conflicts") for k in ("load", "store"))
        conflicts = text_of(readings, "shared_bank_conflicts")
        table.add_row("Bank conflicts", conflicts, _note(f"loads {loads}, stores {stores}"))
    for title, counter in (("L1 hit rate", "l1_hit_rate"), ("L2 hit rate", "l2_hit_rate")):
        if value_of(readings, counter) is not None:
            table.add_row(title, text_of(readings, counter), "")
    _dram(table, readings, device)
    local = [value_of(readings, name) for name in ("local_loads", "local_stores")]
    if any(local):
        both = quantity(sum(value or 0 for value in local))
        spilled = value_of(readings, "spill_instructions")
        note = f"{quantity(spilled)} of them spills" if spilled is not None else ""
        table.add_row("Local accesses", both, _note("instructions", note))
    return section("Memory", table) if table.row_count else None


def _note(*parts: str) -> Text:
    return Text(", ".join(part for part in parts if part), style=DIM)


def _excess(table: Table, readings: Readings, title: str, counter: str) -> None:
    total = value_of(readings, counter)
    excess = value_of(readings, f"{counter}_excess")
    if not total:
        return
    note = "none in excess"
    if excess is None:
        note = ""
    elif excess:
        note = f"{quantity(excess)} in excess ({quantity(100.0 * excess / total, '%')})"
    table.add_row(title, quantity(total), _note(note))


def _dram(table: Table, readings: Readings, device: Device) -> None:
    rate = value_of(readings, "dram_bandwidth")
    if rate is None:
        return
    chip = chip_for(device)
    peak = chip.memory_bandwidth if chip else 0.0
    parts = [f"of {quantity(peak, 'byte/s')}"] if peak else []
    if value_of(readings, "dram_read_bytes") is not None:
        parts.append(f"{text_of(readings, 'dram_read_bytes')} read")
    if value_of(readings, "dram_write_bytes") is not None:
        parts.append(f"{text_of(readings, 'dram_write_bytes')} written")
    table.add_row("DRAM", quantity(rate, "byte/s"), _note(*parts))


def occupancy(readings: Readings) -> RenderableType | None:
    """Warps on an SM, what limits them, and what a block takes."""
    table = grid("l", "r", "f")
    limits = {name: v for name, c in _LIMITS if (v := value_of(readings, c)) is not None}
    if value_of(readings, "theoretical_occupancy") is not None:
        note = Text(style=DIM)
        if limits:
            least = min(limits.values())
            by = [name for name, value in limits.items() if value == least]
            plural = "s" if least != 1 else ""
            note.append(f"{quantity(least)} block{plural}/SM, by {', '.join(by)}")
        table.add_row("Theoretical", text_of(readings, "theoretical_occupancy"), note)
    if value_of(readings, "achieved_occupancy") is not None:
        warps = value_of(readings, "warps_per_sm")
        note = _note(f"{quantity(warps)} warps/SM" if warps is not None else "")
        table.add_row("Achieved", text_of(readings, "achieved_occupancy"), note)
    if value_of(readings, "registers") is not None:
        table.add_row("Registers", text_of(readings, "registers"), _note("per thread"))
    static, dynamic = (value_of(readings, f"{kind}_shared") for kind in ("static", "dynamic"))
    if static or dynamic:
        both = quantity((static or 0) + (dynamic or 0), "byte")
        note = _note(
            f"per block, {quantity(dynamic, 'byte')} of it dynamic" if dynamic else "per block"
        )
        table.add_row("Shared memory", both, note)
    if value_of(readings, "waves") is not None:
        idle = value_of(readings, "tail_idle")
        note = _note(f"{quantity(idle, '%')} of block slots idle" if idle is not None else "")
        table.add_row("Waves", text_of(readings, "waves"), note)
    return section("Occupancy", table) if table.row_count else None


def scheduler(readings: Readings) -> RenderableType | None:
    """Issue slots and the busiest pipes."""
    table = grid("l", "r", "f")
    if value_of(readings, "issue_active") is not None:
        eligible = value_of(readings, "eligible_warps")
        note = _note(f"{quantity(eligible)} warps ready on average" if eligible is not None else "")
        table.add_row("Issue slots busy", text_of(readings, "issue_active"), note)
    pipes = [
        (title, value)
        for title, counter in (
            ("FMA", "fma_utilization"),
            ("ALU", "alu_utilization"),
            ("LSU", "lsu_utilization"),
            ("tensor", "tensor_utilization"),
            ("FP64", "fp64_utilization"),
            ("XU", "xu_utilization"),
        )
        if (value := value_of(readings, counter)) is not None
    ]
    pipes.sort(key=lambda pipe: -pipe[1])
    if pipes:
        (name, busiest), *others = pipes
        rest = ", ".join(f"{title} {quantity(value, '%')}" for title, value in others[:3] if value)
        table.add_row(
            f"{name[:1].upper()}{name[1:]} pipe busy", quantity(busiest, "%"), _note(rest)
        )
    if value_of(readings, "ipc") is not None:
        table.add_row("Instructions", text_of(readings, "ipc"), _note("per cycle and SM"))
    lanes = value_of(readings, "lanes_per_instruction")
    if lanes is not None and lanes < 31.95:
        table.add_row("Active lanes", quantity(lanes), _note("of 32, on average"))
    return section("Scheduler and pipes", table) if table.row_count else None


def stall_bars(launch: Launch, width: int) -> RenderableType | None:
    """Where warps spent their time, largest first."""
    found = stalls.breakdown(launch)
    if not found.shares:
        return None
    shown = [share for share in found.shares if share.share >= _SMALL][:_TOP_STALLS]
    timed = any(share.cycles is not None for share in shown)
    cells = max(8, min(28, width - 52))
    table = grid("l", "r", *("r" if timed else ""), "l")
    for share in shown:
        gauge = Text(bar(share.share, cells), style="red" if share.stalled else "green")
        cycles = [quantity(share.cycles)] if timed else []
        table.add_row(share.state.title, quantity(100.0 * share.share, "%"), *cycles, gauge)
    rest = 1.0 - sum(share.share for share in shown)
    if rest >= 0.0005:
        table.add_row(Text("others", style=DIM), quantity(100.0 * rest, "%"))
    source = f"{quantity(found.samples)} samples" if found.source == "samples" else "cycle counts"
    note = f"share of time ({source})" + (", cycles/inst" if timed else "")
    return section("Warp states", table, note)
