"""The roofline figure: points under ceilings, axes logarithmic, labels where there is room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench import units
from workbench.analysis.limits.roofline import LEVELS, Level, Position, Roof, Unit
from workbench.model import Record
from workbench.views.html.charts.figure import COLORS, Figure, Json, axis_of, layout_of, plain

# --- labels beside points -------------------------------------------------------------
# Plotly draws a point's label where it is told to and lets labels lie on each other. Here
# each label is tried on the four sides of its point, in pixels of a plot of an assumed
# size, and left out where none is free; hovering and the table name every point.

#: Half of a point's mark, its distance to a label, and a label's height and letters, in pixels.
_MARK, _GAP, _LINE, _LETTER = 6.0, 2.0, 14.0, 6.6

#: Plotly's names for the sides, in the order in which they are tried.
_SIDES = ("top center", "bottom center", "middle right", "middle left")


class Spot(NamedTuple):
    """A point in pixels, from the left and from the top, and its name."""

    x: float
    y: float
    label: str


class PointLabel(NamedTuple):
    """What is written beside a point ("" for nothing), and on which side."""

    text: str
    side: str


class Box(NamedTuple):
    """A rectangle in pixels, from the left and from the top."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two have a point in common that is not on their edges."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def within(self, width: float, height: float) -> bool:
        """Whether it lies in a plot of that size."""
        return self.left >= 0 and self.right <= width and self.top >= 0 and self.bottom <= height


def box(spot: Spot, side: str) -> Box:
    """Where a label is written on one side of its point."""
    wide = _LETTER * len(spot.label)
    if side.startswith("middle"):
        right = side.endswith("right")
        start = spot.x + _MARK + _GAP if right else spot.x - _MARK - _GAP - wide
        return Box(start, spot.y - _LINE / 2, start + wide, spot.y + _LINE / 2)
    top = spot.y - _MARK - _LINE if side.startswith("top") else spot.y + _MARK
    return Box(spot.x - wide / 2, top, spot.x + wide / 2, top + _LINE)


def placed(spots: Sequence[Spot], width: float, height: float) -> list[PointLabel]:
    """A label for each point that has room for one.

    Args:
        spots: The points; those of the greatest interest first.
        width: Of the plot, in pixels.
        height: Of the plot, in pixels.
    """
    taken = [Box(s.x - _MARK, s.y - _MARK, s.x + _MARK, s.y + _MARK) for s in spots]
    out = []
    for spot in spots:
        free = (
            (side, found)
            for side in _SIDES
            if (found := box(spot, side)).within(width, height)
            and not any(found.meets(other) for other in taken)
        )
        side, chosen = next(free, ("", None))
        if chosen is None:
            out.append(PointLabel("", _SIDES[0]))
        else:
            taken.append(chosen)
            out.append(PointLabel(spot.label, side))
    return out


SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "star", "x", "pentagon")
#: Widths of the plot for which labels are placed, and what is around it, in pixels.
_WIDE, _NARROW, _AROUND = 860.0, 240.0, 80.0
_FEW = 3
_DASHES: dict[Level, str] = {"L1": "dot", "L2": "dash", "DRAM": "solid"}
#: More points need more room.
_CROWD = 12


class Dot(Record, frozen=True):
    """A point under the roofline: FLOP per byte and FLOP/s."""

    label: str
    intensity: float
    rate: float
    hover: str
    alone: bool = False  # on no path


