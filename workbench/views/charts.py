"""Figures for Plotly, as plain data: what is drawn is decided here, drawing is Plotly's.

Colours are tokens (``@c1``) that the page replaces by its stylesheet's values, so one
figure serves light and dark. Every mark that a colour tells apart is also told apart
by a pattern, a symbol or a label. All numbers that a reader sees were formatted by
`workbench.units`; axis ticks are given as text for the same reason.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

from workbench import units
from workbench.model import Record

Json = dict[str, Any]

#: Fill patterns, in the order of the colours; "" is solid.
PATTERNS = ("", "/", "x", "-", "\\", ".", "|", "+")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "star", "x", "pentagon")
COLORS = tuple(f"@c{index}" for index in range(1, 9))

_FONT = 'Inter, system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif'


class Figure(Record, frozen=True):
    """A figure with the place it needs, its spoken name, and the layout of a narrow page."""

    id: str
    label: str
    height: int  # CSS pixels, reserved before Plotly draws
    spec: Json


class Mark(Record, frozen=True):
    """One number in a chart with the text that stands for it."""

    value: float
    text: str
    hover: str = ""


def plain(text: str) -> str:
    """Text for Plotly, which would read tags in it: ``<b>`` stays ``<b>``."""
    return escape(text, quote=False)


def _layout(**changes: Any) -> Json:
    layout: Json = {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 12, "color": "@ink"},
        "margin": {"l": 8, "r": 16, "t": 8, "b": 36},
        "hoverlabel": {
            "bgcolor": "@card",
            "bordercolor": "@line",
            "font": {"color": "@ink", "family": _FONT, "size": 12},
            "align": "left",
        },
        "hovermode": "closest",
        "dragmode": False,
        "showlegend": False,
    }
    layout.update(changes)
    return layout


def _axis(**changes: Any) -> Json:
    axis: Json = {
        "gridcolor": "@line",
        "linecolor": "@line",
        "zeroline": False,
        "fixedrange": True,
        "tickfont": {"color": "@soft", "size": 11},
        "title": {"font": {"color": "@soft", "size": 12}},
        "automargin": True,
    }
    title = changes.pop("title", None)
    axis.update(changes)
    if title:
        axis["title"] = {"text": title, "font": {"color": "@soft", "size": 12}, "standoff": 8}
    return axis


def ticks(top: float, unit: str, wanted: int = 5) -> Json:
    """Linear ticks from 0 to `top` at 1, 2 or 5 times a power of ten, as formatted text."""
    if top <= 0:
        return {"tickvals": [0], "ticktext": [units.quantity(0, unit)]}
    raw = top / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    values = [step * index for index in range(int(top / step) + 1)]
    return {"tickvals": values, "ticktext": [units.quantity(v, unit) for v in values]}


def decades(low: float, high: float, unit: str = "") -> Json:
    """Logarithmic ticks at powers of ten that cover `low` to `high`, as formatted text."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    values = [10.0**power for power in range(first, last + 1)]
    return {"tickvals": values, "ticktext": [units.quantity(v, unit) for v in values]}


def bars(identity: str, label: str, rows: list[tuple[str, Mark, bool]], axis: str) -> Figure:
    """Horizontal bars in percent, first row on top; a row that is no stall is hatched."""
    names = [plain(name) for name, _, _ in rows]
    data = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": [mark.value for _, mark, _ in rows],
        "text": [plain(mark.text) for _, mark, _ in rows],
        "customdata": [plain(mark.hover or mark.text) for _, mark, _ in rows],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": "%{y}: %{customdata}<extra></extra>",
        "marker": {
            "color": ["@bar" if solid else "@soft" for _, _, solid in rows],
            "pattern": {
                "shape": ["" if solid else "/" for _, _, solid in rows],
                "fgcolor": "@card",
                "size": 6,
                "solidity": 0.35,
            },
        },
    }
    top = max((mark.value for _, mark, _ in rows), default=1.0)
    layout = _layout(
        xaxis=_axis(title=axis, range=[0, top * 1.32], **ticks(top, "%", 4)),
        yaxis=_axis(autorange="reversed", tickfont={"color": "@ink", "size": 12}),
        bargap=0.36,
    )
    height = 58 + 27 * len(rows)
    return Figure(id=identity, label=label, height=height, spec={"data": [data], "layout": layout})


