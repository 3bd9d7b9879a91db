"""The waterfall figure: from an old total to a new one, step by step, with error bars.

Plotly's own waterfall trace has no error bars, so the steps are its bars on a base.
"""

from __future__ import annotations

from itertools import accumulate

from workbench import units
from workbench.model import Record
from workbench.views.html.charts.figure import (
    HATCHED,
    Figure,
    Json,
    axis_of,
    errors,
    layout_of,
    plain,
    ticks,
)

#: Below this part of the total the steps would be too small to see on an axis from zero.
_VISIBLE = 0.2
#: How long the mark of a total is on an axis that does not start at zero, as a part of it.
_MARK = 0.006
_WIDE, _NARROW = 34, 32
#: On a phone a step's name and number stand above its bar, this far from its middle.
_ABOVE, _ROW = 14, 38
_COLOURS = {"total": "@bar", "good": "@good", "bad": "@bad", "": "@soft"}
_SHAPES = {"total": "", "good": "", "bad": "/", "": "."}


class Fall(Record, frozen=True):
    """One step: how much it adds, with its error either way, and what is said of it.

    `tone` is ``good``, ``bad``, "" (no direction) or ``total``; `href` where a click leads.
    """

    label: str
    delta: float
    text: str
    hover: str
    tone: str = ""
    below: float = 0.0
    above: float = 0.0
    href: str = ""


def total(label: str, value: float, text: str) -> Fall:
    """The first or last bar."""
    return Fall(label=label, delta=value, text=text, hover=text, tone="total")


def _short(label: str, room: int) -> str:
    """A step's name, cut before its warp state: that tells it from the ones beside it."""
    name, colon, state = label.rpartition(": ")
    left = room - len(f"…{colon}{state}")
    if len(label) > room and name and left > 0:
        label = f"{name[:left]}…{colon}{state}"
    return plain(label if len(label) <= room else f"{label[: room - 1]}…")


def waterfall(
    identity: str, label: str, old: Fall, falls: list[Fall], new: Fall, unit: str, axis: str
) -> Figure:
    """A waterfall from one `total` to another; what gets better is solid, worse hatched."""
    every = [old, *falls, new]
    # Each step starts where the one before it ended, and both totals at zero.
    ends = list(accumulate(fall.delta for fall in [old, *falls]))
    names = [fall.label for fall in every]
    places = [f"{place}" for place in range(len(names))]
    low, high, top = min(ends), max(ends), max(ends)
    cut = 0 < high - low < _VISIBLE * top
    start = max(0.0, low - 0.6 * (high - low)) if cut else 0.0
    end = high + (0.1 * (high - low) if cut else 0.04 * top)
    # Where the axis does not start at zero a total's length would lie: only its end is marked.
    sizes = [_MARK * (end - start)] * 2 if cut else [old.delta, new.delta]
    lengths = [sizes[0], *(fall.delta for fall in falls), sizes[1]]
    bases = [old.delta - sizes[0], *ends[:-1], new.delta - sizes[1]]
    steps = _cut_ticks(start, end, unit) if cut else ticks(top, unit)
    title = f"{axis}; the axis does not start at zero" if cut else axis
    layout = layout_of(
        xaxis=axis_of(title=title, range=[start, end], **steps),
        yaxis=_rows(places, [_short(name, _WIDE) for name in names], 12),
        template=_shared(12, {"x": 1, "xanchor": "left", "xshift": 6}),
        annotations=_values(places, every),
        shapes=_joints(ends),
        margin={"l": 8, "r": 16 + 7 * max(len(fall.text) for fall in every), "t": 8, "b": 36},
        bargap=0.34,
    )
    narrow = {
        "template": _shared(11, {"x": 1, "xanchor": "right", "yshift": _ABOVE}),
        "yaxis": _rows(places, [_short(name, _NARROW) for name in names], 11)
        | {"ticklabelposition": "inside", "ticklabelshift": _ABOVE},
        "margin": {"l": 6, "r": 10, "t": 12, "b": 36},
        "xaxis": axis_of(range=[start, end], **_cut_ticks(start, end, unit, 3)),
        "bargap": 0.66,
    }
    spec = {"data": [_bars(places, every, bases, lengths)], "layout": layout, "narrow": narrow}
    height, tall = 58 + 25 * len(names), 70 + _ROW * len(names)
    return Figure(id=identity, label=label, height=height, tall=tall, spec=spec)


def _bars(places: list[str], every: list[Fall], bases: list[float], lengths: list[float]) -> Json:
    return {
        "type": "bar",
        "orientation": "h",
        "y": places,
        "x": lengths,
        "base": bases,
        "customdata": [[plain(f"{fall.label}: {fall.hover}"), fall.href] for fall in every],
        "hovertemplate": "%{customdata[0]}<extra></extra>",
        "error_x": errors([fall.below for fall in every], [fall.above for fall in every]),
        "marker": {
            "color": [_COLOURS[fall.tone] for fall in every],
            "pattern": {"shape": [_SHAPES[fall.tone] for fall in every], **HATCHED},
        },
    }


def _shared(size: int, place: Json) -> Json:
    """What all numbers and all joints have in common, said once: a step has dozens of each."""
    return {
        "layout": {
            "annotationdefaults": {
                "xref": "paper",
                **place,
                "showarrow": False,
                "align": "left",
                "font": {"size": size, "color": "@ink"},
            },
            "shapedefaults": {
                "type": "line",
                "line": {"color": "@soft", "width": 1, "dash": "dot"},
                "layer": "below",
            },
        }
    }


def _values(places: list[str], every: list[Fall]) -> list[Json]:
    """The numbers in a column of their own, right of the bars."""
    return [
        {"y": place, "text": plain(fall.text)}
        | ({"font": {"color": _COLOURS[fall.tone]}} if fall.tone in ("good", "bad") else {})
        for place, fall in zip(places, every, strict=True)
    ]


def _rows(places: list[str], names: list[str], size: int) -> Json:
    return axis_of(
        type="category",
        autorange="reversed",
        tickvals=places,
        ticktext=names,
        showgrid=False,
        tickfont={"color": "@ink", "size": size},
    )


def _cut_ticks(start: float, end: float, unit: str, wanted: int = 4) -> Json:
    """Ticks of an axis that starts anywhere: the round values within it."""
    step = ticks(end - start, unit, wanted)["tickvals"]
    size = step[1] if len(step) > 1 else (end - start) or 1.0
    first = int(start / size) + (start > 0)
    values = [size * place for place in range(first, int(end / size) + 1)]
    return {"tickvals": values, "ticktext": units.tick_row(values, unit)}


def _joints(ends: list[float]) -> list[Json]:
    """Thin lines from where one bar ends to where the next one starts."""
    return [{"x0": at, "x1": at, "y0": place, "y1": place + 1} for place, at in enumerate(ends)]
