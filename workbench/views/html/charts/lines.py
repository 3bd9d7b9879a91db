"""Line figures: a value over sizes for several versions, and what-if curves of occupancy.

The curves are theoretical occupancy over registers, shared memory and block size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from workbench import units
from workbench.analysis.limits.occupancy import Occupancy, Resources, occupancy, resources
from workbench.gpus import Chip
from workbench.language import _, current
from workbench.model import Launch, Record
from workbench.views.html.charts import figure as charts
from workbench.views.html.charts.figure import (
    COLORS,
    Figure,
    Json,
    axis_of,
    errors,
    layout_of,
    plain,
    scatter,
    ticks,
)
from workbench.views.html.charts.roof import SYMBOLS, decades
from workbench.views.html.page import View

#: The unit of an axis with categories.
NAMES = "name"
_DASHES = ("solid", "dash", "dot", "dashdot")
#: An axis is logarithmic from this factor between its ends on.
_LOG = 8.0
_TICKS = 12
#: Sizes below this are written in full on an axis.
_SIZE = 10_000_000
#: The length of a short name, such as ``v12``; two of them fit a phone's row.
_SHORT = 5
#: Height of a legend's row on a phone, and of the plot without it, in CSS pixels.
_LEGEND_ROW, _PLOT = 20, 260
#: Sizes in CSS pixels: a line of text, a letter, and the margins of a plot on a wide page.
_LINE, _LETTER, _AROUND = 13, 7, 130


class Point(Record, frozen=True):
    """A point of a line; its interval reaches `below` and `above`."""

    x: float
    y: float
    hover: str
    below: float = 0.0
    above: float = 0.0


class Series(Record, frozen=True):
    """A line; a reference (a baseline) is dashed and grey, and a `quiet` one is thin.

    `place` keeps a version's colour and symbol the same in all charts; -1: in order.
    """

    name: str
    points: tuple[Point, ...]
    reference: bool = False
    place: int = -1
    quiet: bool = False


class Axis(Record, frozen=True):
    """An axis: its title, unit, and labelled places if it has its own."""

    title: str
    unit: str = ""
    places: tuple[tuple[float, str], ...] = ()
    from_zero: bool = False


def _scale(values: Sequence[float], axis: Axis) -> Json:
    """Type, range and ticks of an axis that shows `values`."""
    low, high = min(values), max(values)
    if axis.unit == NAMES:
        # Categories have an order but no amount: their distances are equal.
        out: Json = {"range": [low - 0.5, high + 0.5]}
        return out | _labels(axis)
    logarithmic = not axis.from_zero and low > 0 and high / low >= _LOG
    if logarithmic:
        room = 0.06 * math.log10(high / low)
        ends = [math.log10(low) - room, math.log10(high) + room]
        out = {"type": "log", "range": ends}
        out |= decades(low, high, axis.unit)
    else:
        start = 0.0 if axis.from_zero or low > 0 else low
        out = {"range": [start, high + 0.08 * (high - start or 1.0)], **ticks(high, axis.unit)}
    return out | _labels(axis) if len(axis.places) <= _TICKS else out


def _labels(axis: Axis) -> Json:
    if not axis.places:
        return {}
    return {
        "tickvals": [value for value, _ in axis.places],
        "ticktext": [plain(text) for _, text in axis.places],
    }


def _ends(series: Sequence[Series], scale: Json, height: float) -> list[str]:
    """Names to write at the lines' right ends: those that do not overlap earlier names."""
    logarithmic = scale.get("type") == "log"
    low, high = map(float, scale["range"])

    def place(line: Series) -> float:
        value = line.points[-1].y
        return height * (high - (math.log10(value) if logarithmic else value)) / (high - low)

    right = max(point.x for line in series for point in line.points)
    names = [""] * len(series)
    taken: list[float] = []
    # Versions come before libraries, which the dash already distinguishes; the newest come first.
    order = sorted(range(len(series)), key=lambda n: (series[n].reference, -n))
    for n in order:
        at = place(series[n])
        if (
            not series[n].quiet
            and series[n].points[-1].x == right
            and all(abs(at - other) >= _LINE for other in taken)
        ):
            names[n] = series[n].name
            taken.append(at)
    return names


