"""One launch: everything a version's page shows of it between its head and its end."""

from __future__ import annotations

from msgspec.structs import replace

from workbench import units
from workbench.analysis import roofline
from workbench.analysis.course import course
from workbench.analysis.limit import Breakdown, breakdown
from workbench.analysis.memory import memory
from workbench.counters import Missing, catalog
from workbench.gpus import Chip
from workbench.model import Launch, LineKey, Profile, Record, Rule
from workbench.views.html.charts import roof as charts_roof
from workbench.views.html.charts.drawn import (
    AccessRow,
    MemoryView,
    TimelineView,
    accesses,
    limits,
    memory_view,
    timeline_view,
)
from workbench.views.html.charts.figure import Plot
from workbench.views.html.charts.lines import WhatIf, what_if
from workbench.views.html.code.source import CodeView, code_view
from workbench.views.html.parts import (
    CounterCell,
    cell,
    percent,
    text,
)


def said_rules(launch: Launch) -> list[Rule]:
    """The findings that say something, the largest promise first."""
    said = [rule for rule in launch.rules if rule.kind != "ok" and rule.message]
    return sorted(said, key=lambda rule: -(rule.speedup or 0.0))


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


#: A group of the counter table: its title and cells.
Group = tuple[str, tuple[CounterCell, ...]]


class LaunchView(Record, frozen=True):
    """All about one launch. `position` counts from 0 on the page."""

    position: int
    launch: Launch
    light: tuple[CounterCell, ...]
    pipes: tuple[CounterCell, ...]
    roofline: Plot | None
    roofline_missing: str
    stalls: Breakdown
    code: CodeView
    accesses: tuple[AccessRow, ...]
    memory: MemoryView | None
    timeline: TimelineView | None
    limits: tuple[CounterCell, ...]
    occupancy: tuple[CounterCell, ...]
    occupancy_facts: tuple[CounterCell, ...]
    whatif: WhatIf | None
    facts: tuple[CounterCell, ...]
    rules: list[Rule]
    groups: list[Group]
    missing: list[CounterCell]


def _known(launch: Launch, ids: tuple[str, ...]) -> tuple[CounterCell, ...]:
    cells = (cell(launch, counter) for counter in ids)
    return tuple(item for item in cells if not item.missing)


def _roofline(launch: Launch, chip: Chip | None, identity: str) -> tuple[Plot | None, str]:
    """The launch under its roof, or why it has no place there."""
    place = roofline.position(launch)
    if isinstance(place, Missing):
        return None, place.reason
    top = roofline.roof(chip, launch, place.unit)
    unit = charts_roof.rate_unit(place.unit)
    rows: list[tuple[str, ...]] = []
    series = []
    for level, dot in charts_roof.dots(place, launch.kernel).items():
        series.append((level, [replace(dot, label=level)]))
        limit = top.above(dot.intensity, level)
        rows.append(
            (
                level,
                units.quantity(place.traffic[level], "byte"),
                units.digits3(dot.intensity),
                units.quantity(dot.rate, unit),
                percent(dot.rate / limit) if limit else units.quantity(None),
            )
        )
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
    head = ("Level", "Traffic", "Operations per byte", "Rate", "Of its roof")
    return Plot(figure=figure, head=head, rows=tuple(rows)), ""


def _groups(launch: Launch) -> tuple[list[Group], list[CounterCell]]:
    groups: list[Group] = []
    missing: list[CounterCell] = []
    for identity, title in catalog().groups.items():
        cells = [cell(launch, counter) for counter in catalog().group(identity)]
        missing += [item for item in cells if item.missing]
        known = tuple(item for item in cells if not item.missing)
        if known:
            groups.append((title, known))
    return groups, missing


def _memory(
    profile: Profile, launch: Launch, code: CodeView, prefix: str, *, several: bool
) -> MemoryView | None:
    """The memory chart of one launch; its counters have a prefix where there are several."""
    chart = memory(replace(profile, launches=(launch,)))
    if chart is None:
        return None
    ids = {f"{file.anchor}{line.number}" for file in code.files for line in file.lines}

    def anchor(_: int, key: LineKey) -> str:
        name = f"{code.anchors.get(key[0], '')}{key[1]}"
        return f"#{name}" if name in ids else ""

    return memory_view((chart,), ("Amount",), anchor, prefix, f"#{prefix if several else ''}")


def launch_view(
    profile: Profile,
    launch: Launch,
    position: int,
    chip: Chip | None,
    *,
    several: bool = False,
    near: int | None = None,
) -> LaunchView:
    """Everything that a page says about one launch.

    Args:
        profile: Holds the source files.
        launch: The launch.
        position: Of it on its page.
        chip: The device's data sheet, where it is known.
        several: Whether the page has more launches.
        near: Of its sources, how many lines around those with counters (None: all).
    """
    prefix = f"k{position}"
    roof, why = _roofline(launch, chip, f"{prefix}-roofline")
    groups, missing = _groups(launch)
    code = code_view(profile, launch, position, near=near)
    run = course(launch)
    return LaunchView(
        position=position,
        launch=launch,
        light=_known(launch, _LIGHT),
        pipes=_known(launch, _PIPES),
        roofline=roof,
        roofline_missing=why,
        stalls=breakdown(launch),
        code=code,
        accesses=accesses(launch),
        timeline=timeline_view((run,), ("",)) if run else None,
        memory=_memory(profile, launch, code, f"{prefix}-", several=several),
        limits=limits(launch),
        occupancy=_known(launch, ("theoretical_occupancy", "achieved_occupancy")),
        occupancy_facts=_known(launch, _OCCUPANCY),
        whatif=what_if(launch, chip, f"{prefix}-whatif"),
        facts=_known(launch, _FACTS),
        rules=said_rules(launch),
        groups=groups,
        missing=missing,
    )


def occupancy_note(launch: Launch) -> str:
    """``of 100% theoretical``."""
    return f"of {text(launch, 'theoretical_occupancy')} theoretical"
