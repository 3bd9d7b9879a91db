"""Lines of code: their colours, and beside each a counter as text, a bar and a note.

A version's page has the lines of one launch. A step's page has those of both sides on one scale;
several launches of a side may count on the same lines and are added. Pygments decides the tokens,
the stylesheet the colours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape
from itertools import groupby, pairwise
from typing import NamedTuple

from markupsafe import Markup
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.c_like import CudaLexer
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

from workbench import units
from workbench.analysis.line_notes import (
    COUNTED,
    Amounts,
    Lines,
    counted_beside,
    samples_beside,
    time_beside,
)
from workbench.gpus import WARP_SIZE
from workbench.language import N_, _
from workbench.model import Launch, LineKey, Number, Profile, Record, line_counters
from workbench.views.html.parts import profiled, width

_DIVERGENT = ("divergent", N_("Divergent branches"), "divergent_branches", "")


class Cell(NamedTuple):
    """A line's number: its text, the widths of its bar and of the excess (CSS percent), a note.

    In JSON it is a list, which the page's script draws like `markup`.
    """

    text: str
    width: float
    excess: float = 0.0
    note: str = ""

    def markup(self, before: str = "", *, titled: bool = False) -> str:
        """The cell as HTML: the amount's bar, with the excess over the ideal hatched, and the text.

        `before` is markup between them; if `titled`, the note is the text's title.
        """
        bar = f'<i style="width:{self.width}%"></i>' if self.width else ""
        bar += f'<i class="x" style="width:{self.excess}%"></i>' if self.excess else ""
        title = f' title="{escape(self.note)}"' if titled else ""
        return f"{bar}{before}<span{title}>{escape(self.text)}</span>"


class Gutter(Record, frozen=True):
    """One counter beside the lines: its heading, the note's heading, cells by line key."""

    id: str
    title: str
    note: str
    cells: dict[LineKey, Cell]


class PairGutter(Record, frozen=True):
    """One counter beside the lines of both sides; cells are by (file index, line)."""

    id: str
    title: str
    old: dict[LineKey, Cell]
    new: dict[LineKey, Cell]


def gutters(launch: Launch, lines: Lines) -> tuple[Gutter, ...]:
    """The counters that a launch holds per line, the most informative first."""
    found = [("samples", _("Warp samples"), _("largest stall"), samples_beside(launch))]
    for identity, title, counter, ideal in (*COUNTED, _DIVERGENT):
        amounts = counted_beside([(launch, lines)], counter, ideal)
        note = _("against the ideal") if ideal else ""
        if counter == "instructions" and (lanes := _lanes(launch, lines)) is not None:
            amounts = {key: item._replace(note=lanes(key)) for key, item in amounts.items()}
            note = _("active lanes")
        found.append((identity, _(title), note, amounts))
    return tuple(
        Gutter(id=identity, title=title, note=note, cells=_cells(amounts, top))
        for identity, title, note, amounts in found
        if (top := _largest(amounts))
    )


def pair_gutters(old: Profile, new: Profile) -> tuple[PairGutter, ...]:
    """The counters that at least one side holds per line, the most informative first."""
    sides = [
        [
            (launch, {key: own for key, own in line_counters(launch).items() if key[1] > 0})
            for launch in profiled(profile)
        ]
        for profile in (old, new)
    ]
    found = [("time", _("Time"), time_beside(old), time_beside(new))]
    for identity, title, counter, ideal in COUNTED:
        before, after = (counted_beside(side, counter, ideal) for side in sides)
        found.append((identity, _(title), before, after))
    return tuple(
        PairGutter(id=identity, title=title, old=_cells(before, top), new=_cells(after, top))
        for identity, title, before, after in found
        if (top := _largest(before, after))
    )


def _largest(*sides: Amounts) -> Number:
    return max((item.total for side in sides for item in side.values()), default=0)


def _cells(side: Amounts, top: Number) -> dict[LineKey, Cell]:
    return {
        key: Cell(
            item.text,
            float(width(item.total / top)),
            float(width(item.excess / top)) if item.excess else 0.0,
            item.note,
        )
        for key, item in side.items()
        if item.total
    }


def _lanes(launch: Launch, lines: Lines) -> Callable[[LineKey], str] | None:
    """A function from a line to its active lanes in words; None if the launch lacks them."""
    columns = launch.instructions.columns
    kind = next((kind for kind in ("", "ptx__") if f"{kind}thread_inst_executed" in columns), None)
    if kind is None:
        return None

    def said(key: LineKey) -> str:
        issued = lines[key].get(f"{kind}inst_executed", 0)
        lanes = lines[key].get(f"{kind}thread_inst_executed", 0) / issued if issued else WARP_SIZE
        words = _("{n} of {all} lanes").format(n=units.digits3(lanes), all=WARP_SIZE)
        return words if lanes < WARP_SIZE else ""

    return said


#: Headers of CUDA code are CUDA code; Pygments would take them for C.
_CUDA = (".cu", ".cuh", ".h", ".hpp", ".hxx", ".inl", ".cc", ".cpp")
#: Beyond this, colours cost seconds and do not help; the text is then shown plain.
_MAX_COLOURED = 400_000
#: A longer line is cut on the page (a minified header, a table of constants).
_MAX_LINE = 2_000

