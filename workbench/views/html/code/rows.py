"""Rows of two sources beside each other, as records and as markup.

The markup is written here and not in a template: a page has hundreds of rows, and a
template's loop over them takes ten times as long. Tags that HTML lets out are left out,
because these tables are most of a page's bytes.
"""

from __future__ import annotations

from html import escape

from markupsafe import Markup

from workbench.model import Record
from workbench.views.html.code.gutters import Cell

_NOWHERE = '<td class="e" colspan="3">'


class LineSide(Record, frozen=True):
    """One side of a row; `number` 0: nothing there. `key` finds its counters, "" without any."""

    number: int = 0
    anchor: str = ""
    id: str = ""
    key: str = ""
    code: Markup = Markup("")
    cell: Cell | None = None


class CodeRow(Record, frozen=True):
    """A row of the side-by-side view; `kind` as in `Facing`, or ``gap`` with its words."""

    kind: str
    old: LineSide = LineSide()
    new: LineSide = LineSide()
    words: str = ""


def code_row(row: CodeRow, same: bool) -> str:
    """A row as HTML: ids, keys and widths are ours, everything else is escaped.

    Args:
        row: The row.
        same: Unchanged on both sides: the new side's cell also says what the old one was.
    """
    if row.kind == "gap":
        return f'<tr><td class="g" colspan="6">⋯ {row.words}'
    old = row.old if same else LineSide()
    return f"<tr>{_cell(row.old, 'o', LineSide())}{_cell(row.new, 'n', old)}"


def _cell(side: LineSide, name: str, was: LineSide) -> str:
    if not side.number:
        return _NOWHERE
    identity = f' id="{side.id}"' if side.id else ""
    keys = f' data-{name}="{side.key}"' if side.key else ""
    keys += f' data-o="{was.key}"' if was.key else ""
    before = f"<s>{escape(was.cell.text)} → </s>" if was.cell else ""
    shown = side.cell.markup(before, titled=True) if side.cell else before and f"{before}<s>0</s>"
    return (
        f'<td class="n"{identity}><a href="#{side.anchor}">{side.number}</a>'
        f'<td class="v"{keys}>{shown}<td class="c">{side.code}'
    )


class Chunk(Record, frozen=True):
    """Neighbouring rows that are all unchanged (``same``), all changed, or a gap."""

    kind: str
    rows: tuple[CodeRow, ...]

    @property
    def markup(self) -> Markup:
        """The rows as HTML."""
        return Markup("\n".join(code_row(row, self.kind == "same") for row in self.rows))
