"""View model of a ladder's speed chart: a bar and an interval for each version."""

from __future__ import annotations

from workbench import units
from workbench.analysis import roofline
from workbench.analysis.roofline import Position
from workbench.gpus import chip_for
from workbench.measure.ladder import Ladder, Rung
from workbench.views.html.charts import figure as charts
from workbench.views.html.pages.launch import roof
from workbench.views.html.pages.version import interval
from workbench.views.html.parts.common import main_launch


def speed(
    ladder: Ladder,
) -> tuple[charts.Figure | None, tuple[tuple[str, ...], ...]]:
    """Speed by version, as FLOP/s where the work is known, and the table behind it."""
    flops = max((rung.timing.flops for rung in ladder.order if rung.timing), default=0)
    timed = [rung for rung in ladder.order if rung.timing]
    if not timed:
        return _durations(ladder)
    unit = f"{ladder.study.work}/s" if flops else "s"
    columns, rows = [], []
    for rung in timed:
        assert rung.timing is not None
        time = rung.timing.time
        middle, low, high = time.value, time.low, time.high
        if flops:
            middle, low, high = flops / time.value, flops / time.high, flops / time.low
        mark = charts.Mark(middle, units.quantity(middle, unit), _hover(rung, middle, unit))
        columns.append(
            charts.Column(
                name=rung.id,
                mark=mark,
                below=middle - low,
                above=high - middle,
                reference=rung.is_baseline,
            )
        )
        rows.append(
            (
                rung.id,
                units.quantity(time.value, "s"),
                units.quantity(time.low, "s"),
                units.quantity(time.high, "s"),
                units.count(time.n),
                units.quantity(middle, unit) if flops else units.quantity(None),
            )
        )
    axis = f"{units.symbol(unit)} of the job's work" if flops else "time"
    figure = charts.columns(
        "speed", f"{axis} by version, with 95% intervals", columns, unit, axis, _peak(ladder, flops)
    )
    return figure, tuple(rows)


def _hover(rung: Rung, value_: float, unit: str) -> str:
    assert rung.timing is not None
    parts = [units.quantity(value_, unit)]
    if unit != "s":
        parts.append(units.quantity(rung.timing.time.value, "s"))
    return " · ".join([*parts, interval(rung.timing)])


def _peak(ladder: Ladder, flops: int) -> charts.Mark | None:
    """The highest roof of the units that any version works on."""
    roofs = []
    for rung in ladder.order if flops else ():
        launch = main_launch(rung.profile) if rung.profile else None
        if rung.profile is None or launch is None:
            continue
        place = roofline.position(launch)
        if isinstance(place, Position):
            roofs.append(roof(chip_for(rung.profile.device), launch, place.unit))
    top = max(roofs, key=lambda item: item.flops, default=None)
    return charts.Mark(top.flops, top.flops_text) if top and top.flops else None


def _durations(ladder: Ladder) -> tuple[charts.Figure | None, tuple[tuple[str, ...], ...]]:
    known = [(rung, time) for rung in ladder.order if (time := rung.seconds) is not None]
    if not known:
        return None, ()
    columns = [
        charts.Column(
            name=rung.id,
            mark=charts.Mark(time, units.quantity(time, "s")),
            reference=rung.is_baseline,
        )
        for rung, time in known
    ]
    figure = charts.columns(
        "speed", "Duration under the profiler by version", columns, "s", "duration", None
    )
    none = units.quantity(None)
    rows = tuple((r.id, units.quantity(t, "s"), none, none, none, none) for r, t in known)
    return figure, rows
