"""``workbench list`` on a terminal: the ladder, with times, shares and dates."""

from __future__ import annotations

from rich.console import Group, RenderableType

from workbench.ladder import Rung
from workbench.ladder.listing import StudyList
from workbench.ladder.summaries import COUNTED
from workbench.units import factor, listed, quantity
from workbench.views.sheets.list import MARK_TIME, ListPage, doubted
from workbench.views.terminal.console import BAD, DIM, GOOD, HEAD, WARN, Text, bar, grid

#: Problems that are named beside the one that is shown.
_PROBLEMS = 6
#: The shortest bar.
_SLOWEST = "▏"


def list_view(
    lists: list[StudyList], default_study: str, width: int, page: ListPage | None = None
) -> RenderableType:
    """All studies of a page, one ladder each.

    Args:
        lists: What is recorded.
        default_study: Marked as such.
        width: Columns of the terminal.
        page: Which of how many it is; None: all there is.
    """
    parts: list[RenderableType] = []
    for each in lists:
        if parts:
            parts.append(Text())
        parts.append(_study(each, default_study, width))
    if not lists:
        parts.append(Text("No studies yet. `workbench new --study NAME` starts one."))
    if page and page.pages > 1:
        words = f"page {page.number:,} of {page.pages:,}: versions {page.first + 1:,} to "
        words += f"{page.last:,} of {page.total:,}"
        words += f"; --page {page.number + 1} goes on" if page.number < page.pages else ""
        parts += [Text(), Text(words, style=DIM)]
    return Group(*parts)


def _study(found: StudyList, default_study: str, width: int) -> RenderableType:
    name = found.study.name
    head = Text(name, style=HEAD)
    head.append(f"  {found.study.title}", style="not bold")
    if name == default_study:
        head.append("  (default study)", style=f"not bold {DIM}")
    where = Text(style=DIM)
    if found.problem:
        where.append(f"{found.problem} on {found.device}")
        others = [each for each in found.recorded if each != found.problem]
        if others:
            where.append(f"; also recorded: {listed(others, _PROBLEMS)}")
    else:
        where.append("nothing is recorded yet; `workbench profile VERSION` needs no GPU")
    if _counted(found):
        return Group(head, where, *_counts(found))
    fastest = min((rung.time.time.value for rung in found.rungs if rung.time), default=0.0)
    cells = 12 if width >= 100 else 8
    rungs = found.rungs[found.part]
    dates = [_profiled(found, rung) for rung in rungs]
    # One date is said once, and leaves its column to the titles.
    dated = len({date.plain for date in dates}) > 1
    if dates and not dated and found.problem:
        where.append(f"; profiled {dates[0].plain}")
    doubts = {rung.id: doubted([rung]) for rung in found.rungs}
    header = ["version", "", "time", "step", "of base", "speed", *(["profiled"] if dated else [])]
    rows = [[Text(each, style=DIM) for each in header]]
    for rung, date in zip(rungs, dates, strict=True):
        time = rung.time
        title = Text(rung.title)
        if rung.is_baseline:
            title.append(" (baseline)", style=DIM)
        shown = Text(quantity(time.time.value if time else None, "s"))
        if time and time.profiled:
            shown.append("*", style=DIM)
        shown.append(MARK_TIME if doubts[rung.id] else "", style=BAD)
        row = [Text(rung.id, style="cyan" if rung.is_baseline else HEAD), title, shown]
        row.append(_step(found, rung))
        share = rung.of_baseline if time else None
        row.append(Text(quantity(100.0 * share if share is not None else None, "%")))
        # The longest bar is the fastest version's; the slowest one still has one to be seen.
        length = bar(fastest / time.time.value, cells) or _SLOWEST if time else ""
        rows.append([*row, Text(length, style="blue"), *([date] if dated else [])])
    parts: list[RenderableType] = [head, where, _table(rows, width)]
    if any(rung.time.profiled for rung in found.rungs if rung.time):
        note = f"* under the profiler; `workbench sweep {name}` times outside of it"
        parts.append(Text(note, style=DIM))
    parts += [Text(f"(!) {text}", style=BAD) for texts in doubts.values() for text in texts]
    return Group(*parts)


def _table(rows: list[list[Text]], width: int) -> RenderableType:
    """The rungs; without bars where these would leave too little room for the words of titles."""
    widths = [max(cell.cell_len for cell in column) + 2 for column in zip(*rows, strict=True)]
    room = width - sum(widths) + widths[1]
    longest = max((len(word) for row in rows for word in row[1].plain.split()), default=0)
    bars = longest <= room - 2
    table = grid("l", "f", "r", "r", "r", *(["l"] if bars else []), *(["l"] * (len(widths) - 6)))
    table.expand = True
    for row in rows:
        table.add_row(*row[:5], *(row[5:6] if bars else []), *row[6:])
    return table


def _counted(found: StudyList) -> bool:
    """Whether there is no time at all, but what the emulator counted."""
    records = [rung.record for rung in found.rungs]
    return any(each and each.counts for each in records) and not any(
        rung.time for rung in found.rungs
    )


def _counts(found: StudyList) -> list[RenderableType]:
    table = grid("l", "f", *("r" for _ in COUNTED), "l")
    table.expand = True
    header = ["version", "", *(title for title, _ in COUNTED.values()), "profiled"]
    table.add_row(*(Text(each, style=DIM) for each in header))
    for rung in found.rungs[found.part]:
        counts = rung.record.counts if rung.record else {}
        title = Text(rung.title)
        if rung.is_baseline:
            title.append(" (baseline)", style=DIM)
        cells = [Text(quantity(counts.get(name), "inst")) for name in COUNTED]
        style = "cyan" if rung.is_baseline else HEAD
        table.add_row(Text(rung.id, style=style), title, *cells, _profiled(found, rung))
    note = "counted by the emulator, which knows no time"
    return [table, Text(note, style=DIM)]


def _step(found: StudyList, rung: Rung) -> Text:
    """The speed-up over the version that this one was made from."""
    made_from = rung.declared.parent if rung.declared else None
    parent = found.shown.rungs.get(made_from) if made_from else None
    speedup = rung.speedup_over(parent) if parent else None
    if speedup is None:
        return Text("")
    doubtful = speedup.low <= 1 <= speedup.high
    style = DIM if doubtful else GOOD if speedup.value > 1 else BAD
    return Text(factor(speedup.value), style=style)


def _profiled(found: StudyList, rung: Rung) -> Text:
    profile, time = rung.record, rung.time
    if profile is None and time is not None and time.stale:
        return Text("time stale", style=f"bold {WARN}")
    if profile is None:
        others = {each.problem for each in found.profiles(rung.id)}
        here = "other device" if found.problem in others else "other problem"
        return Text(here if others else quantity(None), style=DIM)
    text = Text(profile.captured[:10] or "no date")
    if profile.engine != "ncu":
        text.append(f" {profile.engine}", style=DIM)
    if profile.stale:
        text.append(" stale", style=f"bold {WARN}")
    elif time is not None and time.stale:
        text.append(" time stale", style=f"bold {WARN}")
    return text