def decades(low: float, high: float, unit: str = "") -> Json:
    """Logarithmic ticks that cover `low` to `high`, as formatted text.

    Powers of ten, or 1, 2 and 5 of each where fewer than three powers would be seen.
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    values = [10.0**power for power in range(first, last + 1)]
    if sum(low <= value <= high for value in values) < _FEW:
        finer = [step * value for value in values for step in (1.0, 2.0, 5.0)]
        values = [value for value in finer if low / 1.5 <= value <= high * 1.5]
    return {"tickvals": values, "ticktext": units.tick_row(values, unit)}


def work_word(unit: str) -> str:
    """What a rate counts, as it is written: ``flop/s`` -> ``FLOP``."""
    return units.symbol(unit).removesuffix("/s")


def rate_unit(unit: Unit) -> str:
    """How the work of a unit is written: integers are no floating-point operations."""
    return "op/s" if unit in ("tensor int8", "dp4a") else "flop/s"


def peak_text(roof: Roof) -> str:
    """``67 TFLOP/s float32 peak``."""
    return f"{units.quantity(roof.flops, rate_unit(roof.unit))} {roof.unit} peak"


def dots(place: Position, label: str) -> dict[Level, Dot]:
    """A position as one dot per memory level that was measured."""
    unit = rate_unit(place.unit)
    out: dict[Level, Dot] = {}
    for level in LEVELS:
        intensity = place.intensity(level)
        if intensity is not None:
            per_byte = f"{units.digits3(intensity)} {work_word(unit)}/B"
            hover = f"{label} at {level}: {units.quantity(place.rate, unit)}, {per_byte}"
            out[level] = Dot(label=label, intensity=intensity, rate=place.rate, hover=hover)
    return out


def _roof_lines(roof: Roof, levels: Sequence[Level], low: float, high: float) -> list[Json]:
    """The ceiling of a unit over each level that has points and a known bandwidth."""
    return [_roof_line(roof, level, low, high) for level in levels if roof.slope(level)]


def _roof_line(roof: Roof, level: Level, low: float, high: float) -> Json:
    slope = roof.slope(level)
    xs = [low, max(low, min(roof.flops / slope, high)), high]
    return {
        "type": "scatter",
        "mode": "lines",
        "hoverinfo": "skip",
        "showlegend": False,
        "x": xs,
        "y": [min(roof.flops, x * slope) for x in xs],
        "line": {"color": "@soft", "width": 1.5, "dash": _DASHES[level]},
    }


def _labels(series: Sequence[list[Dot]], view: _Window, width: float) -> list[list[PointLabel]]:
    """Labels of all points; the ends of a path come first, libraries last."""
    places = [(number, place) for number, dots in enumerate(series) for place in range(len(dots))]

    def interest(at: tuple[int, int]) -> tuple[bool, bool, int]:
        dots = series[at[0]]
        own = [place for place, dot in enumerate(dots) if not dot.alone]
        return dots[at[1]].alone, at[1] not in own[:1] + own[-1:], at[1]

    order = sorted(places, key=interest)
    spots = [view.spot(series[number][place], width) for number, place in order]
    found = dict(zip(order, placed(spots, width, view.height), strict=True))
    return [[found[n, place] for place in range(len(dots))] for n, dots in enumerate(series)]


class _Window(NamedTuple):
    """What the axes show, as powers of ten, and the plot's height in pixels."""

    x: tuple[float, float]
    y: tuple[float, float]
    height: float

    def spot(self, dot: Dot, width: float) -> Spot:
        (left, right), (low, high) = self.x, self.y
        return Spot(
            x=width * (math.log10(dot.intensity) - left) / (right - left),
            y=self.height * (high - math.log10(dot.rate)) / (high - low),
            label=dot.label,
        )


def _gaps(dots: list[Dot]) -> list[int]:
    """Where a path must not go on: places before which it is broken."""
    return [n for n in range(1, len(dots)) if dots[n].alone or dots[n - 1].alone]


def _broken(values: list[Any], gaps: list[int], nothing: object) -> list[Any]:
    out: list[Any] = []
    for place, value in enumerate(values):
        if place in gaps:
            out.append(nothing)
        out.append(value)
    return out


def _texts(labels: list[PointLabel], gaps: list[int]) -> Json:
    return {
        "text": _broken([plain(label.text) for label in labels], gaps, ""),
        "textposition": _broken([label.side for label in labels], gaps, labels[0].side),
    }


def _ceiling_text(roof: Roof, right: float) -> Json:
    return {
        "x": right,
        "y": math.log10(roof.flops),
        "xanchor": "right",
        "yanchor": "bottom",
        "showarrow": False,
        "text": plain(peak_text(roof)),
        "font": {"color": "@soft", "size": 11},
    }


