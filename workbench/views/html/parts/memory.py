"""View models of memory and occupancy: accesses, levels, and what limits the blocks on an SM."""

from __future__ import annotations

from workbench import units
from workbench.analysis import roofline
from workbench.analysis.aggregate import value_of
from workbench.counters import catalog
from workbench.model import Launch, Record
from workbench.views.html.parts.common import CounterCell, cell

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
_LEVELS: dict[roofline.Level, tuple[str, str]] = {
    "L1": ("l1_hit_rate", "l1_throughput"),
    "L2": ("l2_hit_rate", "l2_throughput"),
    "DRAM": ("", "dram_throughput"),
}


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


def levels(launch: Launch) -> tuple[tuple[str, str, CounterCell | None, CounterCell | None], ...]:
    """Level, traffic, hit rate and throughput from L1 to DRAM."""
    place = roofline.traffic(launch)
    return tuple(
        (
            level,
            units.quantity(place.get(level), "byte"),
            _optional(launch, hits),
            _optional(launch, throughput),
        )
        for level, (hits, throughput) in _LEVELS.items()
    )


def limits(launch: Launch) -> tuple[BlockLimit, ...]:
    """Blocks per SM by each resource; the least one binds."""
    found = [(i, number) for i in _LIMITS if (number := value_of(launch, i)) is not None]
    least = min((number for _, number in found), default=0)
    return tuple(
        BlockLimit(cell=cell(launch, catalog()[i]), binding=number == least) for i, number in found
    )
