"""View model of a ladder's speed chart: a bar and an interval for each version."""

from __future__ import annotations

from workbench import units
from workbench.analysis.aggregate import main_launch
from workbench.analysis.roofline import Position, Roof, position, roofs
from workbench.gpus import chip_for
from workbench.ladder import Ladder
from workbench.model import Estimate, Timing
from workbench.views.html.charts import figure as charts
from workbench.views.html.charts import roof as charts_roof
from workbench.views.html.charts.figure import IntervalBar, Mark, Plot
from workbench.views.html.pages.version import interval

_HEAD = ("Version", "Time", "from", "to", "Repetitions", "Throughput")


def speed(ladder: Ladder) -> Plot | None:
    """Speed by version, as FLOP/s where the work is known, and the table behind it."""
    timed = [(rung, rung.timing) for rung in ladder.order if rung.timing]
    if not timed:
        return _durations(ladder)
    flops = max(timing.flops for _, timing in timed)
    unit = f"{ladder.study.work}/s" if flops else "s"
    bars, rows = [], []
    for rung, timing in timed:
        time = timing.time
        shown = time
        if flops:
            shown = Estimate(flops / time.value, flops / time.high, flops / time.low)
        said = units.quantity(shown.value, unit)
        bars.append(
            IntervalBar(
                name=rung.id,
                mark=Mark(shown.value, said, _hover(timing, said, unit)),
                below=shown.value - shown.low,
                above=shown.high - shown.value,
                reference=rung.is_baseline,
            )
        )
        seconds = (units.quantity(each, "s") for each in (time.value, time.low, time.high))
        rate = units.quantity(shown.value if flops else None, unit)
        rows.append((rung.id, *seconds, units.count(time.n), rate))
    axis = f"{units.symbol(unit)} of the job's work" if flops else "time"
    label = f"{axis} by version, with 95% intervals"
    figure = charts.intervals("speed", label, bars, unit, axis, _peak(ladder) if flops else None)
    return Plot(figure=figure, head=_HEAD, rows=tuple(rows))


def _hover(timing: Timing, said: str, unit: str) -> str:
    seconds = [units.quantity(timing.time.value, "s")] if unit != "s" else []
    return " · ".join([said, *seconds, interval(timing)])


def _peak(ladder: Ladder) -> Mark | None:
    """The highest roof of the units that any version works on."""
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
            name=rung.id,
            mark=Mark(time, units.quantity(time, "s")),
            reference=rung.is_baseline,
        )
        for rung, time in known
    ]
    label = "Duration under the profiler by version"
    figure = charts.intervals("speed", label, bars, "s", "duration", None)
    none = [units.quantity(None)] * 4
    rows = tuple((rung.id, units.quantity(time, "s"), *none) for rung, time in known)
    return Plot(figure=figure, head=_HEAD, rows=rows)
