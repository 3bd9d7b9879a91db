"""View model of the key counters: a row for each version (or launch), a column for each counter.

A ladder grows by versions, never by counters: so the table grows downwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.counters import catalog
from workbench.model import Launch, Record
from workbench.views.html.parts.common import Link, cell

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


class KeyColumn(Record, frozen=True):
    """A counter at the head of its column; `unit` only where the values do not say it."""

    id: str
    title: str
    meaning: str
    unit: str


class KeyRow(Record, frozen=True):
    """A version's values: text, and why there is none."""

    link: Link
    values: tuple[tuple[str, str], ...]


class KeyCounters(Record, frozen=True):
    """The whole table."""

    columns: tuple[KeyColumn, ...]
    rows: tuple[KeyRow, ...]


def key_counters(named: Sequence[tuple[Link, Launch]]) -> KeyCounters | None:
    """Key counters of launches; those that no launch has are left out. None without any."""
    columns, values = [], []
    for counter in map(catalog().__getitem__, _COUNTERS):
        cells = [cell(launch, counter) for _, launch in named]
        if all(item.missing for item in cells):
            continue
        # "Shared wavefronts" says what is counted.
        unit = next((c.unit for c in cells if c.unit not in counter.title.lower()), "")
        columns.append(KeyColumn(counter.id, counter.title, counter.meaning, unit))
        values.append([(item.value, item.missing) for item in cells])
    if not columns:
        return None
    rows = zip(*values, strict=True)
    return KeyCounters(
        columns=tuple(columns),
        rows=tuple(KeyRow(link, tuple(row)) for (link, _), row in zip(named, rows, strict=True)),
    )
