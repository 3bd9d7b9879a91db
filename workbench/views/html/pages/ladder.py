"""View model of a ladder page: every version of a study on one device and problem."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from workbench import units
from workbench.analysis.aggregate import main_launch
from workbench.analysis.cause.strip import limit_stop
from workbench.analysis.limit import limit_of
from workbench.ladder import Ladder, Rung
from workbench.model import Record
from workbench.views.html.addresses import rung_page, step_page
from workbench.views.html.charts.figure import Plot
from workbench.views.html.charts.migration import StallSplit, roof_path, stack_stalls
from workbench.views.html.charts.speed import speed
from workbench.views.html.pages.sweep import SweepSection, sweep
from workbench.views.html.pages.version import interval
from workbench.views.html.parts.common import (
    Badge,
    Head,
    Link,
    Phrase,
    Tone,
    day,
    parameters,
    percent,
    range_of,
    strip_links,
    width,
)
from workbench.views.html.parts.keys import CounterTable, key_counters, peaks

#: Ends a clause.
_END = re.compile(r"[.;:](?:\s|$)")


class Speedup(Record, frozen=True):
    """A ratio of two times with bounds; `tone` only where the bounds exclude 1."""

    text: str
    bounds: str = ""
    tone: Tone = ""


class RungView(Record, frozen=True):
    """A row of the ladder."""

    id: str
    href: str
    title: str
    change: str
    baseline: bool
    time: str
    interval: str
    step: Speedup | None
    share: str
    width: str
    par: str  # where in the bar the baseline's speed is, if not at its end
    marks: tuple[Badge, ...]
    diff: str = ""
    branch: bool = False  # tried, and not what the last version was made from
    parent: str = ""  # where that is not the version above


class LadderRow(Record, frozen=True):
    """A version with the causal strip of its step; of the first one, what limits it."""

    rung: RungView
    strip: tuple[Phrase, ...]


class LadderView(Record, frozen=True):
    """The whole page. Tables stand behind the charts of the same name."""

    head: Head
    rows: tuple[LadderRow, ...]
    compared: bool
    timed: bool  # some version has a time that was taken without the profiler
    pairs: tuple[Link, ...]
    sweep: SweepSection | None
    speed: Plot | None
    stalls: StallSplit | None
    roof: Plot | None
    peaks: CounterTable | None
    counters: CounterTable | None
    captured: str


def _speedup(old: Rung, new: Rung) -> Speedup | None:
    """How much faster `new` is than `old`; durations under the profiler have no bounds."""
    found = new.speedup_over(old)
    if found is None:
        return None
    text = units.factor(found.value)
    if not new.timing:
        return Speedup(text=text)
    tone: Tone = "good" if found.low > 1 else "bad" if found.high < 1 else ""
    return Speedup(text=text, bounds=range_of(found.low, found.value, found.high), tone=tone)


def _marks(rung: Rung) -> tuple[Badge, ...]:
    marks = []
    if rung.is_stale:
        marks.append(Badge(text="stale", tone="warn"))
    if set(rung.entries) == {"emulator"}:
        marks.append(Badge(text="emulated"))
    if not rung.entries:
        marks.append(Badge(text="not profiled"))
    return tuple(marks)


def _row(
    ladder: Ladder,
    rung: Rung,
    top: float,
    strips: Mapping[tuple[str, str, str], tuple[Phrase, ...]],
) -> LadderRow:
    parent = ladder.parent(rung)
    found = next((s for s in ladder.steps if parent and s[:2] == (parent.id, rung.id)), None)
    if found is None:
        limit = limit_of(rung.profile) if rung.profile else None
        stops = (limit_stop(limit),) if limit is not None else ()
        return LadderRow(
            rung=_rung(rung, parent, "", top), strip=strip_links(stops, rung_page(rung))
        )
    strip = strips.get(found)
    if strip is None:
        strip = strip_links(ladder.step(*found).story.strip, step_page(*found))
    return LadderRow(rung=_rung(rung, parent, step_page(*found), top), strip=strip)


def _rung(rung: Rung, parent: Rung | None, diff: str, top: float) -> RungView:
    share = 1.0 if rung is rung.ladder.baseline and rung.seconds else rung.of_baseline
    order = rung.ladder.order
    above = order[order.index(rung) - 1] if rung is not order[0] else None
    return RungView(
        id=rung.id,
        href=rung_page(rung),
        title=rung.title,
        change=_clause(rung.declared.change) if rung.declared else "",
        baseline=rung.is_baseline,
        time=units.quantity(rung.seconds, "s"),
        interval=interval(rung.timing)
        if rung.timing
        else "under the profiler"
        if rung.seconds
        else "",
        step=_speedup(parent, rung) if parent else None,
        share=percent(share) if share is not None else "",
        width=width(share / top) if share is not None else "0",
        par=width(1 / top) if top > 1.0 else "",
        marks=_marks(rung),
        diff=diff,
        branch=not rung.is_baseline and rung.id not in rung.ladder.trunk,
        parent=parent.id if parent is not None and parent is not above else "",
    )


def _clause(text: str) -> str:
    """The first clause of what an author says; the version's page has all of it."""
    return _END.split(text, maxsplit=1)[0].rstrip(".")


