"""The roofline figure: points under ceilings, logarithmic axes, labels where there is space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench import units
from workbench.analysis.limits.roofline import LEVELS, Level, Position, Roof, Unit
from workbench.language import N_, _
from workbench.model import Record
from workbench.views.html.charts.figure import (
    COLORS,
    Figure,
    Json,
    axis_of,
    layout_of,
    plain,
    scatter,
)

# Plotly draws a point's label at the given place and lets labels overlap. Here
# each label is tried on the four sides of its point, in pixels of a plot of an assumed size, and
# left out if none is free; hovering and the table name every point.

#: In pixels: half of a point's mark, its distance to a label, a label's height, a letter's width.
_MARK, _GAP, _LINE, _LETTER = 6.0, 2.0, 14.0, 6.6

#: Plotly's names for the sides, in the order in which they are tried.
_SIDES = ("top center", "bottom center", "middle right", "middle left")


class Spot(NamedTuple):
    """A point in pixels, from the left and from the top, and its name."""

    x: float
    y: float
    label: str


class PointLabel(NamedTuple):
    """The text beside a point ("" for none), and its side."""

    text: str
    side: str


class Box(NamedTuple):
    """A rectangle in pixels, from the left and from the top."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """True if the two rectangles have a common point inside their edges."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def within(self, width: float, height: float) -> bool:
        """True if it is inside a plot of that size."""
        return self.left >= 0 and self.right <= width and self.top >= 0 and self.bottom <= height


def box(spot: Spot, side: str) -> Box:
    """The rectangle of a label on one side of its point."""
    wide = _LETTER * len(spot.label)
    if side.startswith("middle"):
        right = side.endswith("right")
        start = spot.x + _MARK + _GAP if right else spot.x - _MARK - _GAP - wide
        return Box(start, spot.y - _LINE / 2, start + wide, spot.y + _LINE / 2)
    top = spot.y - _MARK - _LINE if side.startswith("top") else spot.y + _MARK
    return Box(spot.x - wide / 2, top, spot.x + wide / 2, top + _LINE)


def _marks(spots: Sequence[Spot]) -> list[Box]:
    return [Box(s.x - _MARK, s.y - _MARK, s.x + _MARK, s.y + _MARK) for s in spots]


def placed(
    spots: Sequence[Spot], width: float, height: float, others: Sequence[Box] = ()
) -> list[PointLabel]:
    """A label for each point that has space for one; the most important points come first.

    The plot's size is in pixels; `others` are texts that are already in it.
    """
    taken = [*_marks(spots), *others]
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
#: Widths of the plot (a ladder's, a launch's, a phone's) for which labels are placed, and its
#: margins, in pixels.
_WIDE, _HALF, _NARROW, _AROUND = 660.0, 520.0, 240.0, 80.0
_FEW = 3
_DASHES: dict[Level, str] = {"shared": "dot", "L1": "dot", "L2": "dash", "DRAM": "solid"}
#: Names of roofs; shared memory has that of the L1.
_NAMES: dict[Level, str] = {
    "shared": N_("shared memory (dotted)"),
    "L1": N_("L1 and shared memory (dotted)"),
    "L2": N_("L2 (dashed)"),
    "DRAM": N_("device memory"),
}
#: With more points than this, the plot is higher.
_CROWD = 12


class Dot(Record, frozen=True):
    """A point under the roofline: FLOP per byte and FLOP/s."""

    label: str
    intensity: float
    rate: float
    hover: str
    alone: bool = False  # not on the path


def decades(low: float, high: float, unit: str = "") -> Json:
    """Logarithmic ticks that cover `low` to `high`, as formatted text.

    Powers of ten, or 1, 2 and 5 times each if fewer than three powers would be visible.
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    values = [10.0**power for power in range(first, last + 1)]
    if sum(low <= value <= high for value in values) < _FEW:
        finer = [step * value for value in values for step in (1.0, 2.0, 5.0)]
        values = [value for value in finer if low / 1.5 <= value <= high * 1.5]
    return {"tickvals": values, "ticktext": units.tick_row(values, unit)}


def work_word(unit: str) -> str:
    """The word for the work of a rate: ``flop/s`` -> ``FLOP``."""
    return units.symbol(unit).removesuffix("/s")


def rate_unit(unit: Unit) -> str:
    """The rate of a unit's work: integer operations are not floating-point operations."""
    return "op/s" if unit in ("tensor int8", "dp4a") else "flop/s"


def peak_text(roof: Roof) -> str:
    """``67 TFLOP/s float32 peak``."""
    rate = units.quantity(roof.flops, rate_unit(roof.unit))
    return _("{rate} {unit} peak").format(rate=rate, unit=roof.unit)


