"""The roofline figure: points under ceilings, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench import units
from workbench.model import Record
from workbench.views.charts import COLORS, Figure, Json, axis_of, layout_of, plain

SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "star", "x", "pentagon")
#: Decades between two labels on a logarithmic axis that do not overlap.
_CLEAR = 0.22
_FEW = 3
#: More points need more room.
_CROWD = 12


class Dot(Record, frozen=True):
    """A point under the roofline: FLOP per byte and FLOP/s."""

    label: str
    intensity: float
    rate: float
    hover: str
    alone: bool = False  # on no path


class Roof(Record, frozen=True):
    """The ceilings: FLOP/s, and bytes per second of device memory. Zero: unknown."""

    flops: float
    bandwidth: float
    flops_text: str = ""
    bandwidth_text: str = ""


def decades(low: float, high: float, unit: str = "") -> Json:
    """Logarithmic ticks that cover `low` to `high`, as formatted text.

    Powers of ten, or 1, 2 and 5 of each where fewer than three powers would be seen.
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    values = [10.0**power for power in range(first, last + 1)]
    if sum(low <= value <= high for value in values) < _FEW:
        finer = [step * value for value in values for step in (1.0, 2.0, 5.0)]
        values = [value for value in finer if low / 1.5 <= value <= high * 1.5]
    return {"tickvals": values, "ticktext": [units.tick(v, unit) for v in values]}


def work_word(unit: str) -> str:
    """What a rate counts, as it is written: ``flop/s`` -> ``FLOP``."""
    return units.symbol(unit).removesuffix("/s")


def _roof_lines(roof: Roof, low: float, high: float) -> list[Json]:
    ridge = roof.flops / roof.bandwidth
    xs = [low, max(low, min(ridge, high)), high]
    line = {
        "type": "scatter",
        "mode": "lines",
        "hoverinfo": "skip",
        "showlegend": False,
        "x": xs,
        "y": [min(roof.flops, x * roof.bandwidth) for x in xs],
        "line": {"color": "@soft", "width": 1.5},
    }
    return [line]


def _labels(points: list[Dot]) -> list[str]:
    """Labels of the points that stand clear of those labelled before; hover names the rest."""
    kept: list[Dot] = []
    out = []
    for dot in points:
        clear = all(
            abs(math.log10(dot.intensity / other.intensity)) > _CLEAR
            or abs(math.log10(dot.rate / other.rate)) > _CLEAR
            for other in kept
        )
        if clear:
            kept.append(dot)
        out.append(plain(dot.label) if clear else "")
    return out


def _with_gaps(points: list[Dot]) -> list[tuple[Dot | None, str]]:
    """Points with their labels; nothing stands where a path must not go on."""
    out: list[tuple[Dot | None, str]] = []
    before: Dot | None = None
    for dot, text in zip(points, _labels(points), strict=True):
        if before and (dot.alone or before.alone):
            out.append((None, ""))
        out.append((dot, text))
        before = dot
    return out


def _ceiling_text(roof: Roof, right: float) -> Json:
    return {
        "x": right,
        "y": math.log10(roof.flops),
        "xanchor": "right",
        "yanchor": "bottom",
        "showarrow": False,
        "text": plain(roof.flops_text),
        "font": {"color": "@soft", "size": 11},
    }


def roofline(
    identity: str,
    label: str,
    series: list[tuple[str, list[Dot]]],
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
    xs = [dot.intensity for dot in dots] + [roof.flops / roof.bandwidth for roof in known]
    ys = [dot.rate for dot in dots] + [roof.flops for roof in known]
    low_x, high_x = min(xs) / 4, max(xs) * 6
    low_y, high_y = min(ys) / 4, max(ys) * 3
    data = [line for roof in known for line in _roof_lines(roof, low_x, high_x)]
    for index, (name, points) in enumerate(series):
        drawn = _with_gaps(points) if path else list(zip(points, _labels(points), strict=True))
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers+text" if path else "markers+text",
                "name": plain(name),
                "x": [dot.intensity if dot else None for dot, _ in drawn],
                "y": [dot.rate if dot else None for dot, _ in drawn],
                "text": [text for _, text in drawn],
                "customdata": [plain(dot.hover) if dot else "" for dot, _ in drawn],
                "hovertemplate": "%{customdata}<extra></extra>",
                "textposition": ("top center", "bottom center", "middle right")[index % 3],
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
        layout["annotations"] = [
            *(_ceiling_text(roof, log_x[1]) for roof in known),
            {
                "x": 0,
                "y": 1,
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "top",
                "showarrow": False,
                "text": plain(known[0].bandwidth_text),
                "font": {"color": "@soft", "size": 11},
            },
        ]
    spec = {"data": data, "layout": layout, "quiet": len(dots) > len(series)}
    height = 330 if len(dots) <= _CROWD else 440
    return Figure(id=identity, label=label, height=height, spec=spec)
