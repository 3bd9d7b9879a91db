"""A ladder's page: every version of a study on one device and problem, and their times on all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from workbench import units
from workbench.analysis.aggregate import main_launch
from workbench.analysis.limits.limit import limit_of
from workbench.analysis.limits.roofline import Position, Roof, position, rate_unit, roofs
from workbench.analysis.sentence import limit_stop
from workbench.gpus import chip_for
from workbench.ladder import Ladder, Rung
from workbench.language import N_, _
from workbench.model import Estimate, Record, Timing
from workbench.store import natural_key
from workbench.views.html.charts import figure as charts
from workbench.views.html.charts import roof as charts_roof
from workbench.views.html.charts.figure import IntervalBar, Mark, Plot
from workbench.views.html.charts.lines import NAMES, Axis, Point, Series, lines, round_places
from workbench.views.html.charts.several import (
    KEY_COUNTERS,
    PEAKS,
    counter_table,
    roof_path,
    stack_stalls,
)
from workbench.views.html.page import Badge, Head, Link, View, ladder_crumbs, rung_page, step_page
from workbench.views.html.parts import Phrase, day, interval, parameters, percent, strip_links

#: The number of problems that one chart shows; of more problems, this many spread over the sizes.
_PROBLEMS = 32
#: The most families of problems with their own charts; beyond that, the axis is the work.
_FAMILIES = 4
#: With more versions than this, those that are never the fastest are grey lines.
_COLOURED = 6
#: The most problems that an axis can name.
_NAMED = 12
#: A rate's axis is logarithmic from this factor between the slowest and the fastest on.
_DECADES = 20.0


class HeatCell(Record, frozen=True):
    """A version on a problem: its number, and its speed in percent of the fastest one's."""

    text: str
    share: int


class _Sizes(Record, frozen=True):
    """Problems on one axis: problem -> place, and the places' labels.

    `name` distinguishes a family of problems from the sweep's others, such as ``stride = 2``.
    """

    title: str
    unit: str
    of: dict[str, float]
    name: str = ""


def _axes(shapes: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Axes of the problems: title -> problem -> value; parameters that vary together share one."""
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
    """The axes to draw: one size, a size for each of a few families, or the problems by work."""
    problems = {timing.problem: timing for timing in timings}
    axes = _axes({name: timing.parameters for name, timing in problems.items()})
    found = _by_size(axes)
    if found:
        return found
    work = {name: float(timing.flops) for name, timing in problems.items()}
    if len(work) > _NAMED and min(work.values()) > 0 and len(set(work.values())) == len(work):
        return [_Sizes(title=_("work of the problem"), unit=kind, of=work)]
    order = sorted(problems, key=lambda name: (work[name], natural_key(name)))
    of = {name: place + 1.0 for place, name in enumerate(order)}
    return [_Sizes(title=_("problems by their work"), unit=NAMES, of=of)]


def _by_size(axes: dict[str, dict[str, int]]) -> list[_Sizes]:
    """Problems by one size, in a family for each value of at most one other size; [] if impossible.

    Sizes that follow from the two (an output's size from an input's and a stride) need no axis. The
    choice with the fewest families wins, then the parameter that is named first, as those that
    follow from others are named last.
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
) -> View | None:
    """The sweep: charts with their tables, and the choices among them.

    None if fewer than two problems were timed. The times are all records of a study on one device;
    `baselines` are libraries to beat, and work is counted in ``flop`` or ``op``.
    """
    if len({timing.problem for timing in timings}) < 2:
        return None
    found = {(timing.version, timing.problem): timing for timing in timings}
    families = _families(timings, work)
    every = [name for sizes in families for name in _ordered(sizes)]
    versions = [v for v in order if any((v, problem) in found for problem in every)]
    versions += sorted({timing.version for timing in timings} - set(order), key=natural_key)
    out: list[View] = []
    ways: dict[str, str] = {}
    drawn: list[str] = []
    # Bytes per second if memory bounds even the largest problem.
    rate = "byte/s" if rate_unit(timings) == "byte/s" else f"{work}/s"
    beside = {timing.baseline for timing in timings if timing.ratio} & baselines
    base = beside.pop() if len(beside) == 1 else ""
    for number, sizes in enumerate(families):
        shown = _spread(_ordered(sizes))
        drawn += shown
        for identity, title, unit in (
            ("rate", units.symbol(rate), rate),
            ("time", _("Time"), "s"),
            ("ratio", _("Of {library}’s speed").format(library=base or _("the baseline")), "%"),
        ):
            series = _series(found, versions, baselines, sizes, shown, unit)
            if not series:
                continue
            out.append(
                View(
                    parts=f"{identity} family{number}",  # the choices that show it
                    figure=_figure(identity, number, title, unit, series, sizes, shown),
                    problems=shown,
                    rows=list(_heat(found, versions, shown, unit)),
                )
            )
            ways.setdefault(identity, f"× {base}" if identity == "ratio" and base else title)
    note = _("Of {all} problems, {n} are drawn.").format(all=len(every), n=len(drawn))
    return View(
        charts=out,
        ways=list(ways.items()),
        families=[(f"family{n}", sizes.name) for n, sizes in enumerate(families) if sizes.name],
        note=note if len(drawn) < len(every) else "",
    )


