"""View models of memory and occupancy: accesses, flows, and what limits the blocks on an SM."""

from __future__ import annotations

from collections.abc import Sequence

from workbench import units
from workbench.analysis.aggregate import value_of
from workbench.analysis.memory.chart import MemoryChart, shown
from workbench.counters import catalog
from workbench.model import Launch, Record
from workbench.views.html.charts.memory import LEAST_SHARE, Anchor, Drawing, Hop
from workbench.views.html.parts.common import CounterCell, Link, cell, percent
from workbench.views.sheets.memory import FlowRow, LevelRow, flow_rows, level_rows

_LIMITS = (
    "occupancy_limit_registers",
    "occupancy_limit_shared",
    "occupancy_limit_warps",
    "occupancy_limit_blocks",
    "occupancy_limit_barriers",
)
#: Row title, then the counters for: instructions, requests, sectors or wavefronts, per request,
#: efficiency, excess. "" leaves a cell empty.
_ACCESSES = (
    (
        "Global loads",
        "global_loads",
        "global_load_requests",
        "global_load_sectors",
        "global_load_sectors_per_request",
        "global_load_efficiency",
        "",
    ),
    (
        "Global stores",
        "global_stores",
        "global_store_requests",
        "global_store_sectors",
        "global_store_sectors_per_request",
        "global_store_efficiency",
        "",
    ),
    (
        "Global, from addresses",
        "",
        "l1_tag_requests",
        "global_sectors",
        "",
        "",
        "global_sectors_excess",
    ),
    (
        "Shared accesses",
        "shared_accesses",
        "",
        "shared_wavefronts",
        "shared_conflict_ways",
        "",
        "shared_wavefronts_excess",
    ),
    ("Local loads", "local_loads", "", "", "", "", ""),
    ("Local stores", "local_stores", "", "", "", "", ""),
)
#: Lines that a flow's row names.
_NAMED = 4


class ChartRow(Record, frozen=True):
    """A row of the memory chart's table: the flow, who asks for it, the counter to read on.

    `lit` are the ids of lines that light up with it.
    """

    flow: FlowRow
    lines: tuple[Link, ...]
    more: str
    lit: str
    counter: str
    made_of: str


class MemoryView(Record, frozen=True):
    """The memory chart: drawings, their scale, and the same as a table with a head a side."""

    prefix: str
    hops: tuple[Hop, ...]
    heads: tuple[str, ...]
    rows: tuple[ChartRow, ...]
    levels: tuple[LevelRow, ...]
    scale: str


class AccessRow(Record, frozen=True):
    """A row of the memory table: cells may be None where a kind of access has no such counter."""

    title: str
    cells: tuple[CounterCell | None, ...]


class BlockLimit(Record, frozen=True):
    """What allows how many blocks on an SM."""

    cell: CounterCell
    binding: bool


def _optional(launch: Launch, counter: str) -> CounterCell | None:
    return cell(launch, catalog()[counter]) if counter else None


def accesses(launch: Launch) -> tuple[AccessRow, ...]:
    """The kinds of access that this launch made."""
    rows = []
    for title, *ids in _ACCESSES:
        cells = tuple(_optional(launch, counter) for counter in ids)
        known = [item for item in cells if item and not item.missing]
        if any(item.value != units.count(0) for item in known):
            rows.append(AccessRow(title=title, cells=cells))
    return tuple(rows)


def memory_view(
    sides: Sequence[MemoryChart],
    labels: Sequence[str],
    anchor: Anchor,
    prefix: str = "",
    counters: str = "#",
) -> MemoryView:
    """The memory chart of one profile or of two.

    Args:
        sides: One, or the old and the new one.
        labels: What to call them.
        anchor: Where a line stands on the page.
        prefix: Of the ids of rows.
        counters: What stands before a counter's id in its address.
    """
    drawing = Drawing(sides, anchor, prefix, counters)
    rows = []
    for flows, words in zip(shown(sides), flow_rows(sides), strict=True):
        last = flows[-1]
        links = [
            Link(text=f"{line.key[1]} {percent(line.share)}", href=href)
            for line in last.lines
            if line.share >= LEAST_SHARE and (href := anchor(len(flows) - 1, line.key))
        ]
        more = len(links) - _NAMED
        rows.append(
            ChartRow(
                flow=words,
                lines=tuple(links[:_NAMED]),
                more=f"and {units.count(more)} more" if more > 0 else "",
                lit=drawing.lit([flows]),
                counter=f"{counters}{last.counter}" if last.counter else "",
                made_of=next((flow.ncu for flow in reversed(flows) if flow.ncu), ""),
            )
        )
    return MemoryView(
        prefix=prefix,
        hops=drawing.hops(),
        heads=tuple(labels),
        rows=tuple(rows),
        levels=level_rows(sides),
        scale=drawing.scale(),
    )


def limits(launch: Launch) -> tuple[BlockLimit, ...]:
    """Blocks per SM by each resource; the least one binds."""
    found = [(i, number) for i in _LIMITS if (number := value_of(launch, i)) is not None]
    least = min((number for _, number in found), default=0)
    return tuple(
        BlockLimit(cell=cell(launch, catalog()[i]), binding=number == least) for i, number in found
    )