def dots(place: Position, label: str) -> dict[Level, Dot]:
    """A position as one dot per measured memory level."""
    unit = rate_unit(place.unit)
    out: dict[Level, Dot] = {}
    for level in LEVELS:
        intensity = place.intensity(level)
        if intensity is not None:
            per_byte = f"{units.digits3(intensity)} {work_word(unit)}/B"
            where = _("{what} at {level}").format(what=label, level=level)
            hover = f"{where}: {units.quantity(place.rate, unit)}, {per_byte}"
            out[level] = Dot(label=label, intensity=intensity, rate=place.rate, hover=hover)
    return out


def _roof_line(roof: Roof, level: Level, low: float, high: float) -> Json:
    """The ceiling of a unit over a level with known bandwidth."""
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


def nearest(place: Position, top: Roof) -> str:
    """``L2, 83.1%``: the closest roof to a launch, and its share of it; "" if none is known."""
    levels = [level for level in LEVELS if place.intensity(level) and top.slope(level)]
    if not levels or not top.flops:
        return ""
    roofs = {level: top.above(place.intensity(level) or 0.0, level) for level in levels}
    level = min(levels, key=lambda level: roofs[level])
    # If arithmetic is the lower roof at every level, the unit is the closest roof.
    bound = _("shared memory") if level == "shared" else level
    name = bound if roofs[level] < top.flops else _("{unit} peak").format(unit=top.unit)
    share = units.quantity(100 * place.rate / roofs[level], "%")
    return _("{roof}, {share}").format(roof=name, share=share)


def _labels(
    series: Sequence[list[Dot]], view: _Window, width: float, texts: Sequence[RoofText]
) -> tuple[list[list[PointLabel]], list[Json]]:
    """Labels of all points, the ends of a path first and libraries last, and texts of the roofs."""
    places = [(number, place) for number, dots in enumerate(series) for place in range(len(dots))]

    def interest(at: tuple[int, int]) -> tuple[bool, bool, int]:
        dots = series[at[0]]
        own = [place for place, dot in enumerate(dots) if not dot.alone]
        return dots[at[1]].alone, at[1] not in own[:1] + own[-1:], at[1]

    order = sorted(places, key=interest)
    spots = [view.spot(series[number][place], width) for number, place in order]
    taken = _marks(spots)
    written = []
    for text in texts:
        every = [text.box(spot, view.height, width) for spot in text.places]
        best = min(range(len(every)), key=lambda n: sum(every[n].meets(other) for other in taken))
        taken.append(every[best])
        written.append(text.annotation(text.places[best]))
    heights = [view.height * (1 - text.places[0][2]) for text in texts if len(text.lines) == 1]
    others = [*taken[len(spots) :], *(Box(0, at - 1, width, at + 1) for at in heights)]
    found = dict(zip(order, placed(spots, width, view.height, others), strict=True))
    labels = [[found[n, place] for place in range(len(dots))] for n, dots in enumerate(series)]
    return labels, written


class _Window(NamedTuple):
    """The ranges of the axes, as powers of ten, and the plot's height in pixels."""

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


class RoofText(NamedTuple):
    """The text on roofs, and its possible places: anchors in parts of the plot (0-1).

    A place is (x, xanchor, y, yanchor); the one that touches least is taken.
    """

    lines: tuple[str, ...]
    places: tuple[tuple[float, str, float, str], ...]

    def box(self, place: tuple[float, str, float, str], height: float, width: float) -> Box:
        """The rectangle in pixels."""
        x, xanchor, y, yanchor = place
        wide, high = _LETTER * max(map(len, self.lines)), _LINE * len(self.lines)
        left = width * x - wide * {"left": 0.0, "center": 0.5, "right": 1.0}[xanchor]
        top = height * (1 - y) - (high if yanchor == "bottom" else 0.0)
        return Box(left, top, left + wide, top + high)

    def annotation(self, place: tuple[float, str, float, str]) -> Json:
        """The annotation in Plotly's form."""
        x, xanchor, y, yanchor = place
        return {
            "x": x,
            "y": y,
            "xref": "paper",
            "yref": "paper",
            "xanchor": xanchor,
            "yanchor": yanchor,
            "showarrow": False,
            "align": "left",
            "text": "<br>".join(map(plain, self.lines)),
            "font": {"color": "@soft", "size": 11},
        }


