"""``workbench show`` on a terminal: one profile, the longest launch in detail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from workbench.analysis.aggregate import weights_of
from workbench.analysis.headroom import panel_of_launch
from workbench.analysis.launches.titles import titles
from workbench.analysis.remarks import remarks
from workbench.analysis.timing import speed_beside
from workbench.counters import NEVER_EMULATED, Missing, catalog, read, read_all
from workbench.model import Launch, Profile, Timing
from workbench.units import count, quantity, several
from workbench.views.terminal.console import (
    DIM,
    HEAD,
    WIDE,
    clean,
    columns,
    grid,
    notes_block,
    provenance,
    section,
    shape,
    with_unit,
)
from workbench.views.terminal.headroom import headroom
from workbench.views.terminal.lines import hot_lines, rules
from workbench.views.terminal.sections import (
    Readings,
    memory,
    occupancy,
    scheduler,
    speed_of_light,
    stall_bars,
    text_of,
    value_of,
)

#: What the table of launches says of each.
_OVERVIEW = ("duration", "sm_throughput", "memory_throughput")


def show_view(
    profile: Profile,
    *,
    label: str,
    title: str = "",
    timing: Timing | None = None,
    baseline: Timing | None = None,
    notes: Sequence[str] = (),
    everything: bool = False,
    width: int = 80,
) -> RenderableType:
    """One profile: header, overview of its launches, details of the longest one.

    Args:
        profile: What to show.
        label: ``sgemm/v3``, or the report's name.
        title: The version's title.
        timing: Its time outside of a profiler, if recorded.
        baseline: The baseline's time, for comparison.
        notes: Warnings that stand beside the numbers (a stale source).
        everything: Every counter and every rule instead of the telling ones.
        width: Columns of the terminal.
    """
    head = Text(clean(label), style=HEAD)
    if title:
        head.append(f"  {clean(title)}", style="not bold")
    parts: list[RenderableType] = [head, Text(provenance(profile), style=DIM)]
    parts += notes_block([*notes, *remarks(profile)])
    if timing is not None:
        parts += [Text(), _time(timing, baseline)]
    profiled = [launch for launch in profile.launches if launch.profiled]
    if not profiled:
        return Group(*parts, Text(), Text("No launch of it was profiled."))
    weights, _ = weights_of(profiled)
    longest = profiled[max(range(len(profiled)), key=lambda place: weights[place])]
    if len(profile.launches) > 1:
        parts.append(_overview(profile, longest, width))
    parts += _details(profile, longest, read_all(longest), everything, width)
    return Group(*parts)


def _time(timing: Timing, baseline: Timing | None) -> Text:
    time = timing.time
    text = Text("Time  ", style=HEAD)
    text.append(quantity(time.value, "s"))
    facts = [f"{quantity(time.low, 's')} to {quantity(time.high, 's')}", f"{timing.cache} cache"]
    if not timing.converged:
        facts.append("not converged")
    text.append(f" ({', '.join(facts)})", style=f"not bold {DIM}")
    if timing.flops:
        rate = quantity(timing.flops / time.value, "flop/s")
        text.append(f"  {rate}", style="not bold")
    speed = speed_beside(timing, baseline)
    name = timing.baseline if timing.ratio else baseline.version if baseline else ""
    if speed is not None and name != timing.version:
        share = quantity(100.0 * speed, "%")
        text.append(f"  {share} of the speed of {clean(name)}", style="not bold")
    return text


def _overview(profile: Profile, longest: Launch, width: int) -> RenderableType:
    """One row per launch; the longest is marked, because its details follow."""
    # Of thousands of launches only what stands in the table.
    readings = [{name: read(launch, name) for name in _OVERVIEW} for launch in profile.launches]
    total = sum(value_of(each, "duration") or 0.0 for each in readings)
    wide = width >= 100
    table = grid("r", "l", "f", *("lr" if wide else ""), "r", "r", "r", "r")
    table.expand = True
    header = ["", "", "kernel", *(["grid", "block"] if wide else [])]
    header += ["duration", "share", "compute", "memory"]
    table.add_row(*(Text(each, style=DIM) for each in header))
    for launch, title, own in zip(
        profile.launches, titles(profile.launches), readings, strict=True
    ):
        duration = value_of(own, "duration")
        share = 100.0 * duration / total if duration is not None and total else None
        mark = Text("▸" if launch is longest else "", style=HEAD)
        name = Text(clean(title, 60), style=HEAD if launch is longest else "")
        if not launch.profiled:
            name.append("  never profiled", style=DIM)
        sizes = [shape(launch.grid), shape(launch.block)] if wide else []
        table.add_row(
            str(launch.index),
            mark,
            name,
            *sizes,
            quantity(duration, "s"),
            quantity(share, "%"),
            text_of(own, "sm_throughput"),
            text_of(own, "memory_throughput"),
        )
    return section(several(len(profile.launches), "launch", "launches"), table)


def _details(
    profile: Profile, launch: Launch, readings: Readings, everything: bool, width: int
) -> list[RenderableType]:
    facts = [f"grid {shape(launch.grid)}", f"block {shape(launch.block)}"]
    if launch.dynamic_shared:
        facts.append(f"{quantity(launch.dynamic_shared, 'byte')} dynamic shared memory")
    duration = value_of(readings, "duration")
    if duration is not None:
        facts.append(f"{quantity(duration, 's')} under the profiler")
    head = Text(clean(launch.kernel, 120), style=f"{HEAD} underline")
    head.append(f"  {', '.join(facts)}", style="not bold not underline")
    parts: list[RenderableType] = [Text(), head]
    parts += headroom(profile, panel_of_launch(launch, profile.device), everything)
    half = (width - 4) // 2 if width >= WIDE else width
    left = [
        speed_of_light(readings, half),
        memory(readings, profile.device),
    ]
    right = [
        occupancy(readings),
        scheduler(readings),
        stall_bars(launch, half),
    ]
    blocks = [each for each in left if each is not None]
    others = [each for each in right if each is not None]
    if width >= WIDE:
        parts.append(columns([Group(*blocks), Group(*others)], width))
    else:
        parts += [*blocks, *others]
    parts += hot_lines(profile, launch, width, limit=24 if everything else 8)
    parts += rules(launch, everything)
    if everything:
        parts.append(_every_counter(readings))
        parts += _of_ptx(launch, readings)
    parts += _missing(readings, everything)
    return parts


def _every_counter(readings: Readings) -> RenderableType:
    table = grid("l", "r", "l", "f")
    group = ""
    for counter in catalog():
        reading = readings[counter.id]
        if isinstance(reading, Missing):
            continue
        if counter.group != group:
            group = counter.group
            table.add_row(Text(catalog().groups[group], style=HEAD), "", "", "")
        value = with_unit(reading.value, reading.unit)
        ncu = Text(reading.ncu, style=DIM, overflow="ellipsis", no_wrap=True)
        table.add_row(Text(f"  {counter.title}"), Text(value), Text(counter.id, style=DIM), ncu)
    return section("All counters", table)


def _of_ptx(launch: Launch, readings: Readings) -> list[RenderableType]:
    """What the emulator counted of PTX and no counter of the catalog stands for."""
    taken = {each.ncu for each in readings.values() if not isinstance(each, Missing)}
    table = grid("l", "r")
    for name, metric in launch.metrics.items():
        if name.startswith("ptx__") and name not in taken:
            shown = metric.value if isinstance(metric.value, str) else None
            value = shown or with_unit(float(metric.value), metric.unit)
            table.add_row(Text(f"  {name}"), Text(clean(value)))
    return [section("Counted of PTX", table)] if table.row_count else []


def _missing(readings: Readings, everything: bool) -> list[RenderableType]:
    """Every counter without a value, with the reason; grouped by kind unless all are wanted."""
    absent = {name: reading for name, reading in readings.items() if isinstance(reading, Missing)}
    if not absent:
        return []
    plural = "s" if len(absent) > 1 else ""
    head = f"{count(len(absent))} counter{plural} without a value"
    table = grid("l", "f")
    if everything:
        for name, reading in absent.items():
            table.add_row(Text(name), Text(reading.reason, style=DIM))
        return [section(head, table)]
    kinds: dict[str, list[str]] = defaultdict(list)
    for group, title in catalog().groups.items():
        members = [counter.id for counter in catalog().group(group)]
        own = {name: _kind(absent[name]) for name in members if name in absent}
        if len(own) == len(members) > 2 and len(set(own.values())) == 1:
            # A whole group is missing: one section was not captured, and one word says it.
            kinds[own[members[0]]].append(f"all {len(members)} of {title}")
            continue
        for name, kind in own.items():
            kinds[kind].append(name)
    for kind, names in kinds.items():
        table.add_row(Text(kind), Text(", ".join(names), style=DIM))
    note = "--all names each one with its reason"
    return [section(head, table, note)]


def _kind(reading: Missing) -> str:
    if reading.undefined:
        return "undefined here"
    if reading.reason.startswith("not collected"):
        return "not collected"
    if reading.reason.startswith(NEVER_EMULATED):
        return "never emulated"
    if "without a number" in reading.reason:
        return "no number"
    return "unknown"