def lines(
    identity: str,
    label: str,
    series: Sequence[Series],
    x: Axis,
    y: Axis,
    *,
    here: Point | None = None,
    height: int = 300,
) -> Figure:
    """Lines with markers, distinguished by colour, symbol and dash.

    `identity` is its id on the page, `label` its accessible name. `here` is the current point, the
    only one with a marker; values then hold until the next point. `height` is in CSS pixels.
    """
    xs = [point.x for line in series for point in line.points] + ([here.x] if here else [])
    ys = [point.y + point.above for line in series for point in line.points]
    several = len(series) > 1
    vertical = _scale(ys, y)
    ends = _ends(series, vertical, height - _AROUND) if several and not here else []
    data = [_trace(line, order, stepped=here is not None) for order, line in enumerate(series)]
    for trace, line, name in zip(data, series, ends, strict=False):
        trace |= _named(line, name)
    if here is not None:
        data.append(_marked(here))
    layout = layout_of(
        xaxis=axis_of(title=x.title, **_scale(xs, x)),
        yaxis=axis_of(title=y.title, **vertical),
        showlegend=several,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        margin={
            "l": 8,
            "r": 16 + _LETTER * max(map(len, ends), default=0),
            "t": 44 if several else 12,
            "b": 36,
        },
    )
    # A phone has space for one or two names per row; the plot still keeps its height.
    named = [line.name for line in series if not line.quiet]
    columns = 2 if max(map(len, named), default=0) <= _SHORT else 1
    rows = math.ceil(len(named) / columns) if several else 0
    spec: Json = {"data": data, "layout": layout, "narrow": _narrow(layout, columns, rows)}
    if ends:
        spec["traces"] = [{"mode": "lines" if line.quiet else "lines+markers"} for line in series]
    tall = max(height, _PLOT + _LEGEND_ROW * rows) if several else height
    return Figure(id=identity, label=label, height=height, tall=tall, spec=spec)


