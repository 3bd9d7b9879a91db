"""Terminal output: the console, and the pieces that all views share.

Views are built from `rich` renderables and do not depend on a terminal; `print_view` prints them on
one (colours, width, NO_COLOR), `render` makes plain text for tests and pipes. Text from outside
(kernel names, source, rules) is never treated as rich's markup, and every `Text` is one visible row
(`workbench.views.text.safe_output`): a report must not be able to colour, link, move the cursor or
begin a row. Everything else passes `safe_output` when it is laid out.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache, cached_property, partial
from typing import Literal, Self, TypeVar

import rich.text
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table

from workbench.language import _, told
from workbench.model import Profile
from workbench.units import beside, quantity, when
from workbench.views.text.safe_output import block, for_stream, inert, name_parts, visible

#: Wider rows are hard to read: only tables with many columns are wider.
MOST = 110

GOOD, BAD, WARN, DIM, HEAD = "green", "red", "yellow", "dim", "bold"

_EIGHTHS = " ▏▎▍▌▋▊▉"

#: Replaces a no-break blank until the text is printed: rich breaks rows at every blank, U+00A0
#: included. It is a Unicode noncharacter, so texts do not contain it.
_TIE = "\ufdd0"
_NUMBER = r"(?<=\d) (?=(?:[kMGTPEmµnp]|[kMGTPEmµnp]?(?:s|Hz|W|(?:B|FLOP|OP)(?:/s)?))\b)"


_Texts = TypeVar("_Texts", bound=rich.text.Text)


class Text(rich.text.Text):
    """A row of text from any source: line ends become blanks, control characters become visible."""

    def __init__(
        self,
        text: str = "",
        style: str | Style = "",
        *,
        no_wrap: bool | None = None,
        overflow: Literal["fold", "ellipsis"] | None = None,
    ) -> None:
        super().__init__(_row(text), style, no_wrap=no_wrap, overflow=overflow)

    def append(self, text: rich.text.Text | str, style: str | Style | None = None) -> Self:
        """Add text with its own style."""
        super().append(_row(text) if isinstance(text, str) else text, style)
        return self


def _row(text: str) -> str:
    return text if text.isprintable() else visible(text.expandtabs(4).replace("\n", " "))


def cut(text: str, limit: int) -> str:
    """The text as a `Text` shows it, with at most `limit` characters."""
    text = _row(text)
    return f"{text[: limit - 1]}…" if len(text) > limit else text


def padded(text: str, width: int) -> str:
    """A text cut or padded to exactly `width` columns; a letter may take two."""
    text = _row(text)
    if cell_len(text) > width:
        text = f"{chop_cells(text, width - 1)[0]}…"
    return set_cell_size(text, width)


def stacked(texts: Iterable[rich.text.Text]) -> rich.text.Text:
    """Texts below each other as one."""
    return rich.text.Text("\n").join(texts)


class _Shown:
    """A view without invisible characters, even if it is not a `Text`."""

    def __init__(self, view: RenderableType) -> None:
        self._view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._view, options):
            text = segment.text
            yield segment if text.isprintable() else Segment(block(text), segment.style)


def width() -> int:
    """Columns of the terminal, at most `MOST`; 80 without a terminal."""
    return min(Console().width, MOST)


#: A console that prints text as it is.
_plain = partial(Console, markup=False, highlight=False, emoji=False, force_jupyter=False)


def print_view(view: RenderableType, *, whole: bool = False) -> None:
    """Print on standard output, in the terminal's width (80 without a terminal).

    `whole` uses the full width instead of `MOST` columns, for tables.

    The text is made first and written at once: rich would turn a reader that has ended (``| head``)
    into exit code 1, and a terminal that cannot show a ``→`` into a traceback.
    """
    console = _plain(width=None if whole else width())
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    text = for_stream(_text(console, view), sys.stdout).encode(encoding, "replace").decode(encoding)
    sys.stdout.write("\n".join(line.rstrip() for line in text.split("\n")))
    sys.stdout.flush()


def _text(console: Console, view: RenderableType) -> str:
    """The console's text of a view, with every character visible except those of styles."""
    plain = console.color_system is None
    with console.capture() as captured:
        console.print(view if plain else _Shown(view))
    text = captured.get().replace(_TIE, " ")
    # Without styles, the whole text is made visible at once.
    return inert(block(text) if plain else text)


def render(view: RenderableType, width: int = 80) -> str:
    """Plain text of a view, without trailing blanks."""
    text = _text(_plain(file=io.StringIO(), width=width, no_color=True), view)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def fragment(view: RenderableType, width: int = 100) -> str:
    """A view as one HTML element with its own style, for a notebook's cell."""
    console = Console(
        file=io.StringIO(),
        record=True,
        width=width,
        force_terminal=True,
        color_system="truecolor",
        markup=False,
        force_jupyter=False,  # else rich displays it as well, in its own cell
    )
    console.print(_Shown(view))
    style = "font-family:ui-monospace,Menlo,Consolas,monospace;line-height:1.3;overflow-x:auto"
    text = console.export_html(
        inline_styles=True, code_format=f'<pre class="workbench" style="{style}">{{code}}</pre>'
    )
    return text.replace(_TIE, " ")