#: Token type -> class in workbench.css; the first ancestor that matches wins.
_CLASSES = {
    Token.Comment.Preproc: "pre",
    Token.Comment.PreprocFile: "pre",
    Token.Comment: "com",
    Token.Keyword.Type: "type",
    Token.Keyword: "key",
    Token.Name.Builtin: "type",
    Token.Literal.String: "str",
    Token.Literal.Number: "nr",
}


def _lexer(path: str) -> Lexer:
    options = {"stripnl": False, "ensurenl": False}
    name = path.rsplit("/", 1)[-1]
    if "." not in name or name.endswith(_CUDA):
        return CudaLexer(**options)
    try:
        return get_lexer_for_filename(name, **options)
    except ClassNotFound:
        return CudaLexer(**options)


def _class(kind: _TokenType) -> str:
    for ancestor in reversed(kind.split()):
        if ancestor in _CLASSES:
            return _CLASSES[ancestor]
    return ""


def _wrap(text: str, name: str) -> str:
    safe = escape(text, quote=False)
    return f'<span class="{name}">{safe}</span>' if name and text.strip() else safe


def lines(text: str) -> list[str]:
    r"""Split as compilers count lines: at ``\n`` (after ``\r\n`` became one), nowhere else."""
    out = text.replace("\r\n", "\n").split("\n")
    if out and not out[-1]:
        out.pop()
    return out


#: A run of text in one class of tokens ("" for none).
Piece = tuple[str, str]


class Span(NamedTuple):
    """Characters ``first`` to ``last`` (excluded) of a line, with a mark.

    `name` is ``mark`` for a difference from the other side, ``sym`` for a linked symbol.
    """

    first: int
    last: int
    name: str


def _join(line: list[Piece], text: str, name: str) -> None:
    """Append a run; neighbouring runs of one class share a span, which halves the bytes."""
    if line and line[-1][1] == name:
        line[-1] = (line[-1][0] + text, name)
    elif text:
        line.append((text, name))


@lru_cache(maxsize=32)
def pieces(text: str, path: str) -> list[list[Piece]]:
    """The lines of a source file as runs of text and class, one list per line of `lines`.

    Cached for the next page: a source is on its version's page and on those of two steps. The lists
    are shared, so they are read-only. The path decides the language.
    """
    whole = lines(text)
    plain = [line[:_MAX_LINE] for line in whole]
    found = _tokens(plain, path) if sum(map(len, plain)) <= _MAX_COLOURED else []
    # A lexer never loses text, but a page must not shift lines if one ever does.
    if len(found) != len(plain):
        found = [[(line, "")] if line else [] for line in plain]
    for line, row in zip(whole, found, strict=True):
        _join(row, f" … ({len(line):,} characters)" if len(line) > _MAX_LINE else "", "")
    return found


@lru_cache(maxsize=32)
def coloured(text: str, path: str) -> list[Markup]:
    """The lines of a source file as safe HTML; all characters are shown, none interpreted.

    The lists are shared, as in `pieces`.
    """
    return [marked(line) for line in pieces(text, path)]


def marked(line: Sequence[Piece], spans: Sequence[Span] = ()) -> Markup:
    """One line of `pieces` as safe HTML, with marks; a symbol may be inside a difference."""
    if not spans:
        return Markup("".join(_wrap(text, name) for text, name in line))
    out = []
    cut = _cut(line, sorted({end for span in spans for end in span[:2]}))
    for differs, run in groupby(cut, key=lambda item: _covers(spans, item[0], "mark")):
        inner = []
        for start, text, name in run:
            html = _wrap(text, name)
            inner.append(f'<b class="s">{html}</b>' if _covers(spans, start, "sym") else html)
        joined = "".join(inner)
        out.append(f"<mark>{joined}</mark>" if differs else joined)
    return Markup("".join(out))


def words_at(line: str, names: set[str]) -> list[Span]:
    """The spans of these names in a line, as whole words."""
    if not names:
        return []
    return [
        Span(match.start(), match.end(), "sym")
        for match in re.finditer(r"[^\W\d]\w*", line)
        if match.group() in names
    ]


def _covers(spans: Sequence[Span], place: int, name: str) -> bool:
    return any(span.name == name and span.first <= place < span.last for span in spans)


def _cut(line: Sequence[Piece], ends: list[int]) -> list[tuple[int, str, str]]:
    """Runs cut at the given positions, each with its start."""
    out, start = [], 0
    for text, name in line:
        stop = start + len(text)
        edges = [start, *(end for end in ends if start < end < stop), stop]
        out += [(a, text[a - start : b - start], name) for a, b in pairwise(edges)]
        start = stop
    return out


def _tokens(plain: list[str], path: str) -> list[list[Piece]]:
    done: list[list[Piece]] = [[]]
    # Without an end of line, Pygments' C++ does not see a comment in the last line.
    for kind, value in _lexer(path).get_tokens("".join(f"{line}\n" for line in plain)):
        first, *rest = value.split("\n")
        name = _class(kind)
        _join(done[-1], first, name)
        for part in rest:
            done.append([])
            _join(done[-1], part, name)
    return done[:-1]
