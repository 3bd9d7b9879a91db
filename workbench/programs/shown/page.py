"""The pages of a captured program and of two: the fate of every kernel, in rows that add up.

The table is that of `sheets`; a kernel's own page explains its change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from workbench import units
from workbench.analysis.aggregate import main_launch
from workbench.analysis.naming import shortened
from workbench.language import _, ngettext
from workbench.model import Estimate, Profile
from workbench.programs.capture.records import Counted, ProgramCapture, Survey
from workbench.programs.compared.counterparts import launches_of
from workbench.programs.compared.program import ProgramDifference, WorkChange, total
from workbench.programs.compared.steps import KernelStep, weighs
from workbench.programs.compared.words import program_words, step_words, survey_words, time_words
from workbench.programs.shown.sheets import ROWS, difference_sheet, fold, program_sheet, row_names
from workbench.views.html.page import Badge, Head, Link, Tone, View, launch_page
from workbench.views.html.pages.index import ProgramSummary
from workbench.views.html.pages.version import report_view
from workbench.views.html.parts import (
    PanelView,
    Tile,
    day,
    once,
    percent,
    profiled,
    stacked,
    strip_links,
    tied,
)

# --- one program ----------------------------------------------------------------------


def program_chips(captures: Sequence[ProgramCapture]) -> tuple[Badge, ...]:
    """Device, date, commit and kind of survey of one capture, or of two, once if they agree."""
    states = [
        (_("commit {id}") if capture.state.clean else _("commit {id} and changes")).format(
            id=capture.state.commit[:12]
        )
        if capture.state.commit
        else ""
        for capture in captures
    ]
    ways = {
        "trace": _("every launch traced"),
        "ncu": _("one metric of every launch, by ncu"),
        "emulator": _("counted by the emulator, without times"),
    }
    texts = (
        once([capture.device.name if capture.device else "" for capture in captures]),
        _("captured {date}").format(date=once([day(each.captured) for each in captures])),
        once(states),
        once([ways[capture.survey.way] for capture in captures]),
    )
    return tuple(Badge(text=text) for text in texts if text)


def program_view(
    capture: ProgramCapture,
    detail: Profile | None,
    panel: tuple[str, PanelView | None],
) -> View:
    """The page of a capture; its panel shows the longest profiled kernel."""
    survey = capture.survey
    timed, weight = survey.timed, sum(survey.totals) or 1
    sheet = program_sheet(capture, detail, everything=True)
    columns = len(sheet.header) - timed  # launches have links instead
    said = survey_words(survey)
    launches = _launches(capture, detail)
    rows = [
        View(
            name=shown[0],
            symbol=raw["symbol"],
            share=sum(work.weights) / weight,
            cells=shown[1:columns],
            closer=launches.get(place, ()),
        )
        for place, (work, shown, raw) in enumerate(
            zip(survey.works, sheet.shown, sheet.raw, strict=True)
        )
    ]
    if timed:
        said = (_said(capture, rows), *said[1:])
    launched = Tile(
        _("Launches"),
        units.count(survey.launches),
        ngettext("{n} kernel", "{n} kernels", len(rows)).format(n=units.count(len(rows))),
    )
    notices = [notice.message for notice in capture.notices]
    looked = None
    if detail is not None and profiled(detail):
        looked = report_view(_longest(capture, detail), f"@{capture.name}")
        notices += [text for text in looked.head.notices if text not in notices]
    return View(
        head=Head(
            heading=" ".join(capture.command),
            name=f"@{capture.name}",
            crumbs=(Link(_("Overview"), "index.html"), Link(f"@{capture.name}")),
            chips=program_chips((capture,)),
            notices=tuple(notices),
        ),
        # Tiles show the time and how much of it the GPU was busy.
        lede=tied(said[0]),
        more=tuple(map(tied, said[1:])),
        spent=stacked([""], [(row.name, (row.share,)) for row in rows]),
        timed=timed,
        tiles=(_time_tile(total(survey)), launched, _busy_tile(survey))
        if timed
        else (launched, *_count_tiles(survey.counted())),
        panel=panel[1],
        panel_title=_("{kernel} is limited by").format(kernel=panel[0]),
        columns=sheet.header[:columns],
        rows=rows[:ROWS],
        rest=rows[ROWS:],  # the shortest
        rest_share=percent(sum(row.share for row in rows[ROWS:])),
        runs=_runs(capture),
        looked=looked,  # the profiled launches
    )


def _time_tile(whole: Estimate) -> Tile:
    note, of = _("one run, which has no interval"), (whole.value, whole.low, whole.high)
    time, low, high = (units.quantity(value, "s") for value in of)
    if whole.n > 1:
        note = _("{range} (95%, {n} runs)").format(range=units.span(low, high), n=whole.n)
    return Tile(_("Time on the GPU"), time, note)


def _busy_tile(survey: Survey) -> Tile:
    run = survey.runs[0]
    processes = _("{n} processes, ").format(n=units.count(run.processes)) * (run.processes > 1)
    of_all = _("mean of {n} GPUs, ").format(n=units.count(survey.gpus)) * (survey.gpus > 1)
    return Tile(
        _("GPU busy"),
        percent(run.busy_ns / (run.span_ns * max(survey.gpus, 1))) if run.span_ns else "—",
        of_all
        + _("of {span} from the first launch to the last; {processes}{wall} in all").format(
            span=units.quantity(1e-9 * run.span_ns, "s"),
            processes=processes,
            wall=units.quantity(run.wall_s, "s"),
        ),
    )


def _count_tiles(new: Counted, old: Counted | None = None) -> tuple[Tile, ...]:
    """Tiles with the emulator's counts of a program, beside the old ones."""
    counts = {
        _("Instructions"): ("instructions", 0),
        _("Global sectors"): ("sectors", new.sectors_ideal),
        _("Shared wavefronts"): ("wavefronts", new.wavefronts_ideal),
    }
    tiles = []
    for label, (name, ideal) in counts.items():
        value = getattr(new, name)
        note = _("ideal {n}").format(n=units.quantity(ideal)) if ideal else ""
        change = ""
        if old is not None:
            before = getattr(old, name)
            note = _("from {before}").format(before=units.quantity(before))
            change = units.signed(value - before)
            change += f" · {units.relative(before, value)}" if before else ""
        tiles.append(Tile(label, units.quantity(value), note, change=change))
    return tuple(tiles)


