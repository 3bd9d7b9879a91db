"""One launch: everything a version's page shows of it between its head and its end."""

from __future__ import annotations

import re

from msgspec.structs import replace

from workbench import units
from workbench.analysis import roofline, stalls
from workbench.analysis.aggregate import value_of
from workbench.analysis.launches.course import course
from workbench.analysis.memory import memory
from workbench.counters import Missing, catalog
from workbench.gpus import Chip
from workbench.model import Launch, LineKey, Profile, Record, Rule
from workbench.views.html.charts import roof as charts_roof
from workbench.views.html.charts.figure import Plot
from workbench.views.html.charts.lines import WhatIf, what_if
from workbench.views.html.charts.memory import (
    AccessRow,
    BlockLimit,
    MemoryView,
    accesses,
    limits,
    memory_view,
)
from workbench.views.html.charts.timeline import TimelineView, timeline_view
from workbench.views.html.code.source import CodeView, code_view
from workbench.views.html.parts.common import (
    CounterCell,
    Phrase,
    Tone,
    cell,
    dims,
    percent,
    text,
    width,
)

# --- ncu's own findings ---------------------------------------------------------------

_MARKUP = re.compile(r"@(section|url):([^@]*?)@")


class RuleRow(Record, frozen=True):
    """One of ncu's findings."""

    name: str
    kind: str
    tone: Tone
    gain: str
    scope: str
    message: tuple[Phrase, ...]


def message(raw: str) -> tuple[Phrase, ...]:
    """Split ncu's message at its own markup (``@url:text:address@``, ``@section:id:text@``).

    Only https links to NVIDIA's pages become links; a report may hold anything.
    """
    out: list[Phrase] = []
    end = 0
    for match in _MARKUP.finditer(raw):
        out.append(Phrase(raw[end : match.start()]))
        label, _, rest = match.group(2).partition(":")
        if match.group(1) == "url":
            safe = rest.startswith("https://docs.nvidia.com/")
            out.append(Phrase(label, rest if safe else ""))
        else:
            out.append(Phrase(rest or label))
        end = match.end()
    out.append(Phrase(raw[end:]))
    return tuple(part for part in out if part.text)


def _rule(rule: Rule) -> RuleRow:
    tones: dict[str, Tone] = {"optimization": "good", "warning": "warn", "error": "bad"}
    gain = scope = ""
    if rule.speedup is not None and rule.speedup > 0:
        gain = percent(rule.speedup / 100)
        scope = {"global": "of the launch", "local": "of a part"}.get(rule.scope, "estimated")
    return RuleRow(
        name=rule.title or rule.name,
        kind=rule.kind,
        tone=tones.get(rule.kind, ""),
        gain=gain,
        scope=scope,
        message=message(rule.message),
    )


def rule_rows(launch: Launch) -> tuple[tuple[RuleRow, ...], int]:
    """The findings that say something, and how many rules found nothing to say."""
    said = [rule for rule in launch.rules if rule.kind != "ok" and rule.message]
    said.sort(key=lambda rule: -(rule.speedup or 0.0))
    return tuple(map(_rule, said)), len(launch.rules) - len(said)


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


class CounterBar(Record, frozen=True):
    """A counter in percent with a bar; the largest of its table leads."""

    cell: CounterCell
    width: str
    lead: bool = False


class StallRow(Record, frozen=True):
    """A warp state with the bar of its share; the one in which a warp issues is no stall."""

    id: str
    title: str
    meaning: str
    stalled: bool
    width: str
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
    light: tuple[CounterBar, ...]
    pipes: tuple[CounterBar, ...]
    roofline: Plot | None
    roofline_missing: str
    stall_rows: tuple[StallRow, ...]
    stall_source: str
    code: CodeView
    accesses: tuple[AccessRow, ...]
    memory: MemoryView | None
    timeline: TimelineView | None
    limits: tuple[BlockLimit, ...]
    occupancy: tuple[CounterBar, ...]
    occupancy_facts: tuple[CounterCell, ...]
    whatif: WhatIf | None
    facts: tuple[CounterCell, ...]
    rules: tuple[RuleRow, ...]
    quiet_rules: int
    groups: tuple[Group, ...]
    missing: tuple[CounterCell, ...]


def _bars(launch: Launch, ids: tuple[str, ...], *, lead: bool = True) -> tuple[CounterBar, ...]:
    found = [(i, number) for i in ids if (number := value_of(launch, i)) is not None]
    top = max((number for _, number in found), default=0)
    return tuple(
        CounterBar(
            cell=cell(launch, catalog()[i]),
            width=width(number / 100),
            lead=lead and number == top > 0,
        )
        for i, number in found
    )


def _known(launch: Launch, ids: tuple[str, ...]) -> tuple[CounterCell, ...]:
    cells = (cell(launch, catalog()[counter]) for counter in ids)
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


def _stalls(launch: Launch) -> tuple[tuple[StallRow, ...], str]:
    """What the warps were doing, and what the shares are made of."""
    found = stalls.breakdown(launch)
    most = found.shares[0].share if found.shares else 1.0
    rows = tuple(
        StallRow(
            id=share.state.id,
            title=share.state.title,
            meaning=share.state.meaning,
            stalled=share.stalled,
            width=width(share.share / most),
            share=percent(share.share),
            samples=units.count(share.samples) if share.samples is not None else "—",
            cycles=units.digits3(float(share.cycles)) if share.cycles is not None else "—",
        )
        for share in found.shares
    )
    if found.source == "samples":
        return rows, f"{units.count(found.samples)} warp samples"
    return rows, "cycles per issued instruction; the report holds no samples"


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
    blocks, threads = (
        f"{dims(extent)} {noun}{'' if extent == (1, 1, 1) else 's'}"
        for extent, noun in ((launch.grid, "block"), (launch.block, "thread"))
    )
    return f"{blocks} of {threads}"


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
    stall_rows, stall_source = _stalls(launch)
    roof, why = _roofline(launch, chip, f"{prefix}-roofline")
    rules, quiet = rule_rows(launch)
    groups, missing = _groups(launch)
    code = code_view(profile, launch, position, near=near)
    run = course(launch)
    return LaunchView(
        position=position,
        kernel=launch.kernel,
        signature=launch.signature if launch.signature != launch.kernel else "",
        shape=shape(launch),
        duration=text(launch, "duration") if value_of(launch, "duration") else "",
        light=_bars(launch, _LIGHT),
        pipes=_bars(launch, _PIPES),
        roofline=roof,
        roofline_missing=why,
        stall_rows=stall_rows,
        stall_source=stall_source,
        code=code,
        accesses=accesses(launch),
        timeline=timeline_view((run,), ("",)) if run else None,
        memory=_memory(profile, launch, code, f"{prefix}-", several=several),
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
