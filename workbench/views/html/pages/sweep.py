"""View model of the sweep: every version's times over the problems of a study on one device."""

from __future__ import annotations

from collections.abc import Sequence

from workbench import units
from workbench.model import Record, Timing
from workbench.store import natural_key
from workbench.views.html.charts import figure as charts
from workbench.views.html.charts.lines import NAMES, Axis, Point, Series, lines, round_places
from workbench.views.html.parts.common import percent

#: Problems that one chart shows; of more, as many spread evenly over the sizes.
_PROBLEMS = 32
#: Families of problems that get charts of their own; of more, the work tells problems apart.
_FAMILIES = 4
#: Problems that an axis can name.
_NAMED = 12
#: From this factor between the slowest and the fastest on, a rate's axis is logarithmic.
_DECADES = 20.0


class SweepChart(Record, frozen=True):
    """One way to look at one family of problems; `parts` are the choices that show it."""

    parts: str
    figure: charts.Figure


class SweepSection(Record, frozen=True):
    """The section: charts, and one table behind all of them."""

    charts: tuple[SweepChart, ...]
    ways: tuple[tuple[str, str], ...]
    families: tuple[tuple[str, str], ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str
    warnings: tuple[str, ...] = ()


class _Sizes(Record, frozen=True):
    """Problems on one axis: problem -> place, and what the places are called.

    `name` tells a family of problems from the others of the sweep, as ``stride = 2``.
    """

    title: str
    unit: str
    of: dict[str, float]
    name: str = ""


def _axes(shapes: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """What the problems differ in: title -> problem -> value; what goes together is one."""
    keys = list(dict.fromkeys(key for shape in shapes.values() for key in shape))
    together: dict[tuple[int | None, ...], list[str]] = {}
    for key in keys:
        column = tuple(shape.get(key) for shape in shapes.values())
        if len(set(column)) > 1:
            together.setdefault(column, []).append(key)
    return {
        " = ".join(names): {p: v or 0 for p, v in zip(shapes, column, strict=True)}
        for column, names in together.items()
    }


def _families(timings: Sequence[Timing], kind: str) -> list[_Sizes]:
    """The axes to draw: one size, a size for each of few families, or the problems by work."""
    problems = {timing.problem: timing for timing in timings}
    axes = _axes({name: timing.parameters for name, timing in problems.items()})
    found = _by_size(axes)
    if found:
        return found
    work = {name: float(timing.flops) for name, timing in problems.items()}
    if len(work) > _NAMED and min(work.values()) > 0 and len(set(work.values())) == len(work):
        return [_Sizes(title="work of the problem", unit=kind, of=work)]
    order = sorted(problems, key=lambda name: (work[name], natural_key(name)))
    of = {name: place + 1.0 for place, name in enumerate(order)}
    return [_Sizes(title="problems by their work", unit=NAMES, of=of)]


def _by_size(axes: dict[str, dict[str, int]]) -> list[_Sizes]:
    """Problems by one size, in a family for each value of at most one other; [] if that fails.

    What follows from the two (an output's size from an input's and a stride) needs no axis.
    Of several ways the one with the fewest families wins, then the parameter that is named
    first, as those that follow from others are named last.
    """
    best: tuple[int, list[_Sizes]] | None = None
    for size in axes:
        for other in [None] if len(axes) == 1 else [axis for axis in axes if axis != size]:
            groups: dict[int, dict[str, float]] = {}
            for name, value in axes[size].items():
                group = axes[other][name] if other else 0
                groups.setdefault(group, {})[name] = float(value)
            whole = all(
                len(group) > 1
                and len(set(group.values())) == len(group)
                and min(group.values()) > 0
                for group in groups.values()
            )
            if whole and len(groups) <= _FAMILIES and (best is None or len(groups) < best[0]):
                families = [
                    _Sizes(
                        title=size, unit="", of=groups[g], name=f"{other} = {g}" if other else ""
                    )
                    for g in sorted(groups)
                ]
                best = len(groups), families
    return best[1] if best else []


def _spread(problems: list[str]) -> list[str]:
    if len(problems) <= _PROBLEMS:
        return problems
    step = (len(problems) - 1) / (_PROBLEMS - 1)
    return [problems[round(place * step)] for place in range(_PROBLEMS)]


def sweep(
    timings: Sequence[Timing], order: Sequence[str], baselines: set[str], work: str = "flop"
) -> SweepSection | None:
    """The sweep, or None where fewer than two problems were timed.

    Args:
        timings: All recorded times of a study on one device.
        order: The versions in ladder order.
        baselines: Which of them are libraries to beat.
        work: What a job's work is counted in, ``flop`` or ``op``.
    """
    from workbench.analysis import growth

    if len({timing.problem for timing in timings}) < 2:
        return None
    found = {(timing.version, timing.problem): timing for timing in timings}
    families = _families(timings, work)
    every = [name for sizes in families for name in _ordered(sizes)]
    versions = [v for v in order if any((v, problem) in found for problem in every)]
    versions += sorted({timing.version for timing in timings} - set(order), key=natural_key)
    out: list[SweepChart] = []
    ways: dict[str, str] = {}
    drawn: list[str] = []
    rate = _rate_unit(timings, work)
    for number, sizes in enumerate(families):
        shown = _spread(_ordered(sizes))
        drawn += shown
        for identity, title, unit in (
            ("rate", units.symbol(rate), rate),
            ("time", "Time", "s"),
            ("ratio", "Of the baseline’s speed", "%"),
        ):
            series = _series(found, versions, baselines, sizes, shown, unit)
            if not series:
                continue
            figure = _figure(identity, number, title, unit, series, sizes, shown)
            out.append(SweepChart(parts=f"{identity} family{number}", figure=figure))
            ways.setdefault(identity, title)
    note = f"Of {len(every)} problems {len(drawn)} are drawn." if len(drawn) < len(every) else ""
    return SweepSection(
        charts=tuple(out),
        ways=tuple(ways.items()),
        families=tuple(
            (f"family{n}", sizes.name) for n, sizes in enumerate(families) if sizes.name
        ),
        head=("Problem", *versions),
        rows=tuple(
            (problem, *(_cell(found.get((version, problem)), work) for version in versions))
            for problem in drawn
        ),
        note=note,
        warnings=tuple(said[:1].upper() + said[1:] for said in growth.warnings(timings)),
    )


def _ordered(sizes: _Sizes) -> list[str]:
    return sorted(sizes.of, key=lambda name: sizes.of[name])


def _rate_unit(timings: Sequence[Timing], work: str) -> str:
    """Operations a second, or bytes where memory bounds even the largest problem."""
    from workbench.analysis.roofline import rate_unit

    unit = rate_unit(timings)
    return unit if unit == "byte/s" else f"{work}/s"


def _series(
    found: dict[tuple[str, str], Timing],
    versions: list[str],
    baselines: set[str],
    sizes: _Sizes,
    shown: list[str],
    unit: str,
) -> list[Series]:
    series = []
    for place, version in enumerate(versions):
        points = [
            point
            for problem in shown
            if (timing := found.get((version, problem))) is not None
            and (point := _point(timing, sizes.of[problem], unit)) is not None
        ]
        if points:
            reference = version in baselines
            series.append(
                Series(name=version, points=tuple(points), reference=reference, place=place)
            )
    return series


def _figure(
    identity: str,
    number: int,
    title: str,
    unit: str,
    series: list[Series],
    sizes: _Sizes,
    shown: list[str],
) -> charts.Figure:
    values = [point.y for line in series for point in line.points]
    # From zero where lines can be told apart there; over decades only a logarithm shows all.
    apart = max(values) > _DECADES * min(values)
    y = Axis(title=title, unit=unit, from_zero=unit != "s" and not apart)
    label = f"{title} over {sizes.title}, a line for each version"
    name = f"sweep-{identity}{number or ''}"
    return lines(name, label, series, _axis(sizes, shown), y, height=420)


def _axis(sizes: _Sizes, shown: list[str]) -> Axis:
    if sizes.unit == NAMES:
        places = tuple((sizes.of[name], name) for name in shown)
        return Axis(title=sizes.title, unit=NAMES, places=places)
    places = round_places([sizes.of[name] for name in shown], sizes.unit)
    return Axis(title=sizes.title, unit=sizes.unit, places=places)


def _point(timing: Timing, x: float, unit: str) -> Point | None:
    time = timing.time
    head = f"{timing.version}, {timing.problem}"
    if unit == "s":
        hover = f"{head}: {units.quantity(time.value, 's')}"
        below, above = time.value - time.low, time.high - time.value
        return Point(x=x, y=time.value, hover=hover, below=below, above=above)
    if unit != "%":
        work = timing.bytes if unit == "byte/s" else timing.flops
        if not work:
            return None
        rate, low, high = work / time.value, work / time.high, work / time.low
        hover = f"{head}: {units.quantity(rate, unit)}"
        return Point(x=x, y=rate, hover=hover, below=rate - low, above=high - rate)
    if timing.ratio is None:
        return None
    middle, low, high = (100 * v for v in (timing.ratio.value, timing.ratio.low, timing.ratio.high))
    hover = f"{head}: {percent(timing.ratio.value)} of {timing.baseline or 'the baseline'}"
    return Point(x=x, y=middle, hover=hover, below=middle - low, above=high - middle)


def _cell(timing: Timing | None, work: str) -> str:
    if timing is None:
        return units.quantity(None)
    text = units.quantity(timing.time.value, "s")
    if timing.flops:
        text += f" · {units.quantity(timing.flops / timing.time.value, f'{work}/s')}"
    return f"{text} · {percent(timing.ratio.value)}" if timing.ratio else text
