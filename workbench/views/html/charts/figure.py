"""Figures for Plotly, as plain data: the contents are decided here, and Plotly draws them.

Colours are tokens (``@c1``) that the page replaces by its stylesheet's values, so one
figure serves light and dark. Every mark distinguished by colour is also distinguished by a pattern,
a symbol or a label. All numbers that a reader sees were formatted by
`workbench.units`; axis ticks are given as text for the same reason.
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import Any

import tomli

from workbench import units
from workbench.language import _
from workbench.model import Record

Json = dict[str, Any]

#: More colours than a ladder has versions, so that no chart uses a colour twice.
COLORS = tuple(f"@c{index}" for index in range(1, 33))

#: The common style of figures; `HATCHED` distinguishes bars without colour.
_STYLE: dict[str, Json] = tomli.loads(
    (Path(__file__).parents[3] / "data/figure.toml").read_text(encoding="utf-8")
)
HATCHED = _STYLE["hatched"]

#: Space right of the longest bar, for numbers; a peak within this factor is drawn.
_LABELS, _FAR = 1.2, 1.35
#: Keeps a bar's label clear of its interval.
_GAP = "\u2002"


class Figure(Record, frozen=True):
    """A figure with the space that it needs and its accessible name.

    `spec` has Plotly's ``data`` and ``layout``; ``narrow`` replaces parts of the layout on
    a phone, and ``traces`` parts of each trace.
    """

    id: str
    label: str
    height: int  # CSS pixels, reserved before Plotly draws
    spec: Json
    tall: int = 0  # on a phone, if that differs


class Plot(Record, frozen=True):
    """A figure, and the table with its numbers."""

    figure: Figure
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Mark(Record, frozen=True):
    """One number in a chart with its text."""

    value: float
    text: str
    hover: str = ""


def plain(text: str) -> str:
    """Text escaped for Plotly, which interprets tags: ``<b>`` stays ``<b>``."""
    return escape(text, quote=False)


def layout_of(**changes: Any) -> Json:
    """The layout that all figures share, with the given changes."""
    return {**_STYLE["layout"], **changes}


def axis_of(**changes: Any) -> Json:
    """An axis with some settings overridden; ``title`` is its text."""
    title = changes.pop("title", None)
    axis = {**_STYLE["axis"], **changes}
    if title:
        axis["title"] = {"text": title, **axis["title"], "standoff": 8}
    return axis


def errors(below: list[float], above: list[float], color: str = "@ink") -> Json:
    """Error bars: the length of intervals on each side."""
    return {
        "type": "data",
        "symmetric": False,
        "array": above,
        "arrayminus": below,
        "color": color,
        "thickness": 1,
        "width": 3,
    }


def scatter(mode: str, x: list[Any], y: list[Any], hover: list[str], **more: Any) -> Json:
    """Points or a line, in data units, and the hover text of each point."""
    named: Json = {key: more.pop(key) for key in ("name", "showlegend") if key in more}
    return {
        "type": "scatter",
        "mode": mode,
        **named,
        "x": x,
        "y": y,
        "customdata": hover,
        "hovertemplate": "%{customdata}<extra></extra>",
        **more,
    }


def ticks(top: float, unit: str, wanted: int = 5) -> Json:
    """Linear ticks from 0 to `top` at 1, 2 or 5 times a power of ten, as formatted text."""
    if top <= 0:
        return {"tickvals": [0], "ticktext": [units.tick(0, unit)]}
    raw = top / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    values = [step * index for index in range(int(top / step) + 1)]
    return {"tickvals": values, "ticktext": units.tick_row(values, unit)}


class IntervalBar(Record, frozen=True):
    """One bar of `intervals`: a value, and the length of its interval below and above."""

    name: str
    mark: Mark
    below: float = 0.0
    above: float = 0.0
    reference: bool = False


def intervals(
    identity: str, label: str, rows: list[IntervalBar], unit: str, axis: str, peak: Mark | None
) -> Figure:
    """Horizontal bars with intervals; references are hatched, a peak is a dashed line."""
    names = [plain(row.name) for row in rows]
    top = max([row.mark.value + row.above for row in rows], default=1.0)
    # A peak far beyond the bars would make them too short: it is then written, not drawn.
    drawn = peak is not None and peak.value <= _FAR * top
    limit = max(top * _LABELS, 1.02 * peak.value if peak and drawn else 0.0)
    if peak is not None and not drawn:
        axis = _("{axis}; {peak} is off the scale").format(axis=axis, peak=peak.text)
    colors = ["@soft" if row.reference else "@bar" for row in rows]
    data = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": [row.mark.value for row in rows],
        "text": [_GAP + plain(row.mark.text) for row in rows],
        "customdata": [plain(row.mark.hover or row.mark.text) for row in rows],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": "%{y}: %{customdata}<extra></extra>",
        "error_x": errors([row.below for row in rows], [row.above for row in rows]),
        "marker": {
            "color": colors,
            "pattern": {"shape": ["/" if row.reference else "" for row in rows], **HATCHED},
        },
    }
    layout = layout_of(
        xaxis=axis_of(title=axis, range=[0, limit], **ticks(limit, unit)),
        yaxis=axis_of(autorange="reversed", dtick=1, tickfont={"color": "@ink", "size": 12}),
        bargap=0.36,
    )
    if drawn and peak:
        layout |= _peak_line(peak)
    # On a phone, beside long names, a label takes more than half of the plot.
    room = max(limit, top * 2.2)
    narrow = {"xaxis": axis_of(range=[0, room], **ticks(room, unit, 3))}
    height = 74 + 32 * len(rows)
    spec = {"data": [data], "layout": layout, "narrow": narrow}
    return Figure(id=identity, label=label, height=height, spec=spec)


def _peak_line(peak: Mark) -> Json:
    line = {
        "type": "line",
        "x0": peak.value,
        "x1": peak.value,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": "@soft", "dash": "dash", "width": 1},
    }
    name = {
        "x": peak.value,
        "yref": "paper",
        "y": 1,
        "yanchor": "bottom",
        "xanchor": "right",
        "showarrow": False,
        "text": plain(peak.text),
        "font": {"color": "@soft", "size": 11},
    }
    margin = {"l": 8, "r": 16, "t": 24, "b": 36}
    return {"shapes": [line], "annotations": [name], "margin": margin}
