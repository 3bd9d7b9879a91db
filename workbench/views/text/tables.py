"""The same facts as flat tables: CSV and Markdown.

CSV holds raw numbers in base units for other programs; Markdown holds formatted
ones for people. A missing value is an empty CSV cell with its reason beside it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.analysis.compare import Comparison
from workbench.counters import Missing, catalog, read_all
from workbench.ladder.listing import StudyList
from workbench.language import N_, _
from workbench.model import Estimate, Profile
from workbench.units import quantity
from workbench.views.shapes import dumps
from workbench.views.sheets import Sheet
from workbench.views.sheets.list import doubted, marked
from workbench.views.text.escaping import inline, sentence
from workbench.views.text.safe_output import ascii_minus, visible

Cells = Sequence[Any]

#: Characters that begin a formula in a spreadsheet, in both widths.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


def to_csv(header: Sequence[str], rows: Iterable[Cells]) -> str:
    """RFC 4180 text, but with Unix line ends and safe texts; None is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_cell, header))
    writer.writerows(map(_cell, row) for row in rows)
    return out.getvalue()


def _cell(cell: object) -> object:
    if isinstance(cell, str):
        return safe_text(cell)
    return "" if cell is None else cell


def safe_text(cell: str) -> str:
    """A text in one line that spreadsheets do not compute: OWASP's apostrophe before a formula.

    A number is not a formula.
    """
    cell = ascii_minus(cell)
    shown = visible(cell)
    if not cell.startswith(_FORMULA):
        return shown
    try:
        float(cell)
    except ValueError:
        return f"'{shown}"
    return shown


def to_markdown(header: Sequence[str], rows: Iterable[Cells]) -> str:
    """A GitHub-flavoured table; all cells are plain text."""

    def line(cells: Iterable[Any]) -> str:
        return "| " + " | ".join(inline(str(cell)) for cell in cells) + " |"

    ruler = "|" + " --- |" * len(header)
    return "\n".join([line(header), ruler, *(line(row) for row in rows)]) + "\n"


_LIST = ("study", "version", "title", "baseline", "parent", "problem", "device", "engine")
_LIST_TAIL = ("captured", "stale", "seconds", "low", "high")


def list_csv(lists: list[StudyList]) -> str:
    """One row per version and recorded problem, device and engine (empty: nothing recorded)."""
    rows: list[Cells] = []
    for each in lists:
        for version in each.study.versions.values():
            head = (each.study.name, version.id, version.title, version.baseline, version.parent)
            times = {(t.problem, t.device.name): t.time for t in each.timings(version.id)}
            found: list[tuple[Cells, Estimate | None]] = [
                ((*where, profile.engine, profile.captured, profile.stale), times.pop(where, None))
                for profile in each.profiles(version.id)
                for where in [(profile.problem, profile.device)]
            ]
            found += [((*where, *(None,) * 3), time) for where, time in times.items()]
            for facts, time in found or [((None,) * 5, None)]:
                seconds = (time.value, time.low, time.high) if time else (None,) * 3
                rows.append((*head, *facts, *seconds))
    return to_csv(_LIST + _LIST_TAIL, rows)


def list_markdown(lists: list[StudyList]) -> str:
    """A heading and a table per study, for a README."""
    parts = []
    for each in lists:
        where = f" ({each.problem}, {each.device})" if each.problem else ""
        rows = []
        for rung in each.rungs:
            time, profile = rung.time, rung.record
            share = rung.of_baseline if time else None
            shown = quantity(time.time.value if time else None, "s")
            rows.append(
                (
                    rung.id,
                    rung.title,
                    f"{shown}*" if time and time.profiled else shown + marked(rung),
                    quantity(100.0 * share if share is not None else None, "%"),
                    (profile.captured[:10] + (f" ({_('stale')})" if profile.stale else ""))
                    if profile
                    else quantity(None),
                )
            )
        header = N_("version"), N_("title"), N_("time"), N_("of baseline"), N_("profiled")
        table = to_markdown(tuple(map(_, header)), rows)
        parts.append(f"### {inline(f'{each.study.name}: {each.study.title}{where}')}\n\n{table}")
        if any(rung.time.profiled for rung in each.rungs if rung.time):
            parts.append(f"\\* {_('under the profiler')}\n")
        parts += [f"(!) {inline(text)}\n" for text in doubted(each.rungs)]
    return "\n".join(parts)


def show_csv(profile: Profile) -> str:
    """One row per launch and counter."""
    rows: list[Cells] = []
    for launch in profile.launches:
        for name, reading in read_all(launch).items():
            group = catalog()[name].group
            found: Cells
            if isinstance(reading, Missing):
                found = (None, "", "", reading.reason, "")
            else:
                derived = "yes" if reading.derived else ""
                found = (reading.value, reading.unit, reading.ncu, "", derived)
            rows.append((launch.index, launch.kernel, name, group, *found))
    header = ("launch", "kernel", "counter", "group", "value", "unit", "ncu", "missing", "derived")
    return to_csv(header, rows)


def show_markdown(profile: Profile) -> str:
    """A table of counters per launch."""
    parts = []
    for launch in profile.launches:
        rows = []
        for name, reading in read_all(launch).items():
            if not isinstance(reading, Missing):
                rows.append((_(catalog()[name].title), reading.text, reading.unit))
        table = to_markdown((_("counter"), _("value"), _("unit")), rows)
        head = _("{kernel} (launch {n})").format(kernel=inline(launch.kernel), n=launch.index)
        parts.append(f"### {head}\n\n{table}")
    return "\n".join(parts)


def diff_csv(comparison: Comparison) -> str:
    """One row per counter."""
    first = ("id", "group", "ncu", "unit", "old", "new", "delta", "relative", "better")
    fields = (*first, "moved", "verdict", "rule", "reason")
    rows = [[getattr(delta, field) for field in fields] for delta in comparison.counters]
    return to_csv(["counter", *fields[1:-1], "missing"], rows)


def sheet_text(sheet: Sheet, format_: str) -> str:
    """The sheet as ``json``, ``csv`` or ``markdown`` text."""
    if format_ == "json":
        return dumps(sheet.document)
    if format_ == "csv":
        return named_csv(sheet.raw, sheet.columns)
    notes = "".join("\n" + _lines(note.split("\n")) for note in sheet.notes)
    title = f"{_lines(sheet.title)}\n" if sheet.title else ""
    return f"{title}{to_markdown(tuple(map(_, sheet.header)), sheet.shown)}{notes}"


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{sentence(line)}\n" for line in lines if line)


def named_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """`to_csv` of named values. `columns` are by default all those of any row."""
    names = columns or tuple(dict.fromkeys(name for row in rows for name in row))
    return to_csv(names, ([row.get(name) for name in names] for row in rows))
