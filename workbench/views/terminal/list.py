"""``workbench list`` on a terminal: the ladder, with times, shares and dates."""

from __future__ import annotations

from rich.console import Group, RenderableType

from workbench.ladder import Rung
from workbench.ladder.listing import StudyList
from workbench.ladder.summaries import COUNTED
from workbench.language import N_, _, ngettext
from workbench.units import count, factor, listed, quantity
from workbench.views.sheets.list import ListPage, doubted, marked
from workbench.views.terminal.console import BAD, DIM, GOOD, HEAD, WARN, Text, bar, grid

#: The maximum number of further problems to name.
_PROBLEMS = 6
#: The shortest bar.
_SLOWEST = "▏"
_HEADER = (N_("version"), N_("from"), "", N_("time"), N_("step"), N_("of base"), N_("speed"))
#: The most version rows of a study in a list of several studies.
_LINES = 4


def list_view(
    lists: list[StudyList],
    default_study: str,
    width: int,
    page: ListPage | None = None,
    *,
    brief: bool = False,
) -> RenderableType:
    """All studies of a page, one ladder each; without a `page`, everything.

    `brief`: seven lines per study: a ladder's first version, its fastest one, the baseline.
    """
    parts: list[RenderableType] = []
    for each in lists:
        if parts:
            parts.append(Text())
        parts.append(_study(each, default_study, width, brief=brief))
    if not lists:
        parts.append(Text(_("No studies yet. `workbench new NAME` starts one.")))
    if page and page.pages > 1:
        words = _("page {number:,} of {pages:,}: versions {first:,} to {last:,} of {total:,}")
        words = words.format(**{**vars(page), "first": page.first + 1})
        if page.number < page.pages:
            words += _("; --page {number} continues").format(number=page.number + 1)
        parts += [Text(), Text(words, style=DIM)]
    return Group(*parts)


def _study(found: StudyList, default_study: str, width: int, *, brief: bool) -> RenderableType:
    name = found.study.name
    head = Text(name, style=HEAD)
    head.append(f"  {found.study.title}", style="not bold")
    if name == default_study:
        head.append(f"  {_('(default study)')}", style=f"not bold {DIM}")
    where = Text(style=DIM)
    if found.problem:
        where.append(_("{problem} on {device}").format(problem=found.problem, device=found.device))
        others = [each for each in found.recorded if each != found.problem]
        if others:
            where.append(_("; also recorded: {others}").format(others=listed(others, _PROBLEMS)))
    else:
        where.append(_("nothing is recorded yet; `workbench profile VERSION` needs no GPU"))
    parts: list[RenderableType] = [head, where]
    if brief:
        for said in (head, where):
            said.truncate(width, overflow="ellipsis")
    notes = _notes(found, width if brief else None)
    rungs = found.rungs[found.part]
    if brief:
        rungs = _telling(rungs, _LINES - len(notes))
        if left := len(found.rungs[found.part]) - len(rungs):
            more = ngettext(
                "{n} more version: {command}", "{n} more versions: {command}", left
            ).format(n=count(left), command=f"`workbench show {name}`")
            notes.insert(0, Text(more, style=DIM))
    if _counted(found):
        return Group(*parts, *_counts(found, rungs, brief=brief), *notes)
    fastest = min((rung.time.time.value for rung in found.rungs if rung.time), default=0.0)
    cells = 12 if width >= 100 else 8
    dates = [_profiled(found, rung) for rung in rungs]
    # A date that all share is printed once, and the titles use its column.
    dated = len({date.plain for date in dates}) > 1
    if dates and not dated and found.problem:
        where.append(_("; profiled {date}").format(date=dates[0].plain))
    header = [*_HEADER, *([N_("profiled")] if dated else [])]
    rows = [[Text(_(each), style=DIM) for each in header]]
    for rung, date in zip(rungs, dates, strict=True):
        time = rung.time
        shown = Text(quantity(time.time.value if time else None, "s"))
        if time and time.profiled:
            shown.append("*", style=DIM)
        shown.append(marked(rung), style=BAD)
        row = [*_name(rung, brief=brief), shown, _step(found, rung)]
        share = rung.of_baseline if time else None
        row.append(Text(quantity(100.0 * share if share is not None else None, "%")))
        # The longest bar is the fastest version's; the slowest one still has a visible one.
        length = bar(fastest / time.time.value, cells) or _SLOWEST if time else ""
        rows.append([*row, Text(length, style="blue"), *([date] if dated else [])])
    return Group(*parts, _table(rows, width, brief=brief), *notes)


