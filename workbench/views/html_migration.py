"""How the bottleneck moves down a ladder: stacked stall time, and a path under the roof."""

from __future__ import annotations

from workbench import units
from workbench.analysis import roofline, stalls
from workbench.analysis.roofline import Position
from workbench.gpus import chip_for
from workbench.model import Launch, Profile
from workbench.views import charts
from workbench.views.html_common import percent, value
from workbench.views.html_launch import dots, roof

#: States that a chart can tell apart; the others are added up.
_STACKED = 7


def stack_stalls(
    identity: str, named: list[tuple[str, Profile]]
) -> tuple[charts.Figure | None, tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Duration split over warp states, one bar per profile: how the bottleneck migrates."""
    bars: list[tuple[str, dict[str, float]]] = []
    titles: dict[str, str] = {}
    weight: dict[str, float] = {}
    for name, profile in named:
        parts: dict[str, float] = {}
        for launch in profile.launches:
            duration = value(launch, "duration")
            for share in stalls.breakdown(launch).shares if duration else ():
                amount = share.share * float(duration or 0)
                titles[share.state.id] = share.state.title
                parts[share.state.id] = parts.get(share.state.id, 0.0) + amount
        if parts:
            bars.append((name, parts))
        whole = sum(parts.values())
        for state, amount in parts.items():
            # Shares decide what is named, so that a slow first version does not hide the rest.
            weight[state] = weight.get(state, 0.0) + amount / whole
    if not bars:
        return None, (), ()
    named_states = sorted(weight, key=lambda state: -weight[state])[:_STACKED]
    segments, rows = [], [[name] for name, _ in bars]
    groups = [(titles[state], [state]) for state in named_states]
    rest = [state for state in weight if state not in named_states]
    if rest:
        groups.append(("All others", rest))
    for title, states in groups:
        marks = []
        for row, (_, parts) in zip(rows, bars, strict=True):
            amount = sum(parts.get(state, 0.0) for state in states)
            said = units.quantity(amount, "s")
            marks.append(
                charts.Mark(amount, said, f"{said}, {percent(amount / sum(parts.values()))}")
            )
            row.append(said)
        segments.append(charts.Segment(name=title, marks=tuple(marks)))
    figure = charts.stacked(
        identity,
        "Duration under the profiler, split over what the warps were doing",
        [name for name, _ in bars],
        segments,
        "s",
        "duration, split by warp state",
    )
    return figure, tuple(title for title, _ in groups), tuple(map(tuple, rows))


def roof_path(
    identity: str, named: list[tuple[str, Launch]], profile: Profile, *, joined: bool = True
) -> tuple[charts.Figure | None, tuple[tuple[str, ...], ...]]:
    """All versions under one roof, `joined` in order, at the level of device memory."""
    points, rows = [], []
    top: charts.Roof | None = None
    for name, launch in named:
        place = roofline.position(launch)
        if not isinstance(place, Position):
            continue
        for level, dot in dots(place, name):
            if level != "DRAM":
                continue
            points.append(dot)
            rows.append((name, units.digits3(dot.intensity), units.quantity(dot.rate, "flop/s")))
            here = roof(chip_for(profile.device), launch)
            top = here if top is None or here.flops > top.flops else top
    if not points or top is None:
        return None, ()
    figure = charts.roofline(
        identity,
        "Roofline: the versions from first to last, FLOP per second against FLOP per byte of "
        "device memory",
        [("versions", points)],
        top,
        path=joined,
    )
    return figure, tuple(rows)