def _longest(capture: ProgramCapture, detail: Profile) -> Profile:
    """The profile with one launch of each kernel: the heaviest."""
    sides = (launches_of(capture, detail, (place,)) for place in dict.fromkeys(capture.detail))
    found = [main_launch(own) for own in sides if own is not None]
    return replace(detail, launches=tuple(launch for launch in found if launch is not None))


def _said(capture: ProgramCapture, rows: Sequence[View]) -> str:
    """A sentence on the kernels that take the most time."""
    most = [f"{shortened(row.name)} {row.cells[1]}" for row in rows[:3]]
    return _("{time} on the GPU: {kernels} of it").format(
        time=time_words(total(capture.survey)), kernels=units.listed(most)
    )


def _runs(capture: ProgramCapture) -> list[tuple[str, ...]]:
    """Each run, if there were several: its number and its times."""
    survey = capture.survey
    runs = list(zip(survey.runs, survey.totals, strict=True))
    times = [
        (1e-9 * nanoseconds, 1e-9 * run.busy_ns, 1e-9 * run.span_ns, run.wall_s)
        for run, nanoseconds in (runs if len(runs) > 1 else ())
    ]
    return [
        (units.count(number), *(units.quantity(each, "s") for each in own))
        for number, own in enumerate(times, 1)
    ]


def _launches(capture: ProgramCapture, detail: Profile | None) -> dict[int, tuple[Link, ...]]:
    """The pages of profiled launches, by the index of their kernel."""
    found: dict[int, tuple[Link, ...]] = {}
    for launch, place in zip(detail.launches if detail else (), capture.detail, strict=True):
        if launch.profiled:
            link = Link(f"#{launch.index}", launch_page(launch.index))
            found[place] = (*found.get(place, ()), link)
    return found


def _fate(
    difference: ProgramDifference, shown: Sequence[str], rows: Sequence[WorkChange], moved: bool
) -> View:
    """A row in the table of two programs, and whether its time differs."""
    return View(
        fate=shown[0],
        name=shown[1],
        whole=shown[1],
        href="",
        cells=shown[2:],
        seconds=difference.seconds(*rows),
        moved=moved,
        strip=(),
        words=(),
    )