def _bandwidth_text(roof: Roof, levels: Sequence[Level]) -> Json:
    """What the slopes are, the steepest first."""
    names = {"L1": "L1 (dotted)", "L2": "L2 (dashed)", "DRAM": "device memory"}
    slopes = [
        f"{units.quantity(roof.slope(level), 'byte/s')} {names[level]}"
        for level in levels
        if roof.slope(level)
    ]
    return {
        "x": 0,
        "y": 1,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "top",
        "showarrow": False,
        "align": "left",
        "text": "<br>".join(map(plain, slopes)),
        "font": {"color": "@soft", "size": 11},
    }


def _trace(
    name: str, index: int, dots: list[Dot], gaps: list[int], texts: Json, lines: str
) -> Json:
    return {
        "type": "scatter",
        "mode": f"{lines}markers+text",
        "name": plain(name),
        "x": _broken([dot.intensity for dot in dots], gaps, None),
        "y": _broken([dot.rate for dot in dots], gaps, None),
        "customdata": _broken([plain(dot.hover) for dot in dots], gaps, ""),
        "hovertemplate": "%{customdata}<extra></extra>",
        **texts,
        "textfont": {"size": 11, "color": "@ink"},
        "cliponaxis": False,
        "line": {"color": COLORS[index % len(COLORS)], "width": 1.5, "dash": "dot"},
        "marker": {
            "size": 11,
            "symbol": SYMBOLS[index % len(SYMBOLS)],
            "color": COLORS[index % len(COLORS)],
            "line": {"color": "@card", "width": 1},
        },
    }


def roofline(
    identity: str,
    label: str,
    series: Sequence[tuple[str, list[Dot]]],
    roofs: Sequence[Roof],
    *,
    path: bool,
    unit: str = "flop/s",
) -> Figure:
    """Points under a roof, both axes logarithmic.

    Args:
        identity: Id of the figure on its page.
        label: Spoken name.
        series: Name and points; each series has a colour and a symbol of its own.
        roofs: The ceilings, one for each unit in use; they share one memory bandwidth.
        path: Join the points of a series by a line, for a ladder.
        unit: Of the rates: ``flop/s``, or ``op/s`` where integers are among the work.
    """
    dots = [dot for _, points in series for dot in points]
    known = [roof for roof in roofs if roof.flops and roof.bandwidth]
    # The slope of device memory is where a reader looks for it, whatever has points.
    levels = [level for level in LEVELS if level == "DRAM" or level in dict(series)]
    ridges = [roof.flops / roof.slope(x) for roof in known for x in levels if roof.slope(x)]
    xs = [dot.intensity for dot in dots] + ridges
    ys = [dot.rate for dot in dots] + [roof.flops for roof in known]
    low_x, high_x = min(xs) / 4, max(xs) * 6
    low_y, high_y = min(ys) / 4, max(ys) * 3
    log_x = [math.log10(low_x), math.log10(high_x)]
    log_y = [math.log10(low_y), math.log10(high_y)]
    height = 330 if len(dots) <= _CROWD else 440
    view = _Window((log_x[0], log_x[1]), (log_y[0], log_y[1]), height - _AROUND)
    points = [found for _, found in series]
    wide, small = (_labels(points, view, width) for width in (_WIDE, _NARROW))
    data = [line for roof in known for line in _roof_lines(roof, levels, low_x, high_x)]
    narrow: list[Json] = [{} for _ in data]
    for index, (name, found) in enumerate(series):
        gaps = _gaps(found) if path else []
        texts = _texts(wide[index], gaps)
        data.append(_trace(name, index, found, gaps, texts, "lines+" if path else ""))
        narrow.append(_texts(small[index], gaps))
    layout = layout_of(
        xaxis=axis_of(
            title=f"{work_word(unit)} per byte", type="log", range=log_x, **decades(low_x, high_x)
        ),
        yaxis=axis_of(type="log", range=log_y, **decades(low_y, high_y, unit)),
        margin={"l": 8, "r": 16, "t": 10, "b": 36},
    )
    if path or any(len(points) > 1 for _, points in series):
        layout |= {
            "showlegend": True,
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        }
        layout["margin"] = {"l": 8, "r": 16, "t": 40, "b": 36}
    if known:
        ceilings = [_ceiling_text(roof, log_x[1]) for roof in known]
        layout["annotations"] = [*ceilings, _bandwidth_text(known[0], levels)]
    spec = {"data": data, "layout": layout, "traces": narrow}
    return Figure(id=identity, label=label, height=height, spec=spec)
