"""Sheets of verify, time and doctor on a terminal of any width."""

from __future__ import annotations

from typing import Literal

import rich.text
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table

from workbench.language import _
from workbench.views.sheets import Sheet
from workbench.views.terminal.console import Text, name_rows, print_view, stacked
from workbench.views.text.safe_output import quoted, write
from workbench.views.text.tables import sheet_text

#: The fewest columns for a name.
_LEAST_NAME = 16
_NUMERIC = frozenset(
    (
        *("median", "±", "FLOP/s", "OP/s", "error", "of tolerance", "compared", "samples"),
        *("first launch", "amount", "change", "of peak"),
        *("before", "after", "time", "share", "share of change", "launches", "mean"),
        *("global sectors", "shared wavefronts", "instructions"),
        "profiled",
    )
)


def print_sheet(sheet: Sheet, format_: str) -> None:
    """Print on standard output, as a ``table`` or in one of the forms of `sheet_text`."""
    if format_ == "table":
        print_view(sheet_view(sheet), whole=True)
    else:
        write(sheet_text(sheet, format_))


def plain_table() -> Table:
    """A table without lines, a bold header above it."""
    return Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


# --- verify, time, doctor --------------------------------------------------------------


def sheet_view(sheet: Sheet) -> RenderableType:
    """The sheet for a terminal of any width."""
    parts: list[RenderableType] = [Text(line) for line in sheet.title]
    parts.append(_Columns(sheet))
    parts += [_note(line) for note in sheet.notes for line in quoted(note).split("\n")]
    return Group(*parts)


def _note(line: str) -> RenderableType:
    """A line whose further rows have the indentation of the first."""
    text = line.lstrip(" ")
    return Padding(Text(text), (0, 0, 0, len(line) - len(text)))


class _Columns:
    """A sheet's table with as many columns as fit the terminal."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def _widths(self) -> list[int]:
        """The width that every column needs, with the blanks after it."""
        rows = (tuple(map(_, self._sheet.header)), *self._sheet.shown)
        return [2 + max(map(cell_len, column)) for column in zip(*rows, strict=True)]

    def _kept(self, width: int) -> list[int]:
        """The columns that fit: those in `Sheet.extra` are left out first, in its order."""
        sheet = self._sheet
        kept, needed = list(range(len(sheet.header))), self._widths()
        for name in sheet.extra:
            # The two blanks between columns do not follow the last one.
            if sum(needed[index] for index in kept) - 2 > width and name in sheet.header:
                kept.remove(sheet.header.index(name))
        return kept

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        sheet, table = self._sheet, plain_table()
        kept = self._kept(options.max_width)
        for index in kept:
            name = sheet.header[index]
            justify: Literal["right", "left"] = "right" if name in _NUMERIC else "left"
            table.add_column(_(name), justify=justify, overflow="fold")
        # Only a name may be broken within a word.
        named = sheet.header.index("kernel") if "kernel" in sheet.header else -1
        widths = self._widths()
        room = options.max_width - sum(widths[n] for n in kept if n != named)
        for row in sheet.shown:
            cells: dict[int, rich.text.Text] = {index: Text(row[index]) for index in kept}
            if named in cells:
                cells[named] = stacked(name_rows(cells[named], max(room, _LEAST_NAME)))
            table.add_row(*cells.values())
        yield table