def _texts_of(roofs: Sequence[Roof], levels: Sequence[Level], view: _Window) -> list[RoofText]:
    """Texts for the ceilings, and for the slopes, the steepest first."""
    out = []
    low, high = view.y
    for roof in roofs:
        y = (math.log10(roof.flops) - low) / (high - low)
        # The first, third and last are so far apart that a point touches at most one.
        sides = ((1.0, "right"), (0.72, "center"), (0.5, "center"), (0.0, "left"))
        places = [(x, side, y, anchor) for anchor in ("bottom", "top") for x, side in sides]
        out.append(RoofText((peak_text(roof),), tuple(places)))
    slopes = tuple(
        f"{units.quantity(roofs[0].slope(level), 'byte/s')} {_(_NAMES[level])}"
        for level in levels
        if roofs[0].slope(level)
    )
    if slopes:
        corners = ((0.0, "left", 1.0, "top"), (1.0, "right", 0.0, "bottom"))
        out.append(RoofText(slopes, corners))
    return out


def _trace(
    name: str, index: int, dots: list[Dot], gaps: list[int], texts: Json, lines: str
) -> Json:
    color, symbol = COLORS[index % len(COLORS)], SYMBOLS[index % len(SYMBOLS)]
    edge = {"color": "@card", "width": 1}
    return scatter(
        f"{lines}markers+text",
        _broken([dot.intensity for dot in dots], gaps, None),
        _broken([dot.rate for dot in dots], gaps, None),
        _broken([plain(dot.hover) for dot in dots], gaps, ""),
        name=plain(name),
        **texts,
        textfont={"size": 11, "color": "@ink"},
        cliponaxis=False,
        line={"color": color, "width": 1.5, "dash": "dot"},
        marker={"size": 11, "symbol": symbol, "color": color, "line": edge},
    )


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

    `identity` is its id on the page, `label` its accessible name. Each series has its own colour
    and symbol; `roofs` are the ceilings, one for each unit in use, which share one memory
    bandwidth. `path` joins the points of a series with a line, for a ladder. `unit` is ``flop/s``,
    or ``op/s`` if the work includes integer operations.
    """
    dots = [dot for __, points in series for dot in points]
    known = [roof for roof in roofs if roof.flops and roof.bandwidth]
    # The slope of device memory is always shown, as readers expect it.
    seen = {"DRAM", *dict(series)}
    levels = [each for each in LEVELS if each in seen and (each != "shared" or "L1" not in seen)]
    ridges = [roof.flops / roof.slope(x) for roof in known for x in levels if roof.slope(x)]
    xs = [dot.intensity for dot in dots] + ridges
    ys = [dot.rate for dot in dots] + [roof.flops for roof in known]
    low_x, high_x = min(xs) / 4, max(xs) * 6
    low_y, high_y = min(ys) / 4, max(ys) * 3
    log_x = [math.log10(low_x), math.log10(high_x)]
    log_y = [math.log10(low_y), math.log10(high_y)]
    height = 330 if len(dots) <= _CROWD else 440
    view = _Window((log_x[0], log_x[1]), (log_y[0], log_y[1]), height - _AROUND)
    points = [found for __, found in series]
    texts = _texts_of(known, levels, view) if known else []
    (wide, beside), (small, below) = (
        _labels(points, view, width, texts) for width in (_WIDE if path else _HALF, _NARROW)
    )
    ceilings = [(roof, level) for roof in known for level in levels if roof.slope(level)]
    data = [_roof_line(roof, level, low_x, high_x) for roof, level in ceilings]
    narrow: list[Json] = [{} for __ in data]
    for index, (name, found) in enumerate(series):
        alone = [dot.alone for dot in found]
        # Indices before which a path is interrupted.
        gaps = [n for n in range(1, len(found)) if path and (alone[n] or alone[n - 1])]
        named = _texts(wide[index], gaps)
        data.append(_trace(name, index, found, gaps, named, "lines+" if path else ""))
        narrow.append(_texts(small[index], gaps))
    layout = layout_of(
        xaxis=axis_of(
            title=_("{work} per byte").format(work=work_word(unit)),
            type="log",
            range=log_x,
            **decades(low_x, high_x),
        ),
        yaxis=axis_of(type="log", range=log_y, **decades(low_y, high_y, unit)),
        margin={"l": 8, "r": 16, "t": 10, "b": 36},
    )
    if path or any(len(points) > 1 for __, points in series):
        layout |= {
            "showlegend": True,
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        }
        layout["margin"] = {"l": 8, "r": 16, "t": 40, "b": 36}
    spec = {"data": data, "layout": layout, "traces": narrow}
    if known:
        layout["annotations"] = beside
        spec["narrow"] = {"annotations": below}
    return Figure(id=identity, label=label, height=height, spec=spec)
