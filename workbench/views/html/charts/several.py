"""Several launches side by side: stacked stall time, a path under the roof, tables of counters."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from workbench import units
from workbench.analysis.limits import roofline
from workbench.analysis.limits.limit import heaviest_states, state_seconds
from workbench.analysis.limits.roofline import LEVELS, Position
from workbench.counters import catalog
from workbench.gpus import chip_for
from workbench.language import N_, _
from workbench.model import Launch, Profile
from workbench.views.html.charts import roof as charts_roof
from workbench.views.html.charts.figure import Plot
from workbench.views.html.page import Link, View
from workbench.views.html.parts import cell, hue

#: The most states that a chart distinguishes; the others are added up, except large ones.
_STACKED = 7


def stack_stalls(named: list[tuple[str, Profile]], noun: str = N_("Version")) -> View | None:
    """Durations under the profiler, split over warp states; None if no launch has any.

    The result has bars of shares, and a table of times.
    """
    bars = [(name, parts) for name, profile in named if (parts := state_seconds(profile))]
    if not bars:
        return None
    groups = heaviest_states([parts for __, parts in bars], _STACKED)
    sides, rows = [], []
    for name, parts in bars:
        whole = sum(parts.values())
        split = [
            (title, states, sum(parts.get(s, 0.0) for s in states)) for title, states in groups
        ]
        rows.append([units.quantity(seconds, "s") for seconds in (whole, *(x for *__, x in split))])
        shown = [
            (title, seconds / whole, True, hue(own[0]) if len(own) == 1 else "soft")
            for title, own, seconds in split
        ]
        sides.append(View(label=name, said=rows[-1][0], width="100", parts=shown))
    return View(
        sides=sides,
        head=(_(noun), _("Duration"), *(title for title, __ in groups)),
        rows=[[side.label, *row] for side, row in zip(sides, rows, strict=True)],
    )


def roof_path(
    identity: str,
    named: list[tuple[str, Launch]],
    profile: Profile,
    *,
    joined: bool = True,
    apart: frozenset[str] = frozenset(),
    noun: str = N_("Version"),
) -> Plot | None:
    """Launches under one roof, one series per memory level, `joined` in order as a path.

    Those named in `apart` (libraries, which are not steps of the ladder) are not on the path.
    """
    places = [
        (name, launch, place)
        for name, launch in named
        if isinstance(place := roofline.position(launch), Position)
    ]
    if not places:
        return None
    series: dict[str, list[charts_roof.Dot]] = {level: [] for level in LEVELS}
    rows = []
    chip = chip_for(profile.device)
    for name, launch, place in places:
        found = charts_roof.dots(place, name)
        for level, dot in found.items():
            series[level].append(replace(dot, alone=name in apart))
        cells = [units.digits3(found[x].intensity) if x in found else "—" for x in LEVELS]
        rate = units.quantity(place.rate, charts_roof.rate_unit(place.unit))
        closest = charts_roof.nearest(place, roofline.roof(chip, launch, place.unit))
        rows.append((name, rate, place.unit, closest or units.quantity(None), *cells))
    # Use words for both if a ladder goes from float32 to integers.
    rates = {charts_roof.rate_unit(place.unit) for *__, place in places}
    unit = "op/s" if "op/s" in rates else "flop/s"
    work = charts_roof.work_word(unit)
    levels = (_("{work} per byte at {level}").format(work=work, level=level) for level in LEVELS)
    return Plot(
        figure=charts_roof.roofline(
            identity,
            _(
                "Roofline: {work} per second against {work} per byte, "
                "a series for each memory level"
            ).format(work=work),
            [(level, points) for level, points in series.items() if points],
            roofline.roofs([place[1:] for place in places], chip),
            path=joined,
            unit=unit,
        ),
        head=(_(noun), _("Rate"), _("Mostly on"), _("Closest roof"), *levels),
        rows=tuple(rows),
    )


# A ladder grows by versions, never by counters: so the table grows downwards.

#: The counters whose changes along the ladder explain most of it.
KEY_COUNTERS = (
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
#: Counters that show how close launches are to each peak, in percent.
PEAKS = ("sm_throughput", "l1_throughput", "l2_throughput", "dram_throughput")


def counter_table(named: Sequence[tuple[Link, Launch]], counters: Sequence[str]) -> View | None:
    """Columns, with a unit if the values lack it; and rows, each with its link.

    Counters that no launch has are left out; None if none is left.
    """
    columns, cells = [], []
    for counter in map(catalog().__getitem__, counters):
        column = [cell(launch, counter) for __, launch in named]
        if all(item.missing for item in column):
            continue
        # "Shared wavefronts" already names the unit.
        unit = next((c.unit for c in column if c.unit not in counter.title.lower()), "")
        columns.append((counter, unit))
        cells.append(column)
    if not columns:
        return None
    links = [link for link, _ in named]
    return View(columns=columns, rows=list(zip(links, zip(*cells, strict=True), strict=True)))
