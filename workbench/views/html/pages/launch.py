"""View model of one launch: everything a version page shows between its head and its end."""

from __future__ import annotations

from workbench import units
from workbench.analysis import arithmetic, roofline, stalls
from workbench.analysis.roofline import Position
from workbench.counters import Missing, catalog
from workbench.gpus import Chip
from workbench.model import Launch, Profile, Record
from workbench.views.html.charts import figure as charts
from workbench.views.html.charts import roof as charts_roof
from workbench.views.html.charts.whatif import WhatIf, what_if
from workbench.views.html.code.source import CodeView, code_view
from workbench.views.html.parts.common import CounterCell, cell, dims, percent, text, value, width
from workbench.views.html.parts.memory import Access, LevelRow, Limit, accesses, levels, limits
from workbench.views.html.parts.rules import RuleRow, rule_rows

_LIGHT = ("sm_throughput", "memory_throughput", "l1_throughput", "l2_throughput", "dram_throughput")
_PIPES = (
    "issue_active",
    "fma_utilization",
    "alu_utilization",
    "lsu_utilization",
    "tensor_utilization",
    "fp64_utilization",
    "xu_utilization",
)
_OCCUPANCY = ("warps_per_sm", "eligible_warps", "waves", "tail_idle")
_FACTS = ("blocks", "threads_per_block", "registers", "static_shared", "dynamic_shared", "stack")
_MAX_STATES = 9


class Bar(Record, frozen=True):
    """A counter in percent with a bar; the largest of its table leads."""

    cell: CounterCell
    width: str
    lead: bool = False


class StallRow(Record, frozen=True):
    """A row of the table behind the stall chart."""

    id: str
    title: str
    meaning: str
    share: str
    samples: str
    cycles: str


class Group(Record, frozen=True):
    """A group of the counter table."""

    title: str
    cells: tuple[CounterCell, ...]


class LaunchView(Record, frozen=True):
    """All about one launch. `position` counts from 0 on the page."""

    position: int
    kernel: str
    signature: str
    shape: str
    duration: str
    light: tuple[Bar, ...]
    pipes: tuple[Bar, ...]
    roofline: charts.Figure | None
    roofline_missing: str
    roofline_rows: tuple[tuple[str, ...], ...]
    stall_chart: charts.Figure | None
    stall_rows: tuple[StallRow, ...]
    stall_source: str
    code: CodeView
    accesses: tuple[Access, ...]
    levels: tuple[LevelRow, ...]
    limits: tuple[Limit, ...]
    occupancy: tuple[Bar, ...]
    occupancy_facts: tuple[CounterCell, ...]
    whatif: WhatIf | None
    facts: tuple[CounterCell, ...]
    rules: tuple[RuleRow, ...]
    quiet_rules: int
    groups: tuple[Group, ...]
    missing: tuple[CounterCell, ...]


def _bars(launch: Launch, ids: tuple[str, ...], *, lead: bool = True) -> tuple[Bar, ...]:
    found = [(i, number) for i in ids if (number := value(launch, i)) is not None]
    top = max((number for _, number in found), default=0)
    return tuple(
        Bar(
            cell=cell(launch, catalog()[i]),
            width=width(number / 100),
            lead=lead and number == top > 0,
        )
        for i, number in found
    )


def _known(launch: Launch, ids: tuple[str, ...]) -> tuple[CounterCell, ...]:
    cells = (cell(launch, catalog()[counter]) for counter in ids)
    return tuple(item for item in cells if not item.missing)


def rate_unit(unit: arithmetic.Unit) -> str:
    """How the work of a unit is written: integers are no floating-point operations."""
    return "op/s" if unit in ("tensor int8", "dp4a") else "flop/s"


def roof(chip: Chip | None, launch: Launch, unit: arithmetic.Unit) -> charts_roof.Roof:
    """The ceilings for a unit, at the clock that the profiler saw, else the device's own."""
    if chip is None:
        return charts_roof.Roof(flops=0.0, bandwidth=0.0)
    seen = value(launch, "sm_clock")
    clock = float(seen) if seen else None
    if unit == "float32":
        flops = chip.fp32_peak(clock)
    else:
        flops = chip.tensor_peak(
            {
                "tensor half": chip.tensor_half,
                "tensor TF32": chip.tensor_tf32,
                "tensor int8": chip.tensor_int8,
            }.get(unit, 0),
            clock,
        )
    bandwidth = chip.memory_bandwidth
    return charts_roof.Roof(
        flops=flops,
        bandwidth=bandwidth,
        flops_text=f"{units.quantity(flops, rate_unit(unit))} {unit} peak",
        bandwidth_text=f"{units.quantity(bandwidth, 'byte/s')} device memory",
    )


def dots(place: Position, label: str) -> list[tuple[str, charts_roof.Dot]]:
    """A position as one dot per memory level."""
    out: list[tuple[str, charts_roof.Dot]] = []
    for level in roofline.LEVELS:
        intensity = place.intensity(level)
        if intensity is None:
            continue
        unit = rate_unit(place.unit)
        rate = units.quantity(place.rate, unit)
        per_byte = f"{units.digits3(intensity)} {charts_roof.work_word(unit)}/B"
        hover = f"{label} at {level}: {rate}, {per_byte}"
        out.append(
            (level, charts_roof.Dot(label=label, intensity=intensity, rate=place.rate, hover=hover))
        )
    return out