class Segment(Record, frozen=True):
    """One series of a stacked chart: a name and a value per row."""

    name: str
    marks: tuple[Mark, ...]


def stacked(
    identity: str, label: str, rows: list[str], segments: list[Segment], unit: str, axis: str
) -> Figure:
    """Horizontal stacked bars; each series has a colour, a pattern and labels where they fit."""
    data = []
    totals = [sum(s.marks[i].value for s in segments) for i in range(len(rows))]
    top = max(totals, default=1.0)
    for index, segment in enumerate(segments):
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": plain(segment.name),
                "y": [plain(row) for row in rows],
                "x": [mark.value for mark in segment.marks],
                "text": [
                    plain(segment.name) if mark.value > 0.14 * top else "" for mark in segment.marks
                ],
                "customdata": [plain(mark.hover or mark.text) for mark in segment.marks],
                "hovertemplate": "%{y} · %{fullData.name}: %{customdata}<extra></extra>",
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "constraintext": "inside",
                "insidetextfont": {"color": "@card", "size": 11},
                "marker": {
                    "color": COLORS[index % len(COLORS)],
                    "line": {"color": "@card", "width": 1},
                    "pattern": {
                        "shape": PATTERNS[index % len(PATTERNS)],
                        "fgcolor": "@card",
                        "size": 8,
                        "solidity": 0.12,
                    },
                },
            }
        )
    layout = _layout(
        barmode="stack",
        showlegend=True,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        xaxis=_axis(title=axis, range=[0, top * 1.02], **ticks(top, unit)),
        yaxis=_axis(autorange="reversed", tickfont={"color": "@ink", "size": 12}),
        margin={"l": 8, "r": 16, "t": 56, "b": 36},
        bargap=0.3,
    )
    height = 130 + 38 * len(rows)
    narrow = {
        "legend": {**layout["legend"], "font": {"size": 10}},
        "margin": {"l": 4, "r": 8, "t": 118, "b": 36},
    }
    spec = {"data": data, "layout": layout, "narrow": narrow}
    return Figure(id=identity, label=label, height=height + 40, spec=spec)


class Column(Record, frozen=True):
    """One bar of `columns`: a value, and how far its interval reaches below and above."""

    name: str
    mark: Mark
    below: float = 0.0
    above: float = 0.0
    reference: bool = False


def columns(
    identity: str, label: str, rows: list[Column], unit: str, axis: str, peak: Mark | None
) -> Figure:
    """Horizontal bars with intervals; references are hatched, a peak is a dashed line."""
    names = [plain(row.name) for row in rows]
    top = max([row.mark.value + row.above for row in rows], default=1.0)
    # A roof ten times higher would press the bars flat: it is then said, not drawn.
    drawn = peak is not None and peak.value <= 2.5 * top
    data = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": [row.mark.value for row in rows],
        "text": [plain(row.mark.text) for row in rows],
        "customdata": [plain(row.mark.hover or row.mark.text) for row in rows],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": "%{y}: %{customdata}<extra></extra>",
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [row.above for row in rows],
            "arrayminus": [row.below for row in rows],
            "color": "@ink",
            "thickness": 1,
            "width": 3,
        },
        "marker": {
            "color": ["@soft" if row.reference else "@bar" for row in rows],
            "pattern": {
                "shape": ["/" if row.reference else "" for row in rows],
                "fgcolor": "@card",
                "size": 6,
                "solidity": 0.35,
            },
        },
    }
    limit = max(top * 1.2, peak.value * 1.02 if drawn and peak else 0.0)
    layout = _layout(
        xaxis=_axis(title=axis, range=[0, limit], **ticks(limit, unit)),
        yaxis=_axis(autorange="reversed", tickfont={"color": "@ink", "size": 12}),
        bargap=0.36,
    )
    if drawn and peak:
        layout["shapes"] = [
            {
                "type": "line",
                "x0": peak.value,
                "x1": peak.value,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"color": "@soft", "dash": "dash", "width": 1},
            }
        ]
        layout["annotations"] = [
            {
                "x": peak.value,
                "yref": "paper",
                "y": 1,
                "yanchor": "bottom",
                "xanchor": "right",
                "showarrow": False,
                "text": plain(peak.text),
                "font": {"color": "@soft", "size": 11},
            }
        ]
        layout["margin"] = {"l": 8, "r": 16, "t": 24, "b": 36}
    height = 74 + 32 * len(rows)
    return Figure(id=identity, label=label, height=height, spec={"data": [data], "layout": layout})


