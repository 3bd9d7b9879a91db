"""Sheets as JSON, CSV or Markdown: of verify, time and doctor, and of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.views.sheets import Sheet, sweep
from workbench.views.sheets.sweep import Sweep
from workbench.views.text.documents import dumps
from workbench.views.text.escaping import inline
from workbench.views.text.tables import to_csv, to_markdown


def sheet_text(sheet: Sheet, format_: str) -> str:
    """The sheet as ``json``, ``csv`` or ``markdown`` text."""
    if format_ == "json":
        return dumps(sheet.document)
    if format_ == "csv":
        return _csv(sheet.raw, sheet.columns)
    notes = "".join(f"\n{note}\n" for note in sheet.notes)
    title = f"{sheet.title}\n\n" if sheet.title else ""
    return f"{title}{to_markdown(sheet.header, sheet.shown)}{notes}"


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """`to_csv` of named values. `columns` are all that any row has, where none are named."""
    names = columns or tuple(dict.fromkeys(name for row in rows for name in row))
    return to_csv(names, ([row.get(name) for name in names] for row in rows))


def sweep_text(table: Sweep, format_: str) -> str:
    """The sweep as ``json``, ``csv`` or ``markdown`` text."""
    if format_ == "json":
        return dumps(sweep.document(table))
    if format_ == "csv":
        return _csv(list(sweep.raw(table)))
    text = to_markdown(("version", *table.problems), ())
    text += "".join(f"| {' | '.join(row)} |\n" for row in _rows(table))
    below = [*sweep.notes(table), *(f"WARNING: {line}" for line in sweep.warnings(table))]
    lines = "".join(f"- {inline(line)}\n" for line in below)
    return f"{inline(sweep.title(table))}\n\n{text}" + (f"\n{lines}" if lines else "")


def _rows(table: Sweep) -> Iterator[list[str]]:
    """All quantities of a combination in one cell; the fastest in bold."""
    every, best = list(sweep.quantities(table)), table.best
    for version in table.versions:
        row = [inline(version)]
        for problem in table.problems:
            key = (version, problem)
            cells = [quantity.cells[key] for quantity in every]
            if key not in table.timings:
                row.append(inline(cells[0]))
                continue
            words = [
                f"{cell} {quantity.title}"
                if quantity.title.endswith("/s") and cell != "—"
                else cell
                for quantity, cell in zip(every, cells, strict=True)
            ]
            text = inline(" · ".join(words))
            row.append(f"**{text}**" if best.get(problem) == version else text)
        yield row