def ladder_view(
    ladder: Ladder,
    pairs: Sequence[tuple[str, str, str]] = (),
    strips: Mapping[tuple[str, str, str], tuple[Phrase, ...]] = {},
) -> LadderView:
    """The page of one ladder.

    Args:
        ladder: The ladder.
        pairs: Comparisons that were asked for besides its steps.
        strips: Of steps that were told before, so that they need not be told again.
    """
    profiles = [(rung.id, rung.profile) for rung in ladder.order if rung.profile]
    launches = [
        (rung, launch)
        for rung in ladder.order
        if rung.profile and (launch := main_launch(rung.profile)) is not None
    ]
    linked = [(Link(rung.id, rung_page(rung)), launch) for rung, launch in launches]
    top = ladder.top
    rows = tuple(_row(ladder, rung, top, strips) for rung in ladder.order)
    notices = (
        [f"The study could not be read: {ladder.study.problem}"] if ladder.study.problem else []
    )
    if not ladder.study.versions and not ladder.study.problem:
        notices.append("The study itself is not here; this page stands on what was recorded.")
    chips = [Badge(text=ladder.device_name)]
    chips.append(Badge(text=parameters(ladder.parameters) or ladder.problem))
    chips.append(Badge(text=f"captured {_dates(ladder)}"))
    if ladder.baseline:
        chips.append(Badge(text=f"baseline {ladder.baseline.id}"))
    return LadderView(
        head=Head(
            heading=ladder.study.title,
            crumbs=(Link("Overview", "index.html"), Link(f"{ladder.name} · {ladder.problem}")),
            chips=tuple(chips),
            notices=tuple(notices),
        ),
        rows=rows,
        compared=any(row.rung.share for row in rows),
        timed=any(rung.timing for rung in ladder.order),
        pairs=tuple(Link(f"{old} → {new}", step_page(old, new, e)) for old, new, e in pairs),
        sweep=sweep(
            ladder.family.timings,
            [rung.id for rung in ladder.order],
            {rung.id for rung in ladder.order if rung.is_baseline},
            ladder.study.work,
        ),
        speed=speed(ladder),
        stalls=stack_stalls("stalls", profiles),
        roof=roof_path(
            "roofline",
            [(rung.id, launch) for rung, launch in launches],
            profiles[0][1],
            apart=frozenset(rung.id for rung in ladder.order if rung.is_baseline),
        )
        if profiles
        else None,
        peaks=peaks(linked),
        counters=key_counters(linked),
        captured=_dates(ladder),
    )


def _dates(ladder: Ladder) -> str:
    days = sorted(
        {day(record.captured) for rung in ladder.order if (record := rung.profile or rung.timing)}
    )
    return days[0] if len(set(days)) == 1 else f"{days[0]} to {days[-1]}"
