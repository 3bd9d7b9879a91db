"""A kernel over the time of its run: an area a series, both versions above each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from workbench import units
from workbench.analysis.course import Course, Lane, telling
from workbench.model import Record
from workbench.views.html.parts.common import width

#: Points of an area, and its height in units of its drawing.
_POINTS, _HEIGHT = 128, 100


class Area(Record, frozen=True):
    """A side's series: an SVG path, its length in percent of the longer run, and numbers."""

    path: str
    points: str
    width: str
    mean: str
    largest: str


class LaneRow(Record, frozen=True):
    """One series of all sides; None where a side was not sampled for it."""

    title: str
    ncu: str
    areas: tuple[Area | None, ...]


class TimelineView(Record, frozen=True):
    """The rows of throughputs and of warp states, and what the sides are."""

    heads: tuple[str, ...]
    throughputs: tuple[LaneRow, ...]
    states: tuple[LaneRow, ...]
    note: str


def timeline_view(sides: Sequence[Course], labels: Sequence[str]) -> TimelineView:
    """One run, or the old and the new one on one scale of time.

    Args:
        sides: The runs.
        labels: What to call them.
    """
    throughputs = dict.fromkeys(lane.title for side in sides for lane in side.throughputs)
    runs = [
        f"{label + ' ' if label else ''}{units.quantity(side.seconds, 's')}"
        for label, side in zip(labels, sides, strict=True)
    ]
    return TimelineView(
        heads=tuple(labels),
        throughputs=_rows(throughputs, [side.throughputs for side in sides], sides),
        states=_rows(telling(sides), [side.states for side in sides], sides),
        note=f"From the kernel’s start to its end, {units.listed(runs)}; heights are 0 to 100%.",
    )


def _rows(
    titles: Iterable[str], lanes: Sequence[Sequence[Lane]], sides: Sequence[Course]
) -> tuple[LaneRow, ...]:
    longest = max(side.seconds for side in sides)
    rows = []
    for title in titles:
        own = [next((lane for lane in side if lane.title == title), None) for side in lanes]
        rows.append(
            LaneRow(
                title=title,
                ncu=next(lane.ncu for lane in own if lane is not None),
                areas=tuple(
                    _area(lane, side.seconds / longest) if lane is not None else None
                    for lane, side in zip(own, sides, strict=True)
                ),
            )
        )
    return tuple(rows)


def _area(lane: Lane, share: float) -> Area:
    merged = math.ceil(len(lane.values) / _POINTS)
    parts = [lane.values[n : n + merged] for n in range(0, len(lane.values), merged)]
    heights = [round(min(sum(part) / len(part), 100.0)) for part in parts]
    path, at = [f"M0 {_HEIGHT}"], 0
    for height in heights:
        path.append(f"v{at - height}h1" if height != at else "h1")
        at = height
    return Area(
        path=f"{''.join(path)}V{_HEIGHT}z",
        points=str(len(heights)),
        width=width(share),
        mean=units.quantity(lane.mean, "%"),
        largest=units.quantity(lane.largest, "%"),
    )