class Dot(Record, frozen=True):
    """A point under the roofline: FLOP per byte and FLOP/s."""

    label: str
    intensity: float
    rate: float
    hover: str


class Roof(Record, frozen=True):
    """The ceilings: FLOP/s, and bytes per second of device memory. Zero: unknown."""

    flops: float
    bandwidth: float
    flops_text: str = ""
    bandwidth_text: str = ""


def _roof_lines(roof: Roof, low: float, high: float) -> list[Json]:
    if not roof.flops or not roof.bandwidth:
        return []
    ridge = roof.flops / roof.bandwidth
    xs = [low, max(low, min(ridge, high)), high]
    line = {
        "type": "scatter",
        "mode": "lines",
        "hoverinfo": "skip",
        "x": xs,
        "y": [min(roof.flops, x * roof.bandwidth) for x in xs],
        "line": {"color": "@soft", "width": 1.5},
    }
    return [line]


def roofline(
    identity: str, label: str, series: list[tuple[str, list[Dot]]], roof: Roof, *, path: bool
) -> Figure:
    """Points under a roof, both axes logarithmic.

    Args:
        identity: Id of the figure on its page.
        label: Spoken name.
        series: Name and points; each series has a colour and a symbol of its own.
        roof: The ceilings.
        path: Join the points of a series by a line, for a ladder.
    """
    dots = [dot for _, points in series for dot in points]
    xs = [dot.intensity for dot in dots] + ([roof.flops / roof.bandwidth] if roof.bandwidth else [])
    ys = [dot.rate for dot in dots] + ([roof.flops] if roof.flops else [])
    low_x, high_x = min(xs) / 4, max(xs) * 6
    low_y, high_y = min(ys) / 4, max(ys) * 3
    data = _roof_lines(roof, low_x, high_x)
    for index, (name, points) in enumerate(series):
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers+text" if path else "markers+text",
                "name": plain(name),
                "x": [dot.intensity for dot in points],
                "y": [dot.rate for dot in points],
                "text": [plain(dot.label) for dot in points],
                "customdata": [plain(dot.hover) for dot in points],
                "hovertemplate": "%{customdata}<extra></extra>",
                "textposition": "bottom center" if index % 2 else "top center",
                "textfont": {"size": 11, "color": "@ink"},
                "cliponaxis": False,
                "line": {"color": COLORS[index % 8], "width": 1.5, "dash": "dot"},
                "marker": {
                    "size": 11,
                    "symbol": SYMBOLS[index % len(SYMBOLS)],
                    "color": COLORS[index % 8],
                    "line": {"color": "@card", "width": 1},
                },
            }
        )
    log_x = [math.log10(low_x), math.log10(high_x)]
    log_y = [math.log10(low_y), math.log10(high_y)]
    layout = _layout(
        xaxis=_axis(title="FLOP per byte", type="log", range=log_x, **decades(low_x, high_x)),
        yaxis=_axis(type="log", range=log_y, **decades(low_y, high_y, "flop/s")),
        margin={"l": 8, "r": 16, "t": 10, "b": 36},
    )
    if roof.flops and roof.bandwidth:
        layout["annotations"] = [
            {
                "x": log_x[1],
                "y": math.log10(roof.flops),
                "xanchor": "right",
                "yanchor": "bottom",
                "showarrow": False,
                "text": plain(roof.flops_text),
                "font": {"color": "@soft", "size": 11},
            },
            {
                "x": 0,
                "y": 1,
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "top",
                "showarrow": False,
                "text": plain(roof.bandwidth_text),
                "font": {"color": "@soft", "size": 11},
            },
        ]
    return Figure(id=identity, label=label, height=330, spec={"data": data, "layout": layout})