@cache
def _paper(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, markup=False, highlight=False, emoji=False)


class Drawn:
    """A view whose rows are counted before printing; at this width, it is rendered only once."""

    def __init__(self, view: RenderableType, width: int) -> None:
        self._view, self._width = view, width

    @cached_property
    def _segments(self) -> list[Segment]:
        return list(_paper(self._width).render(self._view))

    @cached_property
    def rows(self) -> int:
        """The number of its rows, which requires rendering it."""
        return sum(segment.text.count("\n") for segment in self._segments)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width != self._width:
            yield self._view
        else:
            yield from self._segments

    @staticmethod
    def all(views: Iterable[RenderableType], width: int) -> list[RenderableType]:
        """Several views, one below the other."""
        return [Drawn(view, width) for view in views]

    @staticmethod
    def height(views: Iterable[RenderableType], width: int) -> int:
        """The rows that views take at a width in columns."""
        drawn = (view if isinstance(view, Drawn) else Drawn(view, width) for view in views)
        return sum(one.rows for one in drawn)


def needed(view: object) -> int:
    """The columns that a view (a text, table, group or inset) takes without a limit."""
    match view:
        case Group():
            return max(map(needed, view.renderables))
        case Padding():
            return view.left + needed(view.renderable) + view.right
        case Table():
            widths = [max(map(needed, column.cells), default=0) for column in view.columns]
            return sum(widths) + view.padding[1] * (len(widths) - 1)
        case rich.text.Text():
            return view.cell_len
    return cell_len(str(view))


