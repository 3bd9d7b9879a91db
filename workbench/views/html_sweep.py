"""View model of the sweep: every version's times over the problems of a study on one device."""

from __future__ import annotations

from collections.abc import Sequence

from workbench import units
from workbench.model import Record, Timing
from workbench.store import natural_key
from workbench.views import charts
from workbench.views.charts_lines import Axis, Point, Series, lines, round_places
from workbench.views.html_common import percent

#: Problems that one chart shows; of more, as many spread evenly over the sizes.
_PROBLEMS = 32


class SweepChart(Record, frozen=True):
    """One way to look at the sweep."""

    id: str
    title: str
    figure: charts.Figure


class Sweep(Record, frozen=True):
    """The section: charts, and one table behind all of them."""

    charts: tuple[SweepChart, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str


class _Sizes(Record, frozen=True):
    """Problem -> size, and what the size is called."""

    title: str
    unit: str
    of: dict[str, float]


def _sizes(timings: Sequence[Timing]) -> _Sizes:
    """What the problems differ in: their one parameter, else their work, else their order."""
    problems = {timing.problem: timing for timing in timings}
    shapes = {name: timing.parameters for name, timing in problems.items()}
    keys = list(dict.fromkeys(key for shape in shapes.values() for key in shape))
    varying = [key for key in keys if len({shape.get(key) for shape in shapes.values()}) > 1]
    same = all(len({shape.get(key) for key in varying}) == 1 for shape in shapes.values())
    if varying and same:
        of = {name: float(shape.get(varying[0], 0)) for name, shape in shapes.items()}
        if len(set(of.values())) == len(of) and min(of.values()) > 0:
            return _Sizes(title=" = ".join(varying), unit="", of=of)
    work = {name: float(timing.flops) for name, timing in problems.items()}
    if min(work.values()) > 0 and len(set(work.values())) == len(work):
        return _Sizes(title="work of the problem", unit="flop", of=work)
    order = sorted(problems, key=natural_key)
    return _Sizes(title="problem", unit="name", of={n: i + 1.0 for i, n in enumerate(order)})


def _spread(problems: list[str]) -> list[str]:
    if len(problems) <= _PROBLEMS:
        return problems
    step = (len(problems) - 1) / (_PROBLEMS - 1)
    return [problems[round(place * step)] for place in range(_PROBLEMS)]


def sweep(timings: Sequence[Timing], order: Sequence[str], baselines: set[str]) -> Sweep | None:
    """The sweep, or None where fewer than two problems were timed.

    Args:
        timings: All recorded times of a study on one device.
        order: The versions in ladder order.
        baselines: Which of them are libraries to beat.
    """
    if len({timing.problem for timing in timings}) < 2:
        return None
    sizes = _sizes(timings)
    every = sorted(sizes.of, key=lambda name: sizes.of[name])
    shown = _spread(every)
    found = {(timing.version, timing.problem): timing for timing in timings}
    versions = [v for v in order if any((v, problem) in found for problem in shown)]
    versions += sorted({timing.version for timing in timings} - set(order), key=natural_key)
    axis = _axis(sizes, shown)
    out = []
    for identity, title, unit in (
        ("rate", "FLOP/s", "flop/s"),
        ("time", "Time", "s"),
        ("ratio", "Of the baseline’s speed", "%"),
    ):
        series = []
        for version in versions:
            points = [
                point
                for problem in shown
                if (timing := found.get((version, problem))) is not None
                and (point := _point(timing, sizes.of[problem], unit)) is not None
            ]
            if points:
                reference = version in baselines
                series.append(Series(name=version, points=tuple(points), reference=reference))
        if series:
            y = Axis(title=title, unit=unit, from_zero=unit != "s")
            label = f"{title} over {sizes.title}, a line for each version"
            figure = lines(f"sweep-{identity}", label, series, axis, y, height=360)
            out.append(SweepChart(id=identity, title=title, figure=figure))
    note = f"Of {len(every)} problems {len(shown)} are drawn." if len(shown) < len(every) else ""
    return Sweep(
        charts=tuple(out),
        head=("Problem", *versions),
        rows=tuple(
            (problem, *(_cell(found.get((version, problem))) for version in versions))
            for problem in shown
        ),
        note=note,
    )


def _axis(sizes: _Sizes, shown: list[str]) -> Axis:
    if sizes.unit == "name":
        places = tuple((sizes.of[name], name) for name in shown)
        return Axis(title=sizes.title, places=places)
    places = round_places([sizes.of[name] for name in shown], sizes.unit)
    return Axis(title=sizes.title, unit=sizes.unit, places=places)


def _point(timing: Timing, x: float, unit: str) -> Point | None:
    time = timing.time
    head = f"{timing.version}, {timing.problem}"
    if unit == "s":
        hover = f"{head}: {units.quantity(time.value, 's')}"
        below, above = time.value - time.low, time.high - time.value
        return Point(x=x, y=time.value, hover=hover, below=below, above=above)
    if unit == "flop/s":
        if not timing.flops:
            return None
        rate = timing.flops / time.value
        low, high = timing.flops / time.high, timing.flops / time.low
        hover = f"{head}: {units.quantity(rate, unit)}"
        return Point(x=x, y=rate, hover=hover, below=rate - low, above=high - rate)
    if timing.ratio is None:
        return None
    middle, low, high = (100 * v for v in (timing.ratio.value, timing.ratio.low, timing.ratio.high))
    hover = f"{head}: {percent(timing.ratio.value)} of {timing.baseline or 'the baseline'}"
    return Point(x=x, y=middle, hover=hover, below=middle - low, above=high - middle)


def _cell(timing: Timing | None) -> str:
    if timing is None:
        return units.quantity(None)
    text = units.quantity(timing.time.value, "s")
    if timing.flops:
        text += f" · {units.quantity(timing.flops / timing.time.value, 'flop/s')}"
    return f"{text} · {percent(timing.ratio.value)}" if timing.ratio else text