def _ordered(sizes: _Sizes) -> list[str]:
    return sorted(sizes.of, key=lambda name: sizes.of[name])


def _series(
    found: dict[tuple[str, str], Timing],
    versions: list[str],
    baselines: set[str],
    sizes: _Sizes,
    shown: list[str],
    unit: str,
) -> list[Series]:
    series = []
    best = _fastest(found, [version for version in versions if version not in baselines])
    lead = {
        v for (v, p), timing in found.items() if p in shown and timing.time.value == best.get(p)
    }
    many = len(versions) > _COLOURED
    for place, version in enumerate(versions):
        points = [
            point
            for problem in shown
            if (timing := found.get((version, problem))) is not None
            and (point := _point(timing, sizes.of[problem], unit)) is not None
        ]
        if points:
            reference = version in baselines
            quiet = many and not reference and version not in lead
            series.append(Series(version, tuple(points), reference, place, quiet))
    # Coloured lines are drawn above grey ones.
    return sorted(series, key=lambda line: not line.quiet)


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
    # Start at zero if lines stay distinct; over decades, only a logarithmic axis shows all.
    apart = max(values) > _DECADES * min(values)
    y = Axis(title=title, unit=unit, from_zero=unit != "s" and not apart)
    label = _("{what} over {sizes}, a line for each version").format(what=title, sizes=sizes.title)
    name = f"sweep-{identity}{number or ''}"
    return lines(name, label, series, _axis(sizes, shown), y, height=420)


def _axis(sizes: _Sizes, shown: list[str]) -> Axis:
    if sizes.unit == NAMES:
        places = tuple((sizes.of[name], name) for name in shown)
        return Axis(title=sizes.title, unit=NAMES, places=places)
    places = round_places([sizes.of[name] for name in shown], sizes.unit)
    return Axis(title=sizes.title, unit=sizes.unit, places=places)


def _point(timing: Timing, x: float, unit: str) -> Point | None:
    time, ratio = timing.time, timing.ratio
    work = timing.bytes if unit == "byte/s" else timing.flops
    if unit == "s":
        middle, low, high = time.value, time.low, time.high
        said = units.quantity(middle, unit)
    elif unit != "%" and work:
        middle, low, high = work / time.value, work / time.high, work / time.low
        said = units.quantity(middle, unit)
    elif unit == "%" and ratio is not None:
        middle, low, high = (100 * v for v in (ratio.value, ratio.low, ratio.high))
        library = timing.baseline or _("the baseline")
        said = _("{share} of {library}").format(share=percent(ratio.value), library=library)
    else:
        return None
    hover = f"{timing.version}, {timing.problem}: {said}"
    return Point(x=x, y=middle, hover=hover, below=middle - low, above=high - middle)