def _roofline(
    launch: Launch, chip: Chip | None, identity: str
) -> tuple[charts.Figure | None, str, tuple[tuple[str, ...], ...]]:
    place = roofline.position(launch)
    if isinstance(place, Missing):
        return None, place.reason, ()
    top = roof(chip, launch, place.unit)
    rows: list[tuple[str, ...]] = []
    series = []
    for level, dot in dots(place, launch.kernel):
        series.append((level, [charts_roof.Dot(level, dot.intensity, dot.rate, dot.hover)]))
        slope = dot.intensity * top.bandwidth
        limit = min(top.flops, slope) if level == "DRAM" and top.flops else top.flops
        rows.append(
            (
                level,
                units.quantity(place.traffic[level], "byte"),  # type: ignore[index]
                units.digits3(dot.intensity),
                units.quantity(dot.rate, rate_unit(place.unit)),
                percent(dot.rate / limit) if limit else units.quantity(None),
            )
        )
    unit = rate_unit(place.unit)
    work = charts_roof.work_word(unit)
    figure = charts_roof.roofline(
        identity,
        f"Roofline of {launch.kernel}: {work} per second against {work} per byte, "
        "one point for each memory level",
        series,
        [top],
        path=False,
        unit=unit,
    )
    return figure, "", tuple(rows)


def _stalls(
    launch: Launch, identity: str
) -> tuple[charts.Figure | None, tuple[StallRow, ...], str]:
    found = stalls.breakdown(launch)
    if not found.shares:
        return None, (), ""
    rows = [
        (
            share.state.title if share.stalled else f"{share.state.title} (issuing)",
            charts.Mark(
                100 * share.share,
                percent(share.share),
                f"{percent(share.share)} of warp time. {share.state.meaning}",
            ),
            share.stalled,
        )
        for share in found.shares[:_MAX_STATES]
    ]
    figure = charts.bars(
        identity, f"What the warps of {launch.kernel} were doing", rows, "% of warp time"
    )
    table = tuple(
        StallRow(
            id=share.state.id,
            title=share.state.title,
            meaning=share.state.meaning,
            share=percent(share.share),
            samples=units.count(share.samples) if share.samples is not None else "—",
            cycles=units.digits3(float(share.cycles)) if share.cycles is not None else "—",
        )
        for share in found.shares
    )
    source = (
        f"{units.count(found.samples)} warp samples"
        if found.source == "samples"
        else "cycles per issued instruction; the report holds no samples"
    )
    return figure, table, source


def _groups(launch: Launch) -> tuple[tuple[Group, ...], tuple[CounterCell, ...]]:
    groups, missing = [], []
    for identity, title in catalog().groups.items():
        cells = [cell(launch, counter) for counter in catalog().group(identity)]
        missing += [item for item in cells if item.missing]
        known = tuple(item for item in cells if not item.missing)
        if known:
            groups.append(Group(title=title, cells=known))
    return tuple(groups), tuple(missing)


def shape(launch: Launch) -> str:
    """``32 × 32 blocks of 32 × 32 threads``, or the kind of a workload that has no grid."""
    if not any(launch.grid):
        return launch.workload
    return f"{dims(launch.grid)} blocks of {dims(launch.block)} threads"


def launch_view(profile: Profile, launch: Launch, position: int, chip: Chip | None) -> LaunchView:
    """Everything that a page says about one launch."""
    prefix = f"k{position}"
    stall_chart, stall_rows, stall_source = _stalls(launch, f"{prefix}-stalls")
    figure, why, rows = _roofline(launch, chip, f"{prefix}-roofline")
    rules, quiet = rule_rows(launch)
    groups, missing = _groups(launch)
    return LaunchView(
        position=position,
        kernel=launch.kernel,
        signature=launch.signature if launch.signature != launch.kernel else "",
        shape=shape(launch),
        duration=text(launch, "duration") if value(launch, "duration") else "",
        light=_bars(launch, _LIGHT),
        pipes=_bars(launch, _PIPES),
        roofline=figure,
        roofline_missing=why,
        roofline_rows=rows,
        stall_chart=stall_chart,
        stall_rows=stall_rows,
        stall_source=stall_source,
        code=code_view(profile, launch, position),
        accesses=accesses(launch),
        levels=levels(launch),
        limits=limits(launch),
        occupancy=_bars(launch, ("theoretical_occupancy", "achieved_occupancy"), lead=False),
        occupancy_facts=_known(launch, _OCCUPANCY),
        whatif=what_if(launch, chip, f"{prefix}-whatif"),
        facts=_known(launch, _FACTS),
        rules=rules,
        quiet_rules=quiet,
        groups=groups,
        missing=missing,
    )


class Bottleneck(Record, frozen=True):
    """The largest stall: the counter, and its share of what warps did."""

    id: str
    title: str
    share: str


def bottleneck(launch: Launch) -> Bottleneck | None:
    """The largest stall; None where the report says nothing of stalls."""
    top = stalls.breakdown(launch).top
    if top is None:
        return None
    return Bottleneck(id=top.state.id, title=top.state.title, share=percent(top.share))


def occupancy_note(launch: Launch) -> str:
    """``of 100% theoretical``."""
    return f"of {text(launch, 'theoretical_occupancy')} theoretical"