def program_diff_view(
    difference: ProgramDifference,
    steps: Mapping[int, KernelStep],
    pages: tuple[Sequence[str], Sequence[Link]],
    leading: tuple[str, View | None],
) -> View:
    """The page of two captures.

    `steps` are the kernels that matter, by row. `pages` are each row's link, or "", and those of
    both sides. `leading` is the kernel that changed most among those with a page, and that page.
    """
    sheet = difference_sheet(difference, rest=_("below"))
    every = difference_sheet(difference, everything=True)
    every_row = difference.rows
    rows = [
        _fate(difference, shown, (row,), weighs(difference, row)).but(
            whole=name, href=href, **_told(difference, steps.get(number), href)
        )
        for number, (shown, name, href, row) in enumerate(
            zip(every.shown[:-1], row_names(difference), pages[0], every_row, strict=True)
        )
    ]
    kept, left = fold(difference)
    sums = [
        _fate(difference, shown, own, difference.moved and own is every_row)
        for shown, own in zip(sheet.shown[len(kept) :], (*left.values(), every_row), strict=True)
    ]
    captures = difference.old, difference.new
    title = f"@{difference.old.name} → @{difference.new.name}"
    said, page = program_words(difference), leading[1]
    return View(
        head=Head(
            heading=once(" ".join(each.command) for each in captures),
            name=title,
            crumbs=(Link(_("Overview"), "index.html"), Link(title)),
            pages=tuple(pages[1]),
            chips=program_chips(captures),
            notices=difference.warnings,
        ),
        lede=tied(said[0]),
        more=tuple(map(tied, said[1:])),
        reasons=difference.reasons,
        timed=difference.timed,
        tiles=_tiles(difference),
        totals=(difference.totals[0].value, difference.totals[1].value),
        leading=leading[0],
        code=page.hunks.shown[0].but(machine=()) if page and page.hunks.shown else None,
        panel=page.panel if page else None,
        kernel=next((row.name for row in rows if row.href == leading[0]), ""),
        strip=next((row.strip for row in rows if row.href == leading[0]), ()),
        columns=every.header[2:],
        rows=[rows[n] for n in kept],
        sums=sums,
        rest=[row for n, row in enumerate(rows) if n not in kept],
        spent=stacked(
            [f"@{side.name}" for side in captures],
            [(row.name, row.seconds) for row in rows],
            "s" * difference.timed,
        ),
    )


def _tiles(difference: ProgramDifference) -> tuple[Tile, ...]:
    launches = [side.survey.launches for side in (difference.old, difference.new)]
    launched = Tile(
        label=_("Launches"),
        value=units.count(launches[1]),
        change=units.signed(launches[1] - launches[0]),
        note=_("from {before}").format(before=units.count(launches[0])),
    )
    if not difference.timed:
        before, after = (side.survey.counted() for side in (difference.old, difference.new))
        return *_count_tiles(after, before), launched
    old, new = difference.totals
    change = difference.change_s.value
    tone: Tone = ("good" if change < 0 else "bad") if difference.moved else ""
    ratio = units.factor(old.value / new.value) if new.value else "—"
    return (
        Tile(
            label=_("Time on the GPU"),
            value=units.quantity(new.value, "s"),
            change=units.signed(change, "s") + f" · {ratio}" * (not difference.tried),
            note=_("from {before}").format(before=units.quantity(old.value, "s")),
            tone=tone,
        ),
        launched,
    )


def _told(difference: ProgramDifference, step: KernelStep | None, href: str) -> dict[str, Any]:
    """The text below a kernel's name: its strip if it has one, and `words`."""
    if step is None:
        return {}
    said, story = step_words(step, difference), step.story
    # A strip replaces the first sentence.
    sentences = said.sentences if story is None else said.sentences[1:]
    speed = step.comparison.speed if step.comparison is not None else None
    alike = speed is not None and not speed.moved
    return {
        "strip": strip_links(story.strip, href) if story is not None and not alike else (),
        "words": (said.program, *said.launches, *said.warnings, *sentences),
    }


# --- the index -----------------------------------------------------------------------------


def summarize_program(capture: ProgramCapture, href: str) -> ProgramSummary:
    """The index's words on a captured program."""
    return ProgramSummary(
        name=f"@{capture.name}",
        command=" ".join(capture.command),
        device=capture.device.name if capture.device else "",
        captured=day(capture.captured),
        href=href,
        launches=units.count(capture.survey.launches),
        time=units.quantity(total(capture.survey).value, "s") if capture.survey.timed else "—",
    )


def summarize_programs(difference: ProgramDifference, href: str) -> ProgramSummary:
    """The index's words on two compared programs."""
    sides = [summarize_program(side, href) for side in (difference.old, difference.new)]
    told = ("command", "device", "captured", "launches", "time")
    old, new = difference.totals
    change = units.signed(difference.change_s.value, "s")
    ratio = units.factor(old.value / new.value) if new.value else ""
    changed = f"{ratio}, {change}".strip(", ") if difference.moved else _("no measurable change")
    if not difference.timed:
        before, after = (side.survey.counted() for side in (difference.old, difference.new))
        changed = _("instructions {change}").format(
            change=units.relative(before.instructions, after.instructions)
        )
    return ProgramSummary(
        name=" → ".join(side.name for side in sides),
        href=href,
        **{field: once(getattr(side, field) for side in sides) for field in told},
        change=changed,
    )
