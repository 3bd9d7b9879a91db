"""View model of a captured program: its kernels by the time that they take on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from workbench import units
from workbench.analysis.aggregate import main_launch
from workbench.analysis.launches.titles import shortened
from workbench.analysis.program.difference import total
from workbench.analysis.program.steps import launches_of
from workbench.capture.records import ProgramCapture
from workbench.model import Profile, Record
from workbench.views.html.pages.report import ReportView, report_view
from workbench.views.html.parts.common import (
    Badge,
    Head,
    Link,
    Tile,
    day,
    percent,
    profiled,
    width,
)
from workbench.views.html.parts.headroom import PanelView
from workbench.views.sheets.program import (
    ROWS,
    program_sheet,
    time_words,
)


class WorkRow(Record, frozen=True):
    """A kernel of a program; `width` is its share of the time as a bar, `closer` its launches."""

    name: str
    href: str
    symbol: str
    width: str
    cells: tuple[str, ...]
    closer: tuple[Link, ...]


class ProgramView(Record, frozen=True):
    """One capture. `rest` are the kernels that take least; `looked` what was profiled."""

    head: Head
    lede: str
    tiles: tuple[Tile, ...]
    panel: PanelView | None
    panel_title: str
    columns: tuple[str, ...]
    rows: tuple[WorkRow, ...]
    rest: tuple[WorkRow, ...]
    rest_share: str
    runs: tuple[tuple[str, ...], ...]
    looked: ReportView | None


def program_chips(captures: Sequence[ProgramCapture]) -> tuple[Badge, ...]:
    """Device, date, commit and way of one capture, or of two, once where they agree."""

    def one(texts: Sequence[str]) -> str:
        return " → ".join(dict.fromkeys(filter(None, texts)))

    states = [
        f"commit {capture.state.commit[:12]}{'' if capture.state.clean else ' and changes'}"
        if capture.state.commit
        else ""
        for capture in captures
    ]
    ways = {"trace": "every launch traced", "ncu": "one metric of every launch, by ncu"}
    texts = (
        one([capture.device.name if capture.device else "" for capture in captures]),
        f"captured {one([day(capture.captured) for capture in captures])}",
        one(states),
        one([ways[capture.survey.way] for capture in captures]),
    )
    return tuple(Badge(text=text) for text in texts if text)


def on_page(panel: PanelView | None, page: str) -> PanelView | None:
    """A page's panel for another page: its addresses lead there."""
    if panel is None:
        return None

    def there(href: str) -> str:
        return f"{page}{href}" if href.startswith("#") else href

    def moved(ways: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(replace(way, href=there(way.href)) for way in ways)

    hot = replace(panel.hot, href=there(panel.hot.href)) if panel.hot else None
    return replace(panel, hot=hot, ways=moved(panel.ways), more=moved(panel.more))


def program_view(
    capture: ProgramCapture,
    detail: Profile | None,
    page: Callable[[int], str],
    panel: tuple[str, PanelView | None],
) -> ProgramView:
    """The page of a capture.

    Args:
        capture: The record.
        detail: What was profiled of it.
        page: A launch's file name.
        panel: The kernel that takes most of the time of those profiled, and its page's panel.
    """
    survey = capture.survey
    sheet = program_sheet(capture, everything=True)
    launches = _launches(capture, detail, page)
    rows = tuple(
        WorkRow(
            name=raw["kernel"],  # whole: names of libraries differ at their end
            href=launches[place][0].href if launches.get(place) else "",
            symbol=raw["symbol"],
            width=width(raw["share"]),
            cells=shown[1:-1],
            closer=launches.get(place, ()),
        )
        for place, (shown, raw) in enumerate(zip(sheet.shown, sheet.raw, strict=True))
    )
    run = survey.runs[0]
    processes = f"{units.several(run.processes, 'process', 'processes')}, " * (run.processes > 1)
    of_all = f"mean of {units.several(survey.gpus, 'GPU')}, " * (survey.gpus > 1)
    tiles = (
        Tile("Time on the GPU", units.quantity(total(survey).value, "s"), _runs_note(capture)),
        Tile("Launches", units.count(survey.launches), units.several(len(rows), "kernel")),
        Tile(
            "GPU busy",
            percent(run.busy_ns / (run.span_ns * max(survey.gpus, 1))) if run.span_ns else "—",
            f"{of_all}of {units.quantity(1e-9 * run.span_ns, 's')} from the first launch to the "
            f"last; {processes}{units.quantity(run.wall_s, 's')} in all",
        ),
    )
    notices = [notice.message for notice in capture.notices]
    looked = None
    if detail is not None and profiled(detail):
        looked = report_view(_longest(capture, detail), f"@{capture.name}", page)
        notices += [text for text in looked.head.notices if text not in notices]
    return ProgramView(
        head=Head(
            heading=" ".join(capture.command),
            name=f"@{capture.name}",
            crumbs=(Link("Overview", "index.html"), Link(f"@{capture.name}")),
            chips=program_chips((capture,)),
            notices=tuple(notices),
        ),
        lede=_said(capture, rows),
        tiles=tiles,
        panel=panel[1],
        panel_title=f"{panel[0]} is limited by",
        columns=sheet.header[:-1],
        rows=rows[:ROWS],
        rest=rows[ROWS:],
        rest_share=percent(sum(raw["share"] for raw in sheet.raw[ROWS:])),
        runs=_runs(capture),
        looked=looked,
    )


def _longest(capture: ProgramCapture, detail: Profile) -> Profile:
    """What was profiled, a launch of each kernel: the one that weighs most."""
    sides = (launches_of(capture, detail, (place,)) for place in dict.fromkeys(capture.detail))
    found = [main_launch(own) for own in sides if own is not None]
    return replace(detail, launches=tuple(launch for launch in found if launch is not None))


def _said(capture: ProgramCapture, rows: Sequence[WorkRow]) -> str:
    """Who takes the time, in a sentence."""
    most = [f"{shortened(row.name)} {row.cells[1]}" for row in rows[:3]]
    return f"{time_words(total(capture.survey))} on the GPU: {units.listed(most)} of it."


def _runs_note(capture: ProgramCapture) -> str:
    whole = total(capture.survey)
    if whole.n < 2:
        return "one run, which has no interval"
    low, high = (units.quantity(value, "s") for value in (whole.low, whole.high))
    return f"{low} to {high} (95%, {whole.n} runs)"


def _runs(capture: ProgramCapture) -> tuple[tuple[str, ...], ...]:
    """Each run, where there were several."""
    survey = capture.survey
    if len(survey.runs) < 2:
        return ()
    return tuple(
        (
            units.count(number),
            units.quantity(1e-9 * nanoseconds, "s"),
            units.quantity(1e-9 * run.busy_ns, "s"),
            units.quantity(1e-9 * run.span_ns, "s"),
            units.quantity(run.wall_s, "s"),
        )
        for number, (run, nanoseconds) in enumerate(
            zip(survey.runs, survey.totals_ns, strict=True), 1
        )
    )


def _launches(
    capture: ProgramCapture, detail: Profile | None, page: Callable[[int], str]
) -> dict[int, tuple[Link, ...]]:
    """The pages of the launches that were profiled, by the place of their kernel."""
    found: dict[int, tuple[Link, ...]] = {}
    for launch, place in zip(detail.launches if detail else (), capture.detail, strict=True):
        if launch.profiled:
            link = Link(f"#{launch.index}", page(launch.index))
            found[place] = (*found.get(place, ()), link)
    return found