def _fastest(found: Mapping[tuple[str, str], Timing], versions: Sequence[str]) -> dict[str, float]:
    """Problem -> the shortest time among the versions."""
    out: dict[str, float] = {}
    for (version, problem), timing in found.items():
        if version in versions:
            out[problem] = min(out.get(problem, math.inf), timing.time.value)
    return out


def _heat(
    found: Mapping[tuple[str, str], Timing],
    versions: Sequence[str],
    shown: Sequence[str],
    unit: str,
) -> Iterator[tuple[str, tuple[HeatCell | None, ...]]]:
    best = _fastest(found, versions)
    for version in versions:
        cells: list[HeatCell | None] = []
        for problem in shown:
            timing = found.get((version, problem))
            point = _point(timing, 0.0, unit) if timing else None
            if timing is None or point is None:
                cells.append(None)
                continue
            text = units.factor(point.y / 100) if unit == "%" else units.quantity(point.y, unit)
            cells.append(HeatCell(text, int(100 * best[problem] / timing.time.value)))
        if any(cells):
            yield version, tuple(cells)


_HEAD = (N_("Version"), N_("Time"), N_("from"), N_("to"), N_("Repetitions"), N_("Throughput"))


def speed(ladder: Ladder) -> Plot | None:
    """Speed by version, as FLOP/s if the work is known, and its table."""
    timed = [(rung, rung.timing) for rung in ladder.order if rung.timing]
    if not timed:
        return _durations(ladder)
    flops = max(timing.flops for __, timing in timed)
    unit = f"{ladder.study.work}/s" if flops else "s"
    bars, rows = [], []
    for rung, timing in timed:
        time = timing.time
        shown = time
        if flops:
            shown = Estimate(flops / time.value, flops / time.high, flops / time.low)
        said = units.quantity(shown.value, unit)
        also = [units.quantity(time.value, "s")] if flops else []
        bars.append(
            IntervalBar(
                name=rung.id,
                mark=Mark(shown.value, said, " · ".join([said, *also, interval(timing)])),
                below=shown.value - shown.low,
                above=shown.high - shown.value,
                reference=rung.is_baseline,
            )
        )
        seconds = (units.quantity(each, "s") for each in (time.value, time.low, time.high))
        rate = units.quantity(shown.value if flops else None, unit)
        rows.append((rung.id, *seconds, units.count(time.n), rate))
    axis = _("{rate} of the job's work").format(rate=units.symbol(unit)) if flops else _("time")
    label = _("{what} by version, with 95% intervals").format(what=axis)
    figure = charts.intervals("speed", label, bars, unit, axis, _peak(ladder) if flops else None)
    return Plot(figure=figure, head=tuple(map(_, _HEAD)), rows=tuple(rows))


def _peak(ladder: Ladder) -> Mark | None:
    """The highest roof among the units that the versions use."""
    found: list[Roof] = []
    for rung in ladder.order:
        launch = main_launch(rung.profile) if rung.profile else None
        if rung.profile and launch and isinstance(place := position(launch), Position):
            found += roofs([(launch, place)], chip_for(rung.profile.device))
    top = max(found, key=lambda roof: roof.flops, default=None)
    return Mark(top.flops, charts_roof.peak_text(top)) if top and top.flops else None


def _durations(ladder: Ladder) -> Plot | None:
    known = [(rung, time) for rung in ladder.order if (time := rung.seconds) is not None]
    if not known:
        return None
    bars = [
        IntervalBar(
            name=rung.id, mark=Mark(time, units.quantity(time, "s")), reference=rung.is_baseline
        )
        for rung, time in known
    ]
    label = _("Duration under the profiler by version")
    figure = charts.intervals("speed", label, bars, "s", _("duration"), None)
    none = [units.quantity(None)] * 4
    rows = tuple((rung.id, units.quantity(time, "s"), *none) for rung, time in known)
    return Plot(figure=figure, head=tuple(map(_, _HEAD)), rows=rows)