def _name(rung: Rung, *, brief: bool) -> list[Text]:
    """A version, its parent, and its title; in one row if `brief`."""
    parent = rung.declared.parent if rung.declared else None
    title = Text(rung.title, no_wrap=brief or None, overflow="ellipsis" if brief else None)
    title.append(f" {_('(baseline)')}" if rung.is_baseline else "", style=DIM)
    style = "cyan" if rung.is_baseline else HEAD
    return [Text(rung.id, style=style), Text(parent or "", style=DIM), title]


def _notes(found: StudyList, width: int | None) -> list[Text]:
    """Notes about times and tunings; with a `width`, in at most two rows."""
    notes = [Text(f"(!) {text}", style=BAD) for rung in found.rungs for text in doubted([rung])]
    if any(rung.time.profiled for rung in found.rungs if rung.time):
        note = _("* under the profiler; {command} times outside of it").format(
            command=f"`workbench time {found.study.name} --all-problems`"
        )
        notes.insert(0, Text(note, style=DIM))
    notes += [Text(line, style=DIM) for line in found.tuned]
    if width is None:
        return notes
    for line in notes:
        line.truncate(width, overflow="ellipsis")
    return notes[:2]


def _telling(rungs: list[Rung], lines: int) -> list[Rung]:
    """All, if they fit; else the fastest, the baseline, the first, and then the last ones."""
    if len(rungs) <= lines:
        return rungs
    own = [rung for rung in rungs if not rung.is_baseline]
    times = {rung.id: rung.time.time.value for rung in own if rung.time}
    fastest = [rung for rung in own if rung.id == min(times, key=times.__getitem__, default="")]
    rivals = [rung for rung in rungs if rung.is_baseline]
    order = [*fastest, *rivals[:1], *own[:1], *own[::-1]]
    kept = set(list(dict.fromkeys(rung.id for rung in order))[: lines - 1])
    return [rung for rung in rungs if rung.id in kept]


def _table(rows: list[list[Text]], width: int, *, brief: bool) -> RenderableType:
    """The rungs; without bars if these would leave too little space for titles."""
    widths = [max(cell.cell_len for cell in column) + 2 for column in zip(*rows, strict=True)]
    room = width - sum(widths) + widths[2]
    longest = max((len(word) for row in rows for word in row[2].plain.split()), default=0)
    bars = longest <= room - 2 and not brief
    kinds = "llfrrr", "l" * bars, "l" * (len(widths) - 7)
    table = grid(*"".join(kinds))
    table.expand = True
    for row in rows:
        table.add_row(*row[:6], *(row[6:7] if bars else []), *row[7:])
    return table


def _counted(found: StudyList) -> bool:
    """True if there are no times, but counts from the emulator."""
    records = [rung.record for rung in found.rungs]
    return any(each and each.counts for each in records) and not any(
        rung.time for rung in found.rungs
    )


def _counts(found: StudyList, rungs: list[Rung], *, brief: bool) -> list[RenderableType]:
    table = grid("l", "l", "f", *("r" * len(COUNTED)), "l")
    table.expand = True
    header = [*_HEADER[:3], *(title for title, __ in COUNTED.values()), N_("profiled")]
    table.add_row(*(Text(_(each), style=DIM) for each in header))
    for rung in rungs:
        counts = rung.record.counts if rung.record else {}
        cells = [Text(quantity(counts.get(name), "inst")) for name in COUNTED]
        table.add_row(*_name(rung, brief=brief), *cells, _profiled(found, rung, counted=True))
    note = _("counted by the emulator, which measures no times")
    return [table] if brief else [table, Text(note, style=DIM)]


def _step(found: StudyList, rung: Rung) -> Text:
    """The speed-up over the version from which this one was made."""
    made_from = rung.declared.parent if rung.declared else None
    parent = found.shown.rungs.get(made_from) if made_from else None
    speedup = rung.speedup_over(parent) if parent else None
    if speedup is None:
        return Text("")
    doubtful = speedup.low <= 1 <= speedup.high
    style = DIM if doubtful else GOOD if speedup.value > 1 else BAD
    return Text(factor(speedup.value), style=style)


def _profiled(found: StudyList, rung: Rung, *, counted: bool = False) -> Text:
    """The date of a version's profile, and its engine; `counted`: the table names the engine."""
    profile = rung.record
    old = _("time stale") if rung.time is not None and rung.time.stale else ""
    if profile is None and old:
        return Text(old, style=f"bold {WARN}")
    if profile is None:
        others = {each.problem for each in found.profiles(rung.id)}
        here = _("other device") if found.problem in others else _("other problem")
        return Text(here if others else quantity(None), style=DIM)
    text = Text(profile.captured[:10] or _("no date"))
    if profile.engine != "ncu" and not counted:
        text.append(f" {_(profile.engine)}", style=DIM)
    old = _("stale") if profile.stale else old
    return text.append(f" {old}" * bool(old), style=f"bold {WARN}")
