"""A page's figure as a file, PNG, SVG or PDF: the same marks, drawn by matplotlib.

The code of the page decides the contents of a figure; this module draws its traces, axes and notes,
in the page's light colours.
"""

from __future__ import annotations

import io
import json
import math
import re
from html import unescape
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from workbench.errors import MissingError
from workbench.views.html.charts.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Json = dict[str, Any]

FORMATS = (".svg", ".png", ".pdf")
#: CSS pixels: a figure's width, and the number per inch.
_WIDE, _INCH = 900, 96
_DASHES = {"dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3))}
_MARKERS = {
    "circle": "o", "square": "s", "diamond": "D", "cross": "P", "x": "X", "triangle-up": "^",
    "star": "*", "pentagon": "p",
}  # fmt: skip
_UP = {"top": "top", "bottom": "bottom", "middle": "center"}


def picture(figure: Figure, format_: str) -> bytes:
    """The file's content, in ``svg``, ``png`` or ``pdf``.

    Raises MissingError: matplotlib is not installed.
    """
    mpl = _matplotlib()
    palette = _palette()
    found = re.sub(r"@\w+", lambda name: palette.get(name[0], name[0]), json.dumps(figure.spec))
    spec = json.loads(found)
    # The same figure gives the same file: it contains no date and no random name.
    style = {"svg.hashsalt": figure.id, "svg.fonttype": "none", "font.size": 9}
    with mpl.rc_context(style):
        size = _WIDE / _INCH, figure.height / _INCH
        canvas = mpl.figure.Figure(figsize=size, layout="constrained")
        _draw(canvas.add_subplot(), spec)
        return _saved(canvas, format_, 200)


def _matplotlib() -> Any:
    try:
        import matplotlib.figure
    except ImportError as error:
        raise MissingError(
            "matplotlib, which draws pictures, is not installed",
            "pip install '.[plot]' in workbench's checkout, or pip install matplotlib.",
        ) from error
    return matplotlib


def drawn(card: bytes, format_: str) -> bytes:
    """A card (SVG) as a file: its rectangles and lines of text; raises MissingError."""
    if format_ == "svg":
        return card
    root = ElementTree.fromstring(card)
    wide, high = (float(root.attrib[name]) for name in ("width", "height"))
    canvas = _matplotlib().figure.Figure(figsize=(wide / 100, high / 100))
    axes = canvas.add_axes((0, 0, 1, 1))
    for node in root:
        x, y, w, h = (float(node.get(name, 0)) for name in ("x", "y", "width", "height"))
        if node.tag.endswith("rect"):
            axes.barh(y + h / 2, w, h, x, color=node.get("fill"))
            continue
        axes.text(
            x, y, _text(node.text or "").rstrip(), color=node.get("fill"), va="baseline",
            ha={"end": "right"}.get(node.get("text-anchor", ""), "left"),
            fontsize=0.72 * float(node.get("font-size", 0)), weight=node.get("font-weight"),
            family="monospace" if node.get("font-family") else "sans-serif",
        )  # fmt: skip
    axes.set(xlim=(0, wide), ylim=(high, 0))
    axes.set_axis_off()
    return _saved(canvas, format_, 100)


def _saved(canvas: Any, format_: str, dpi: int) -> bytes:
    out = io.BytesIO()
    dated = {} if format_ == "png" else {"Date" if format_ == "svg" else "CreationDate": None}
    canvas.savefig(out, format=format_, dpi=dpi, metadata=dated)
    return out.getvalue()


def _palette() -> dict[str, str]:
    css = files("workbench.views.html").joinpath("assets", "workbench.css").read_text("utf-8")
    tokens = re.findall(r"--(\w+): (?:light-dark\()?(#\w{6})", css[: css.index("}")])
    return {f"@{name}": colour for name, colour in tokens}


def _text(text: str) -> str:
    # A dollar begins mathematics, but kernels' names use it literally.
    return unescape(text.replace("<br>", "\n")).replace("$", r"\$").replace("\u2002", " ")


def _draw(axes: Axes, spec: Json) -> None:
    layout, data = spec["layout"], spec["data"]
    bars = [trace for trace in data if trace["type"] == "bar"]
    if bars:
        places = list(dict.fromkeys(y for trace in bars for y in trace["y"]))
        stacked = [0.0] * len(places)
        for trace in bars:
            _bars(axes, trace, places, stacked, 1 - layout.get("bargap", 0.3))
        axis = layout["yaxis"]
        names = dict(zip(axis.get("tickvals", places), axis.get("ticktext", places), strict=True))
        axes.set_yticks(range(len(places)), [_text(names.get(place, place)) for place in places])
        axes.set_ylim(len(places) - 0.4, -0.6)  # the first at the top
        axes.tick_params(axis="y", length=0)
    for trace in data:
        if trace["type"] == "scatter":
            _line(axes, trace)
    _axis(axes, layout["xaxis"], "x")
    if not bars:
        _axis(axes, layout["yaxis"], "y")
    shared = layout.get("template", {}).get("layout", {})
    for shape in layout.get("shapes", ()):
        shape = {**shared.get("shapedefaults", {}), **shape}
        line = shape["line"]
        across = axes.get_xaxis_transform() if shape.get("yref") == "paper" else axes.transData
        axes.plot(
            [shape["x0"], shape["x1"]], [shape["y0"], shape["y1"]], transform=across, label="_",
            color=line["color"], linewidth=line["width"], zorder=0.5,
            linestyle=_DASHES.get(line.get("dash", ""), "-"),
        )  # fmt: skip
    for note in layout.get("annotations", ()):
        _note(axes, {**shared.get("annotationdefaults", {}), **note}, layout, bars)
    if layout.get("showlegend"):
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=6, frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_axisbelow(True)


def _bars(axes: Axes, trace: Json, places: list[str], stacked: list[float], thick: float) -> None:
    count = len(trace["y"])
    marker = trace["marker"]
    colours, shapes = (
        value if isinstance(value, list) else [value] * count
        for value in (marker["color"], marker.get("pattern", {}).get("shape", ""))
    )
    texts = trace.get("text", [""] * count)
    error = trace.get("error_x", {})
    for at, (name, length) in enumerate(zip(trace["y"], trace["x"], strict=True)):
        place = places.index(name)
        start = trace["base"][at] if "base" in trace else stacked[place]
        axes.barh(
            place, length, thick, left=start, color=colours[at], edgecolor="white", linewidth=0.5,
            hatch=2 * shapes[at] or None, label=_text(trace.get("name", "")) if not at else None,
        )  # fmt: skip
        reach = 0.0
        if error:
            below, reach = error["arrayminus"][at], error["array"][at]
            ends = [[below], [reach]]
            axes.errorbar(start + length, place, xerr=ends, color=error["color"], elinewidth=1)
        inside = trace.get("textposition") == "inside"
        where = start + length / 2 if inside else start + length + reach
        axes.annotate(
            _text(texts[at]).strip(), (where, place), (0 if inside else 5, 0),
            textcoords="offset points", va="center", ha="center" if inside else "left",
            color="white" if inside else "black", fontsize=8,
        )  # fmt: skip
        stacked[place] += length


def _line(axes: Axes, trace: Json) -> None:
    x, y = ([math.nan if v is None else v for v in trace[key]] for key in ("x", "y"))
    mode, line, marker = trace["mode"], trace.get("line", {}), trace.get("marker", {})
    drawn = "lines" in mode
    named = trace.get("showlegend", True) and trace.get("name")
    axes.plot(
        x, y,
        color=line.get("color", marker.get("color")), linewidth=line.get("width", 1.5),
        linestyle=_DASHES.get(line.get("dash", ""), "-") if drawn else "",
        marker=_MARKERS.get(str(marker.get("symbol", "circle")).partition("-open")[0], "o")
        if "markers" in mode else "",
        markersize=0.6 * marker.get("size", 8),
        label=_text(trace["name"]) if named else "_",
    )  # fmt: skip
    if error := trace.get("error_y"):
        ends = [error["arrayminus"], error["array"]]
        axes.errorbar(x, y, yerr=ends, fmt="none", ecolor=error["color"], elinewidth=0.8)
    if "text" not in mode:
        return
    texts, position = trace.get("text", ()), trace.get("textposition", "top center")
    for at, text in enumerate(texts):
        if text and not math.isnan(y[at]):
            up, side = (position if isinstance(position, str) else position[at]).split()
            offset = {"left": -6, "right": 6}.get(side, 0), {"top": 5, "bottom": -5}.get(up, 0)
            axes.annotate(
                _text(text).strip(), (x[at], y[at]), offset, textcoords="offset points", fontsize=8,
                ha={"left": "right", "right": "left"}.get(side, "center"),
                va={"top": "bottom", "bottom": "top"}.get(up, "center"),
            )  # fmt: skip


def _axis(axes: Axes, axis: Json, which: str) -> None:
    log = axis.get("type") == "log"
    axes.set(**{f"{which}scale": "log" if log else "linear"})
    if "range" in axis:
        low, high = (10.0**end if log else end for end in axis["range"])
        axes.set(**{f"{which}lim": (low, high)})
    if "tickvals" in axis:
        own = axes.xaxis if which == "x" else axes.yaxis
        own.set_ticks(axis["tickvals"], [_text(text) for text in axis["ticktext"]])
        own.set_ticks([], minor=True)
    if title := axis.get("title", {}).get("text"):
        axes.set(**{f"{which}label": _text(title)})
    if axis.get("showgrid", True):
        axes.grid(axis="x" if which == "x" else "y", color=axis["gridcolor"], linewidth=0.8)


def _note(axes: Axes, note: Json, layout: Json, bars: list[Json]) -> None:
    point, systems = [], []
    for which in ("x", "y"):
        paper = note.get(f"{which}ref") == "paper"
        value = note[which]
        if isinstance(value, str) and bars:
            value = list(dict.fromkeys(y for trace in bars for y in trace["y"])).index(value)
        elif not paper and layout[f"{which}axis"].get("type") == "log":
            value = 10.0**value
        point.append(value)
        systems.append("axes fraction" if paper else "data")
    axes.annotate(
        _text(note["text"]), tuple(point), (note.get("xshift", 0), note.get("yshift", 0)),
        xycoords=tuple(systems), textcoords="offset points", fontsize=8,
        color=note.get("font", {}).get("color", "black"), annotation_clip=False,
        ha=note.get("xanchor", "center"),
        va=_UP.get(note.get("yanchor", "middle"), "center"),
    )  # fmt: skip