def _row(
    above: Rung | None,
    rung: Rung,
    tried: Sequence[Rung],
    strips: Mapping[tuple[str, str, str], tuple[Phrase, ...]],
) -> View:
    """A version with the causal strip of its step; the first one with its limit.

    `above` is the version above it on the path, `tried` the other versions made from it.
    """
    ladder = rung.ladder
    parent = ladder.parent(rung)
    found = next((s for s in ladder.steps if parent and s[:2] == (parent.id, rung.id)), None)
    if found is None:
        limit = limit_of(rung.profile) if rung.profile else None
        strip = strip_links((limit_stop(limit),) if limit is not None else (), rung_page(rung))
    elif found in strips:
        strip = strips[found]
    else:
        strip = strip_links(ladder.step(*found).story.strip, step_page(*found))
    return View(
        rung=rung,
        strip=strip,
        diff=step_page(*found) if found else "",
        parent=parent.id if parent is not None and parent is not above else "",
        speedup=rung.speedup_over(parent) if parent else None,
        share=1.0 if rung is ladder.baseline and rung.seconds else rung.of_baseline,
        tried=[_row(rung, each, (), strips) for each in tried],
    )


def ladder_view(
    ladder: Ladder,
    pairs: Sequence[Link] = (),
    strips: Mapping[tuple[str, str, str], tuple[Phrase, ...]] = {},
    tuned: tuple[Link, ...] = (),
    notices: Sequence[str] = (),
) -> View:
    """The page of one ladder.

    `pairs` are comparisons requested in addition to its steps, `strips` those of steps rendered
    before, `tuned` links to the pages of tuned versions.
    """
    profiles = [(rung.id, rung.profile) for rung in ladder.order if rung.profile]
    launches = [
        (rung, launch)
        for rung in ladder.order
        if rung.profile and (launch := main_launch(rung.profile)) is not None
    ]
    linked = [(Link(rung.id, rung_page(rung)), launch) for rung, launch in launches]
    if not ladder.study.versions and not ladder.study.problem:
        here = _("The study itself is not here; this page shows what was recorded.")
        notices = (here, *notices)
    chips = [Badge(text=ladder.device_name)]
    chips.append(Badge(text=parameters(ladder.parameters) or ladder.problem))
    chips.append(Badge(text=_("captured {date}").format(date=dates(ladder))))
    if ladder.baseline:
        chips.append(Badge(text=_("baseline {library}").format(library=ladder.baseline.id)))
    return View(
        head=Head(
            heading=ladder.study.title,
            crumbs=ladder_crumbs(ladder),
            pages=tuned,
            chips=tuple(chips),
            notices=tuple(notices),
        ),
        rows=[
            _row(above, rung, tried, strips)
            for above, (rung, tried) in zip(
                [None, *(rung for rung, __ in ladder.path)], ladder.path, strict=False
            )
        ],
        ladder=ladder,
        pairs=pairs,
        sweep=sweep(
            ladder.family.timings,
            [rung.id for rung in ladder.order],
            {rung.id for rung in ladder.order if rung.is_baseline},
            ladder.study.work,
        ),
        speed=speed(ladder),
        stalls=stack_stalls(profiles),
        roof=roof_path(
            "roofline",
            [(rung.id, launch) for rung, launch in launches],
            profiles[0][1],
            apart=frozenset(rung.id for rung in ladder.order if rung.is_baseline),
        )
        if profiles
        else None,
        peaks=counter_table(linked, PEAKS),
        counters=counter_table(linked, KEY_COUNTERS),
    )


def dates(ladder: Ladder) -> str:
    """The first and the last day on which it was captured."""
    days = sorted(
        {day(record.captured) for rung in ladder.order if (record := rung.profile or rung.timing)}
    )
    return units.span(days[0], days[-1])
