"""Waterfalls from an old total to a new one.

Plotly's own waterfall trace has no error bars, so the steps are its bars on a base.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from workbench import units
from workbench.analysis.duration import StallDelta, TimePart, TimeSplit
from workbench.analysis.weight import TELLING
from workbench.counters import catalog
from workbench.language import _
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
from workbench.views.html.page import View

#: Below this part of the total, the steps would be too small to see on an axis from zero.
_VISIBLE = 0.2
#: The length of a total's mark on an axis that does not start at zero, as a part of the axis.
_MARK = 0.006
_WIDE, _NARROW = 34, 32
#: On a phone, a step's name and number are above its bar, this far from its middle.
_ABOVE, _ROW = 14, 38
_COLOURS = {"total": "@bar", "good": "@good", "bad": "@bad", "": "@soft"}
_SHAPES = {"total": "", "good": "", "bad": "/", "": "."}


class Fall(Record, frozen=True):
    """One step: the amount that it adds, with its error on each side, and its text.

    `tone` is ``good``, ``bad``, "" (no direction) or ``total``; `href` is the target of a click.
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
    """A step's name, cut before its warp state, which distinguishes it from its neighbours."""
    name, colon, state = label.rpartition(": ")
    left = room - len(f"…{colon}{state}")
    if len(label) > room and name and left > 0:
        label = f"{name[:left]}…{colon}{state}"
    return plain(label if len(label) <= room else f"{label[: room - 1]}…")


def waterfall(
    identity: str, label: str, old: Fall, falls: list[Fall], new: Fall, unit: str, axis: str
) -> Figure:
    """A waterfall from one `total` to another; better steps are solid, worse ones hatched."""
    every = [old, *falls, new]
    # Each step starts at the end of the one before it, and both totals at zero.
    ends = list(accumulate(fall.delta for fall in [old, *falls]))
    names = [fall.label for fall in every]
    places = [f"{place}" for place in range(len(names))]
    low, high, top = min(ends), max(ends), max(ends)
    cut = 0 < high - low < _VISIBLE * top
    start = max(0.0, low - 0.6 * (high - low)) if cut else 0.0
    end = high + (0.1 * (high - low) if cut else 0.04 * top)
    # On an axis without zero, a total's length would mislead: only its end is marked.
    sizes = [_MARK * (end - start)] * 2 if cut else [old.delta, new.delta]
    lengths = [sizes[0], *(fall.delta for fall in falls), sizes[1]]
    bases = [old.delta - sizes[0], *ends[:-1], new.delta - sizes[1]]
    steps = _cut_ticks(start, end, unit) if cut else ticks(top, unit)
    title = _("{axis}; the axis does not start at zero").format(axis=axis) if cut else axis
    layout = layout_of(
        xaxis=axis_of(title=title, range=[start, end], **steps),
        yaxis=_rows(places, [_short(name, _WIDE) for name in names], 12),
        template=_shared(12, {"x": 1, "xanchor": "left", "xshift": 6}),
        annotations=_values(places, every),
        # Thin lines from the end of one bar to the start of the next one.
        shapes=[{"x0": x, "x1": x, "y0": y, "y1": y + 1} for y, x in enumerate(ends)],
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
    """The common properties of all numbers and connectors, written once: a step has dozens."""
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
    """The numbers, in their own column right of the bars."""
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


#: A step must be this part of the larger total; smaller ones are added up.
_STEP = 0.012
_STEPS = 12


def _time_fall(part: TimePart | None, stalls: Sequence[StallDelta], what: str) -> Fall:
    """Several stalls of a part as one step, or of many parts (None) as the last one."""
    delta = sum(stall.delta_s for stall in stalls)
    # A single error stays; several are combined by the root of the sum of squares (Newcombe).
    below = math.sqrt(sum((stall.delta_s - stall.low_s) ** 2 for stall in stalls))
    above = math.sqrt(sum((stall.high_s - stall.delta_s) ** 2 for stall in stalls))
    name = part.name if part else _("All the rest")
    hunk = part.hunk if part else None
    text = f"{units.signed(delta, 's')} ±{units.quantity(max(below, above), 's')}"
    tone = "good" if delta < 0 else "bad"
    if part is None or part.link in ("unknown", "elsewhere") or delta - below <= 0 <= delta + above:
        tone = ""  # not caused by a hunk, or its sign is within the sampling error
    return Fall(
        label=f"{name}{_(': ')}{what}",
        delta=delta,
        text=text,
        hover=_("{amount}, linked to {what}").format(amount=text, what=name) if hunk else text,
        tone=tone,
        below=below,
        above=above,
        href=f"#hunk-{hunk}" if hunk else "",
    )


def _time_falls(split: TimeSplit) -> list[Fall]:
    floor = _STEP * max(split.old_s, split.new_s)
    every = [abs(stall.delta_s) for part in split.parts for stall in part.stalls]
    if len([amount for amount in every if amount >= floor]) > _STEPS:
        floor = sorted(every, reverse=True)[_STEPS - 1]
    out: list[Fall] = []
    small: list[StallDelta] = []
    for part in split.parts:
        rest = []
        for stall in part.stalls:
            if abs(stall.delta_s) >= floor:
                out.append(_time_fall(part, (stall,), _stall_title(stall)))
            else:
                rest.append(stall)
        if abs(sum(stall.delta_s for stall in rest)) >= floor / 2:
            what = _("other states") if len(rest) < len(part.stalls) else _("all states")
            out.append(_time_fall(part, rest, what))
        else:
            small += rest
    if sum(stall.delta_s for stall in small):
        out.append(_time_fall(None, small, _("small steps")))
    return out


def _stall_title(stall: StallDelta) -> str:
    if stall.stall not in catalog():
        return stall.stall
    title = catalog()[stall.stall].title
    return {"selected": _("Issuing"), "not_selected": _("Ready")}.get(stall.stall, title)


def time_waterfall(split: TimeSplit, old: str, new: str) -> View:
    """The change in time by part and warp state, with the sampling error of each step.

    A figure and its table; `old` and `new` are the names of the sides.
    """
    figure = waterfall(
        "time-waterfall",
        _(
            "Duration under the profiler from {old} to {new}, "
            "by change of the source and warp state"
        ).format(old=old, new=new),
        total(old, split.old_s, units.quantity(split.old_s, "s")),
        _time_falls(split),
        total(new, split.new_s, units.quantity(split.new_s, "s")),
        "s",
        _("duration under the profiler"),
    )
    return View(
        change=units.signed(split.delta_s, "s"),
        figure=figure,
        head=(_("Linked to"), _("Warp state"), _("Change"), _("from"), _("to")),
        rows=[row for part in split.parts for row in _time_rows(part, split)],
        note=_("{method}. Samples: {old} and {new}.").format(
            method=units.capital(split.method),
            old=units.count(split.samples_old),
            new=units.count(split.samples_new),
        ),
    )


def _time_rows(part: TimePart, split: TimeSplit) -> list[tuple[str, ...]]:
    name = part.name
    every = (
        StallDelta(stall="", delta_s=part.delta_s, low_s=part.low_s, high_s=part.high_s),
        *part.stalls,
    )
    floor = TELLING * max(split.old_s, split.new_s)
    return [
        (
            name,
            _stall_title(stall) if stall.stall else _("all states"),
            units.signed(stall.delta_s, "s"),
            units.signed(stall.low_s, "s"),
            units.signed(stall.high_s, "s"),
        )
        for stall in every
        if not stall.stall or abs(stall.delta_s) >= floor
    ]