def least(view: object, width: int) -> int:
    """The fewest rows that a view takes in this many columns; it is not drawn to find out."""
    match view:
        case Group():
            return sum(least(each, width) for each in view.renderables)
        case Padding():
            return least(view.renderable, width)
        case Table():
            wide = [0 if column.no_wrap else width for column in view.columns]
            rows = zip(*(column.cells for column in view.columns), strict=True)
            return sum(max(map(least, row, wide)) for row in rows)
        case rich.text.Text() if width and not view.no_wrap:
            return max(1, -(-view.cell_len // width))
    return 1


def tied(text: _Texts) -> _Texts:
    """The same text, without row breaks between a number and its unit."""
    text.plain = re.sub(_NUMBER, _TIE, text.plain)
    return text


def bar(share: float, width: int) -> str:
    """A horizontal bar of `width` cells for a share (0-1), in eighths of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def with_unit(value: int | float | None, unit: str) -> str:
    """A formatted value with its unit, in either of the two styles for units."""
    text = quantity(value, unit)
    return text if value is None else f"{text} {beside(unit)}".rstrip()


def section(title: str, body: RenderableType, note: str = "") -> RenderableType:
    """A titled block, indented by two."""
    head = Text(title, style=HEAD)
    if note:
        head.append(f"  {note}", style=f"not bold {DIM}")
    return Group(Text(), head, Padding(body, (0, 0, 0, 2)))


def grid(*justify: str, padding: int = 2) -> Table:
    """A borderless table; one letter per column: ``l``, ``r`` or ``f`` (left, fills the rest)."""
    table = Table.grid(padding=(0, padding, 0, 0))
    for letter in justify:
        table.add_column(
            justify="right" if letter == "r" else "left",
            no_wrap=letter != "f",
            ratio=1 if letter == "f" else None,
            overflow="ellipsis" if letter != "f" else "fold",
        )
    return table


def notes_block(notes: Sequence[str]) -> list[RenderableType]:
    """Warnings to print with the numbers, each as a paragraph."""
    table = grid("l", "f", padding=1)
    for note in notes:
        table.add_row(Text("!", style=f"bold {WARN}"), Text(told(note), style=WARN))
    return [Text(), table] if notes else []


def provenance(profile: Profile) -> str:
    """The source of numbers: problem, device, date, tool. Shown with every number."""
    device = where = profile.device.name or _("an unknown device")
    if profile.problem:
        values = ", ".join(f"{key}={value}" for key, value in profile.parameters.items())
        what = profile.problem + (f" ({values})" if values else "")
        where = _("{problem} on {device}").format(problem=what, device=device)
    tool = profile.tools.get("ncu", "")
    engine = f"ncu {tool}".strip() if profile.engine == "ncu" else _("emulator")
    text = _("{where}, captured {when} by {engine}").format(
        where=where, when=when(profile.captured), engine=engine
    )
    if clocks := profile.capture.clock_control:
        text += _(", clock control {policy}").format(policy=clocks)
    if profile.verification:
        text += _(", seed {seed}").format(seed=profile.verification.seed)
    return text


# --- a table that cuts its numbers last -----------------------------------------------------

#: Labels are not cut shorter than this; words beside numbers are left out first.
_LEAST_LABEL = 8
#: Heads of columns are cut before labels become shorter than this.
_ROOMY_LABEL = 16
#: A name may be broken after these characters.
_BREAK = r"[^\s\-_./:]*$"


class Figures:
    """Rows of cells that are laid out together once all are known.

    Rich shrinks the columns of a table that is too wide in proportion, numbers included, and
    ``15.…`` is not a number. Here the numbers keep their width; words beside them are left out
    first, then labels are shortened, then a verdict or a unit is left out.

    Args:
        kinds: One letter per column: ``n`` a number, never cut; ``t`` a word that is complete or
            left out; ``l`` a label, cut if it is too long, ``L`` one that continues below; ``w``
            words.
        width: Columns of the terminal.
        padding: Blanks between two columns.
        longest: The most columns of a label.
    """

    def __init__(self, kinds: str, width: int, *, padding: int = 2, longest: int = 40) -> None:
        self._kinds, self._width, self._padding = kinds, width, padding
        self._longest = longest
        self._rows: list[Sequence[Text]] = []
        self._head: Sequence[Text] = ()

    def head(self, *cells: Text) -> None:
        """Set the names of the columns; in a narrow table they are cut before labels."""
        self._head = cells

    def add(self, *cells: Text) -> None:
        """Add a row; its last cells may be omitted."""
        self._rows.append(cells)

    def table(self) -> Table:
        """The table, with as many columns as fit."""
        whole = [self._head, *self._rows] if self._head else self._rows
        widths = self._widths(whole)
        labels = [widths[column] for column, kind in enumerate(self._kinds) if kind in "lL"]
        if self._head and min(labels, default=_ROOMY_LABEL) < _ROOMY_LABEL:
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
            cells: dict[int, rich.text.Text] = {c: row[c] for c in kept if c < len(row)}
            for column, cell in cells.items():
                if self._kinds[column] == "L":
                    cells[column] = _hanging(cell, widths[column])
            table.add_row(*cells.values())
        return table

    def _widths(self, rows: Sequence[Sequence[Text]]) -> dict[int, int]:
        """Column -> its width; columns that do not fit are left out."""
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

        while whole and room() < _LEAST_LABEL * len(labels):
            kept.remove(whole.pop())
        widths = {column: needed[column] for column in kept}
        left = room()
        for column in labels:
            widths[column] = max(
                min(needed[column], self._longest, left), min(_LEAST_LABEL, left), 1
            )
            left -= widths[column]
        for column in words:
            if left - self._padding >= min(_LEAST_LABEL, needed[column]):
                widths[column] = min(needed[column], left - self._padding)
                left -= widths[column] + self._padding
        return widths


def name_rows(cell: rich.text.Text, width: int) -> Sequence[rich.text.Text]:
    """A name in rows of a given width, broken after the end of a word (``_``, ``,``, ``<``)."""
    if cell.cell_len <= width:
        return [cell]
    ends, start, at = list[int](), 0, 0
    for part in name_parts(cell.plain):
        if cell.plain[start:at].strip() and (
            cell_len(cell.plain[start:at] + part.rstrip()) > width
        ):
            ends.append(at)
            start = at
        at += len(part)
        # A word longer than a row must be broken.
        while cell_len(cell.plain[start:at].rstrip()) > max(width, 1):
            start += max(width, 1)
            ends.append(start)
    rows = list(cell.divide(ends))
    for row in rows:
        row.rstrip()
    return rows


def _hanging(cell: rich.text.Text, width: int) -> rich.text.Text:
    """A label in as many rows as it needs; later rows are indented further."""
    indent = len(cell.plain) - len(cell.plain.lstrip())
    rows = name_rows(cell, width - 2) if cell.cell_len > width else [cell]
    out: rich.text.Text = rows[0]
    for row in rows[1:]:
        out = stacked([out, Text(" " * (indent + 2), style=cell.style).append_text(row)])
    return out


def heads(names: tuple[str, str], longest: int) -> list[str]:
    """The parts that distinguish two names, each in `longest` columns, without equal ends.

    ``fortran-division``, ``fortran-multiplication`` -> ``…division``, ``…multiplica…``
    """
    if all(len(name) <= longest for name in names) or len(set(names)) == 1:
        return [_cut_name(name, longest) for name in names]
    before = _common(*names)
    before = re.sub(_BREAK, "", before)
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
    cut = [_cut_name(name, longest) for name in out]
    if len(set(cut)) < len(set(names)):
        cut = [name if len(name) <= longest else f"…{name[1 - longest :]}" for name in names]
    return cut


def _common(a: str, b: str) -> str:
    """The common beginning of two texts."""
    differ = (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return a[: next(differ, min(len(a), len(b)))]


def _cut_name(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1].rstrip('…')}…"
