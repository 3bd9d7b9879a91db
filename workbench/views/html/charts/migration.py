"""How the bottleneck moves down a ladder: stacked stall time, and a path under the roof."""

from __future__ import annotations

from msgspec.structs import replace

from workbench import units
from workbench.analysis import roofline, stalls
from workbench.analysis.roofline import LEVELS, Position
from workbench.counters import catalog
from workbench.gpus import chip_for
from workbench.model import Launch, Profile, Record
from workbench.views.html.charts import figure as charts
from workbench.views.html.charts import roof as charts_roof
from workbench.views.html.charts.grouped import grouped, missing
from workbench.views.html.pages.launch import dots, rate_unit, roof
from workbench.views.html.parts.common import percent, value

_PEAKS = ("sm_throughput", "l1_throughput", "l2_throughput", "dram_throughput")
#: States that a chart can tell apart; the others are added up.
_STACKED = 7


class StallSplit(Record, frozen=True):
    """Durations split over warp states: as shares, as times, and as a table of times."""

    shares: charts.Figure
    times: charts.Figure
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class RoofPath(Record, frozen=True):
    """Several launches under one roof, and the table behind the chart."""

    figure: charts.Figure
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _parts(profile: Profile) -> dict[str, float]:
    """Seconds by warp state, over all launches of a profile."""
    parts: dict[str, float] = {}
    for launch in profile.launches:
        duration = float(value(launch, "duration") or 0.0)
        for share in stalls.breakdown(launch).shares if duration else ():
            title = share.state.title if share.stalled else f"{share.state.title} (issuing)"
            parts[title] = parts.get(title, 0.0) + share.share * duration
    return parts


def _groups(bars: list[tuple[str, dict[str, float]]]) -> list[tuple[str, list[str]]]:
    """The states that get a series of their own, largest share first, and the rest as one.

    Lists and no sets: seconds are added up in this order, and the last digit of a sum
    depends on it.
    """
    weight: dict[str, float] = {}
    for _, parts in bars:
        whole = sum(parts.values())
        for state, amount in parts.items():
            # Shares decide, so that a slow first version does not hide what the others do.
            weight[state] = weight.get(state, 0.0) + amount / whole
    order = sorted(weight, key=lambda state: -weight[state])
    groups = [(state, [state]) for state in order[:_STACKED]]
    if order[_STACKED:]:
        groups.append(("All others", order[_STACKED:]))
    return groups


def stack_stalls(
    identity: str, named: list[tuple[str, Profile]], noun: str = "Version"
) -> StallSplit | None:
    """Durations under the profiler, split over warp states; None where nobody has any."""
    bars = [(name, parts) for name, profile in named if (parts := _parts(profile))]
    if not bars:
        return None
    groups = _groups(bars)
    shares, times = [], []
    rows = [[name, units.quantity(sum(parts.values()), "s")] for name, parts in bars]
    for title, states in groups:
        share_marks, time_marks = [], []
        for row, (_, parts) in zip(rows, bars, strict=True):
            amount = sum(parts.get(state, 0.0) for state in states)
            share = amount / sum(parts.values())
            said = units.quantity(amount, "s")
            hover = f"{percent(share)}, {said}"
            share_marks.append(charts.Mark(100 * share, percent(share), hover))
            time_marks.append(charts.Mark(amount, said, hover))
            row.append(said)
        shares.append(charts.Segment(name=title, marks=tuple(share_marks)))
        times.append(charts.Segment(name=title, marks=tuple(time_marks)))
    names = [f"{name} · {row[1]}" for (name, _), row in zip(bars, rows, strict=True)]
    label = "Duration under the profiler, split over what the warps were doing"
    return StallSplit(
        shares=charts.stacked(identity, label, names, shares, "%", "% of the duration"),
        times=charts.stacked(f"{identity}-time", label, names, times, "s", "duration"),
        head=(noun, "Duration", *(title for title, _ in groups)),
        rows=tuple(map(tuple, rows)),
    )


class Throughputs(Record, frozen=True):
    """How close to each peak, side by side, and the table behind the chart."""

    figure: charts.Figure
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def throughputs(named: list[tuple[str, Launch]]) -> Throughputs | None:
    """Throughputs in percent of their peaks; None where no launch has any."""
    found = [
        (catalog()[counter].title, [value(launch, counter) for _, launch in named])
        for counter in _PEAKS
    ]
    found = [(title, values) for title, values in found if any(v is not None for v in values)]
    if not found:
        return None
    names = [name for name, _ in named]
    series = [
        charts.Segment(
            name=title,
            marks=tuple(
                charts.Mark(float(v), units.quantity(v, "%")) if v is not None else missing()
                for v in values
            ),
        )
        for title, values in found
    ]
    return Throughputs(
        figure=grouped(
            "throughput",
            "Throughput of the longest launch in percent of each peak",
            names,
            series,
            "% of peak",
        ),
        head=("Version", *(title for title, _ in found)),
        rows=tuple(
            (name, *(units.quantity(values[place], "%") for _, values in found))
            for place, name in enumerate(names)
        ),
    )


def roof_path(
    identity: str,
    named: list[tuple[str, Launch]],
    profile: Profile,
    *,
    joined: bool = True,
    apart: frozenset[str] = frozenset(),
    noun: str = "Version",
) -> RoofPath | None:
    """Launches under one roof, one series per memory level, `joined` in order as a path.

    Those named in `apart` (libraries, which are no step of the ladder) stay off the path.
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
    for name, _, place in places:
        found = dict(dots(place, name))
        for level, dot in found.items():
            series[level].append(replace(dot, alone=name in apart))
        cells = [units.digits3(found[x].intensity) if x in found else "—" for x in LEVELS]
        rows.append((name, units.quantity(place.rate, rate_unit(place.unit)), place.unit, *cells))
    chip = chip_for(profile.device)
    # One roof for each unit that did the work of some version, at the highest clock seen.
    tops: dict[str, charts_roof.Roof] = {}
    for _, launch, place in places:
        one = roof(chip, launch, place.unit)
        tops[place.unit] = max(tops.get(place.unit, one), one, key=lambda item: item.flops)
    # Words for both where a ladder leads from float32 to integers.
    rates = {rate_unit(place.unit) for *_, place in places}
    unit = "op/s" if "op/s" in rates else "flop/s"
    work = charts_roof.work_word(unit)
    return RoofPath(
        figure=charts_roof.roofline(
            identity,
            f"Roofline: {work} per second against {work} per byte, a series for each memory level",
            [(level, points) for level, points in series.items() if points],
            list(tops.values()),
            path=joined,
            unit=unit,
        ),
        head=(noun, "Rate", "Mostly on", *(f"{work} per byte at {level}" for level in LEVELS)),
        rows=tuple(rows),
    )
