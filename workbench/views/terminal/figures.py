"""A table whose numbers are the last thing to be cut, and names that tell two sides apart.

Rich shrinks the columns of a table that is too wide in proportion, numbers included, and
``15.…`` is no number. Here the numbers keep their width; words beside them go first, then
labels are shortened, then a verdict or a unit is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Labels are not cut shorter than this, words beside numbers are rather left out.
_LEAST = 8
#: Heads of columns are cut before labels are shorter than this.
_ROOMY = 16
#: Behind these a name may be broken.
_BREAK = re.compile(r"[^\s\-_./:]*$")


class Figures:
    """Rows of cells that are laid out when all of them are known.

    Args:
        kinds: One letter a column: ``n`` a number, never cut; ``t`` a word that is whole or
            not there; ``l`` a label, cut where it is too long, ``L`` one that goes on below; ``w``
            words.
        width: Columns of the terminal.
        padding: Blanks between two columns.
        longest: Of a label.
    """

    def __init__(self, kinds: str, width: int, *, padding: int = 2, longest: int = 40) -> None:
        self._kinds, self._width, self._padding = kinds, width, padding
        self._longest = longest
        self._rows: list[Sequence[Text]] = []
        self._head: Sequence[Text] = ()

    def head(self, *cells: Text) -> None:
        """The names of the columns: where there is little room they are cut before labels are."""
        self._head = cells

    def add(self, *cells: Text) -> None:
        """A row; its last cells may be left out."""
        self._rows.append(cells)

    def table(self) -> Table:
        """The table, in as many columns as there is room for."""
        whole = [self._head, *self._rows] if self._head else self._rows
        widths = self._widths(whole)
        labels = [widths[column] for column, kind in enumerate(self._kinds) if kind in "lL"]
        if self._head and min(labels, default=_ROOMY) < _ROOMY:
            widths = self._widths(self._rows)
        table = Table.grid(padding=(0, self._padding, 0, 0))
        kept = sorted(widths)
        for column in kept:
            table.add_column(
                justify="right" if self._kinds[column] == "n" else "left",
                width=widths[column],
                no_wrap=True,
                overflow="ellipsis",
            )
        for row in whole:
            cells = {column: row[column] for column in kept if column < len(row)}
            for column, cell in cells.items():
                if self._kinds[column] == "L":
                    cells[column] = _hanging(cell, widths[column])
            table.add_row(*cells.values())
        return table

    def _widths(self, rows: Sequence[Sequence[Text]]) -> dict[int, int]:
        """Column -> its width; what there is no room for is left out."""
        needed = {
            column: max((row[column].cell_len for row in rows if column < len(row)), default=0)
            for column in range(len(self._kinds))
        }
        labels, numbers, whole, words = (
            [c for c in needed if self._kinds[c] in kinds and (needed[c] or kinds == "lL")]
            for kinds in ("lL", "n", "t", "w")
        )
        kept = [*numbers, *whole]

        def room() -> int:
            taken = sum(needed[column] + self._padding for column in kept)
            return self._width - taken - self._padding * (len(labels) - 1)

        while whole and room() < _LEAST * len(labels):
            kept.remove(whole.pop())
        widths = {column: needed[column] for column in kept}
        left = room()
        for column in labels:
            widths[column] = max(min(needed[column], self._longest, left), min(_LEAST, left), 1)
            left -= widths[column]
        for column in words:
            if left - self._padding >= min(_LEAST, needed[column]):
                widths[column] = min(needed[column], left - self._padding)
                left -= widths[column] + self._padding
        return widths


def _hanging(cell: Text, width: int) -> Text:
    """A label in as many rows as it needs, the later ones indented further."""
    indent = len(cell.plain) - len(cell.plain.lstrip())
    rows = cell.wrap(Console(), width - 2, tab_size=4) if cell.cell_len > width else [cell]
    out = rows[0]
    for row in rows[1:]:
        out = Text("\n").join([out, Text(" " * (indent + 2), style=cell.style).append_text(row)])
    return out


def heads(names: tuple[str, str], longest: int) -> list[str]:
    """What tells two names apart, each in `longest` columns: equal beginnings and ends go first.

    ``fortran-division``, ``fortran-multiplication`` -> ``…division``, ``…multiplica…``
    """
    if all(len(name) <= longest for name in names) or len(set(names)) == 1:
        return [_cut(name, longest) for name in names]
    before = _common(*names)
    before = _BREAK.sub("", before)
    rest = [name[len(before) :] for name in names]
    if not all(rest):
        before, rest = "", list(names)
    after = _common(*(name[::-1] for name in rest))[::-1]
    found = re.search(r"[\s\-_./:]", after)
    after = after[found.start() :] if found and all(len(x) > len(after) for x in rest) else ""
    out = []
    for name in rest:
        inner = name[: len(name) - len(after)]
        short = f"{'…' * bool(before)}{inner}{'…' * bool(after)}"
        # A long ending is dropped before anything else; a short one that fits stays.
        whole = f"{'…' * bool(before)}{name}"
        out.append(whole if len(whole) <= longest else short)
    cut = [_cut(name, longest) for name in out]
    if len(set(cut)) < len(set(names)):
        cut = [name if len(name) <= longest else f"…{name[1 - longest :]}" for name in names]
    return cut


def _common(a: str, b: str) -> str:
    """How two texts begin alike."""
    differ = (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return a[: next(differ, min(len(a), len(b)))]


def _cut(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1].rstrip('…')}…"
