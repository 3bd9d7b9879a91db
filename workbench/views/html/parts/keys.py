"""View model of counters of several launches: a row a version or launch, a column a counter.

A ladder grows by versions, never by counters: so the table grows downwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.analysis.aggregate import value_of
from workbench.counters import catalog
from workbench.model import Launch, Record
from workbench.views.html.parts.common import CounterCell, Link, cell, width

#: The counters whose way down the ladder tells most of the story.
_COUNTERS = (
    "duration",
    "sm_throughput",
    "dram_throughput",
    "issue_active",
    "achieved_occupancy",
    "l1_hit_rate",
    "l2_hit_rate",
    "instructions",
    "global_sectors",
    "global_sectors_excess",
    "shared_wavefronts",
    "shared_wavefronts_excess",
    "registers",
    "allocated_shared",
)
_PEAKS = ("sm_throughput", "l1_throughput", "l2_throughput", "dram_throughput")


class CounterColumn(Record, frozen=True):
    """A counter at the head of its column; `unit` only where the values do not say it."""

    id: str
    title: str
    meaning: str
    unit: str = ""


class CounterTable(Record, frozen=True):
    """Columns, and rows: a link, and for each column the cell and the width of its bar."""

    columns: tuple[CounterColumn, ...]
    rows: tuple[tuple[Link, tuple[tuple[CounterCell, str], ...]], ...]


def key_counters(named: Sequence[tuple[Link, Launch]]) -> CounterTable | None:
    """Key counters of launches; those that no launch has are left out. None without any."""
    return _table(named, _COUNTERS)


def peaks(named: Sequence[tuple[Link, Launch]]) -> CounterTable | None:
    """How near launches come to each peak, in percent with bars. None without any."""
    return _table(named, _PEAKS)


def _table(named: Sequence[tuple[Link, Launch]], counters: Sequence[str]) -> CounterTable | None:
    columns, cells = [], []
    for counter in map(catalog().__getitem__, counters):
        column = [(cell(launch, counter), _width(launch, counter.id)) for _, launch in named]
        if all(item.missing for item, _ in column):
            continue
        # "Shared wavefronts" says what is counted.
        unit = next((c.unit for c, _ in column if c.unit not in counter.title.lower()), "")
        columns.append(CounterColumn(counter.id, counter.title, counter.meaning, unit))
        cells.append(column)
    if not columns:
        return None
    links = [link for link, _ in named]
    return CounterTable(tuple(columns), tuple(zip(links, zip(*cells, strict=True), strict=True)))


def _width(launch: Launch, counter: str) -> str:
    number = value_of(launch, counter) if counter in _PEAKS else None
    return width(float(number) / 100) if number is not None else ""
