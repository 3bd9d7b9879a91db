"""What verify, time and doctor print: one table of facts in four forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.model import Notice, Record

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

_NUMERIC = frozenset(
    (
        "median",
        "±",
        "FLOP/s",
        "OP/s",
        "error",
        "of tolerance",
        "compared",
        "samples",
        "first launch",
    )
)


class Sheet(Record, frozen=True):
    """A table twice: `shown` for people, `raw` for programs, and the whole for JSON.

    `extra` names the columns of `header` that a narrow terminal leaves out, the least
    needed first. `notes` stand under the table; JSON has them in `document` already.
    """

    header: tuple[str, ...]
    shown: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    raw: tuple[tuple[Any, ...], ...]
    document: dict[str, Any]
    title: str = ""
    notes: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


def render(sheet: Sheet, format_: str) -> str:
    """The sheet as ``json``, ``csv`` or ``markdown`` text."""
    if format_ == "json":
        from workbench.views.text.documents import dumps

        return dumps(sheet.document)
    from workbench.views.text.tables import to_csv, to_markdown

    if format_ == "csv":
        return to_csv(sheet.columns, sheet.raw)
    notes = "".join(f"\n{note}\n" for note in sheet.notes)
    title = f"{sheet.title}\n\n" if sheet.title else ""
    return f"{title}{to_markdown(sheet.header, sheet.shown)}{notes}"


def _fitting_columns(sheet: Sheet, width: int) -> list[int]:
    """The columns that a terminal has room for: `Sheet.extra` goes first, in its order."""
    from rich.cells import cell_len

    kept = list(range(len(sheet.header)))
    needed = {
        index: 2
        + max(cell_len(text) for row in (sheet.header, *sheet.shown) for text in (row[index],))
        for index in kept
    }
    for name in sheet.extra:
        # The last column ends without the two blanks between columns.
        if sum(needed[index] for index in kept) - 2 <= width or name not in sheet.header:
            continue
        kept.remove(sheet.header.index(name))
    return kept


class _Fitting:
    """A sheet's table in as many columns as the terminal has room for."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table
        from rich.text import Text

        sheet = self._sheet
        kept = _fitting_columns(sheet, options.max_width)
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for index in kept:
            name = sheet.header[index]
            table.add_column(name, justify="right" if name in _NUMERIC else "left", overflow="fold")
        for row in sheet.shown:
            table.add_row(*(Text(row[index]) for index in kept))
        yield table


def sheet_view(sheet: Sheet) -> RenderableType:
    """The sheet for a terminal of any width."""
    from rich.console import Group
    from rich.text import Text

    from workbench.views.terminal.console import clean

    parts: list[Any] = [Text(sheet.title)] if sheet.title else []
    parts.append(_Fitting(sheet))
    parts += [Text(clean(note)) for note in sheet.notes]
    return Group(*parts)


def print_sheet(sheet: Sheet, format_: str) -> None:
    """Print on standard output."""
    import click

    if format_ != "table":
        click.echo(render(sheet, format_), nl=False)
        return
    from workbench.views.terminal.console import print_view

    print_view(sheet_view(sheet))


def notices_text(notices: Sequence[Notice], label: str = "") -> list[str]:
    """Notices as lines under a table."""
    prefix = f"{label}: " if label else ""
    return [f"note: {prefix}{notice.message}" for notice in notices]