def _trace(line: Series, order: int, *, stepped: bool) -> Json:
    place = line.place if line.place >= 0 else order
    colour = "@soft" if line.reference else COLORS[place % len(COLORS)]
    if line.quiet:
        thin = {"color": "@line", "width": 1.5}
        return _scatter(line.points, "lines", line.name, showlegend=False, line=thin, meta=colour)
    look = {
        "color": colour,
        "width": 2,
        "shape": "hv" if stepped else "linear",
        "dash": "dash" if line.reference else _DASHES[place // len(COLORS) % 4],
    }
    marker = {"size": 8, "symbol": SYMBOLS[place % len(SYMBOLS)], "color": colour}
    mode = "lines" if stepped else "lines+markers"
    drawn = _scatter(line.points, mode, line.name, line=look, marker=marker)
    return drawn | _errors(line, colour)


def _scatter(points: Sequence[Point], mode: str, name: str, **more: object) -> Json:
    x, y = [point.x for point in points], [point.y for point in points]
    return scatter(mode, x, y, [plain(each.hover) for each in points], name=plain(name), **more)


def _marked(here: Point) -> Json:
    edge = {"color": "@card", "width": 2}
    marker = {"size": 12, "symbol": "diamond", "color": "@hot", "line": edge}
    return _scatter([here], "markers", "now", showlegend=False, marker=marker)


def _narrow(layout: Json, columns: int, rows: int) -> Json:
    """Changes for a phone; the axis's title is above the chart, and takes no width."""
    legend = {**layout["legend"], "font": {"size": 10}, "maxheight": _LEGEND_ROW * rows + 8}
    if columns > 1:
        legend |= {"entrywidth": 50, "entrywidthmode": "pixels"}
    return {
        "legend": legend,
        "yaxis": {**layout["yaxis"], "title": {"text": ""}},
        "margin": {**layout["margin"], "r": 16},
    }


def _named(line: Series, name: str) -> Json:
    """The line's name beside its last point."""
    if not name:
        return {}
    return {
        "mode": "lines+markers+text",
        "text": [*([""] * (len(line.points) - 1)), f" {plain(name)}"],
        "textposition": "middle right",
        "textfont": {"size": 11, "color": "@ink"},
        "cliponaxis": False,
    }


def _errors(line: Series, colour: str) -> Json:
    if not any(point.above or point.below for point in line.points):
        return {}
    below = [point.below for point in line.points]
    return {"error_y": errors(below, [point.above for point in line.points], colour)}


def round_places(values: Sequence[float], unit: str = "") -> tuple[tuple[float, str], ...]:
    """The given values as labelled places of an axis."""
    known = sorted(set(values))
    # A size is a name: 16,384, not 16.4 k.
    whole = not unit and all(float(value).is_integer() and value < _SIZE for value in known)
    texts = [f"{value:,.0f}" for value in known] if whole else units.tick_row(known, unit)
    return tuple(zip(known, texts, strict=True))


_LEAST_REGISTERS = 16
_SHARED_STEP = 1024
_HEIGHT = 210


class _Question(Record, frozen=True):
    """One resource: its name, its unit, the launch's value, and the others' values."""

    id: str
    what: str
    unit: str
    now: int
    values: range


def what_if(launch: Launch, chip: Chip | None, prefix: str) -> View | None:
    """The curves of a launch, and one table of their corners.

    None if the chip or the launch's resources are unknown.

    They assume the chip's largest shared-memory part, because the driver would choose another part
    for other needs.
    """
    need = resources(launch)
    return _curves(need, chip, prefix, current()) if chip is not None and need is not None else None


@lru_cache(maxsize=64)
def _curves(need: Resources, chip: Chip, prefix: str, _lang: str) -> View:
    # In one language, a version's launches need the same resources on every problem.
    warps = range(chip.warp_size, chip.max_threads_per_block + 1, chip.warp_size)
    registers = range(_LEAST_REGISTERS, chip.registers_per_thread + 1)
    shared = range(0, chip.shared_per_block + 1, _SHARED_STEP)
    questions = (
        _Question("registers", _("registers per thread"), "", need.registers, registers),
        _Question("shared", _("shared memory per block"), "byte", need.shared, shared),
        _Question("block_size", _("threads per block"), "", need.block_size, warps),
    )
    figures, rows = [], []
    for question in questions:
        corners = _corners(chip, need, question)
        figures.append(_figure(prefix, chip, need, question, corners))
        rows += [_row(question, number, found) for number, found in corners]
    return View(figures=figures, rows=rows)


def _corners(chip: Chip, need: Resources, question: _Question) -> list[tuple[int, Occupancy]]:
    """The points at which occupancy changes, and the last one: enough for a step curve."""
    out: list[tuple[int, Occupancy]] = []
    number, found = 0, occupancy(chip, need)
    for number in question.values:
        changed = msgspec.structs.replace(need, shared_config=0, **{question.id: number})
        found = occupancy(chip, changed)
        if not out or out[-1][1].percent != found.percent:
            out.append((number, found))
    if out[-1][0] != number:
        out.append((number, found))
    return out


def _figure(
    prefix: str,
    chip: Chip,
    need: Resources,
    question: _Question,
    corners: list[tuple[int, Occupancy]],
) -> charts.Figure:
    points = tuple(_point(question, number, found) for number, found in corners)
    return lines(
        f"{prefix}-{question.id.partition('_')[0]}",
        _("Theoretical occupancy over {what}, all else unchanged").format(what=question.what),
        [Series(name=_("theoretical occupancy"), points=points)],
        Axis(title=question.what, unit=question.unit, from_zero=True),
        Axis(title="", unit="%", from_zero=True),
        here=_point(question, question.now, occupancy(chip, need)),
        height=_HEIGHT,
    )


def _point(question: _Question, number: int, found: Occupancy) -> Point:
    size = units.quantity(number, question.unit)
    name = question.what if not question.unit else question.what.partition(" per ")[0]
    share = units.quantity(found.percent, "%")
    hover = f"{size} {name}: {share}, limited by {' and '.join(found.limiters)}"
    return Point(x=float(number), y=found.percent, hover=hover)


def _row(question: _Question, number: int, found: Occupancy) -> tuple[str, ...]:
    return (
        f"{question.what}, from",
        units.quantity(number, question.unit),
        units.quantity(found.percent, "%"),
        units.count(found.blocks),
        " and ".join(found.limiters),
    )
