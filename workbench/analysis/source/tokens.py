"""Source text as tokens by line, and lines as statements: what a difference of sources is made of.

Two lines are *equal as code* when their tokens are equal; white space and comments
are no tokens. The lexer never fails: text that no compiler would take still gives
tokens, one character at worst, so that any bytes can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from workbench.analysis.source.alignment import Pair, align

Language = Literal["cuda", "python"]

# One alternative per lexical class of C++ (ISO C++ [lex.token]); phases 1-2 (line
# splices) are honoured only where they matter to lines: in comments and macros.
_CUDA = re.compile(
    r"""
    (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s"]{0,16})\(.*?(?:\)(?P=delimiter)"|\Z))
  | (?P<string>(?:u8|[uUL])?"(?:\\[^\n]|[^"\\\n])*"?|'(?:\\[^\n]|[^'\\\n])*'?)
  | (?P<splice>\\\r?(?=\n))
  | (?P<newline>\n)
  | (?P<space>[^\S\n]+)
  | (?P<word>[^\W\d][\w$]*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<operator><<<|>>>|<<=|>>=|<=>|\.\.\.|->\*|::|->|\+\+|--|&&|\|\||\#\#|[-+*/%&|^<>=!]=|<<|>>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
# Python's indentation is meaning, so leading white space is a token of its own there.
_PYTHON = re.compile(
    r"""
    (?P<comment>\#[^\n]*)
  | (?P<raw>(?i:[rbuf]{0,2})(?P<delimiter>\"\"\"|''').*?(?:(?P=delimiter)|\Z))
  | (?P<string>(?i:[rbuf]{0,2})(?:"(?:\\[^\n]|[^"\\\n])*"?|'(?:\\[^\n]|[^'\\\n])*'?))
  | (?P<newline>\n)
  | (?P<indent>(?:(?<=\n)|\A)[ \t]+(?=[^\s\#]))
  | (?P<space>[^\S\n]+)
  | (?P<word>[^\W\d]\w*)
  | (?P<number>\.?\d(?:[eE][+-]|[\w.])*)
  | (?P<operator>\*\*=|//=|>>=|<<=|->|:=|\*\*|//|[-+*/%&|^<>=!@]=|<<|>>|.)
    """,
    re.VERBOSE | re.DOTALL,
)

#: Words that many lines share whatever they do; a line of these alone says nothing.
_COMMON_WORDS = frozenset(
    {"__syncthreads", "__syncwarp", "return", "else", "break", "continue", "do", "default", "try"}
    | {"pragma", "unroll", "endif", "public", "private", "pass"}
)

_SILENT = frozenset({"comment", "space", "splice", "newline"})

Tokens = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """One file, by line. All three tuples have one entry per line; line n has index n - 1.

    `tokens` are what the compiler sees; `comments` the comment text on the line,
    its white space normalized; `lines` the text without its line end.
    """

    path: str
    lines: tuple[str, ...]
    tokens: tuple[Tokens, ...]
    comments: tuple[str, ...]
    language: Language = "cuda"

    @property
    def text(self) -> str:
        """The text with plain line feeds."""
        return "\n".join(self.lines)


def language_of(path: str) -> Language:
    """By the file's ending: ``.py`` is Python (Triton, PyTorch), all else CUDA C++."""
    return "python" if path.endswith(".py") else "cuda"


# A version is on both sides of steps, and its headers are those of all others.
@lru_cache(maxsize=64)
def scan(text: str, path: str = "") -> Source:
    """Split a text into lines and tokens. Lines end at line feeds, as for a compiler.

    Any text is taken: CRLF, control characters, replacement characters of a wrong
    decoding, lines of any length. The time is linear in the length.
    """
    text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    if len(lines) > 1 and lines[-1] == "":
        lines.pop()
    language = language_of(path)
    tokens: list[list[str]] = [[] for _ in lines] or [[]]
    comments: list[list[str]] = [[] for _ in tokens]
    row, last = 0, len(tokens) - 1
    for match in (_PYTHON if language == "python" else _CUDA).finditer(text):
        kind = match.lastgroup
        if kind == "newline":
            row = min(row + 1, last)
        elif kind in ("space", "splice"):
            continue
        elif kind in ("comment", "raw", "delimiter"):
            # A comment or raw string may run over many lines: each gets its piece.
            target = comments if kind == "comment" else tokens
            for number, piece in enumerate(match.group().split("\n")):
                row = min(row + (number > 0), last)
                piece = " ".join(piece.split()) if kind == "comment" else piece
                if piece:
                    target[row].append(piece)
        else:
            tokens[row].append(match.group())
    return Source(
        path=path,
        lines=tuple(lines),
        tokens=tuple(map(tuple, tokens)),
        comments=tuple(" ".join(c) for c in comments),
        language=language,
    )


def tokens_of(text: str) -> Tokens:
    """Tokens of a piece of CUDA source, white space and comments left out."""
    return tuple(m.group() for m in _CUDA.finditer(text) if m.lastgroup not in _SILENT)


def renamed(tokens: Tokens, names: Mapping[str, str]) -> Tokens:
    """Tokens with old names replaced by their new ones."""
    if not names or names.keys().isdisjoint(tokens):
        return tokens
    return tuple(names.get(token, token) for token in tokens)


@lru_cache(maxsize=1 << 14)
def information(tokens: Tokens) -> int:
    """How much a line says: its tokens that are neither punctuation nor a common word.

    ``}`` and ``__syncthreads();`` give 0: that two such lines are equal is no sign
    that they are the same line.
    """
    return sum(1 for t in tokens if t not in _COMMON_WORDS and (t[:1].isalnum() or t[:1] == "_"))


# --- Statements: whole, and the same however they are broken into lines --------------------------
#
# Lines are aligned first (`alignment`), since counters and readers know lines. Two things
# follow from what a statement is. A line that only continues an edited statement has changed
# with it. And a statement with the same tokens on both sides has not changed, wherever its
# line breaks are: its lines on one side, together, are its lines on the other.

Range = tuple[int, int]
#: The statements of two files that have several lines, old and new; asked for once needed.
Statements = Callable[[], tuple[Sequence[Range], Sequence[Range]]]

#: A longer statement is most likely a table: one entry that is edited is not all of them.
_LONGEST = 40


def joined(found: Iterable[Range]) -> list[Range]:
    """Ranges of several lines, those that share a line as one; ascending."""
    out: list[Range] = []
    for first, last in sorted(found):
        if out and first <= out[-1][1]:
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return [each for each in out if each[0] < each[1]]


@dataclass(slots=True)
class CodeLines:
    """The lines of one side that hold code and take part, and their statements.

    `names` are the new names of what was only renamed.
    """

    source: Source
    lines: Sequence[int]
    names: Mapping[str, str] = field(default_factory=dict)
    unit: dict[int, Range] = field(default_factory=dict)

    def join(self, statements: Iterable[Range]) -> None:
        """Take note of the statements all of whose lines take part."""
        chosen = set(self.lines)
        for first, last in statements:
            code = [n for n in range(first, last + 1) if self.source.tokens[n - 1]]
            if last - first < _LONGEST and len(code) > 1 and chosen.issuperset(code):
                self.unit.update(dict.fromkeys(code, (first, last)))

    def code(self, unit: Range) -> list[int]:
        """Lines of a statement that hold tokens."""
        return [n for n in range(unit[0], unit[1] + 1) if self.source.tokens[n - 1]]

    def key(self, unit: Range) -> Tokens:
        """Tokens of a statement under their new names, indentation of its first line alone."""
        out: list[str] = []
        for n in self.code(unit):
            out += (t for t in self.source.tokens[n - 1] if not out or not t.isspace())
        return renamed(tuple(out), self.names)

    def units(self, first: int, last: int) -> list[Range]:
        """Statements, or lines that are one by themselves, from one line to another."""
        lines = (n for n in self.lines if first <= n <= last)
        return list(dict.fromkeys(self.unit.get(n, (n, n)) for n in lines))


def pair_statements(
    pairs: Sequence[Pair], old: CodeLines, new: CodeLines, statements: Statements
) -> tuple[list[Pair], list[tuple[Range, Range]]]:
    """Make an alignment of lines one of statements.

    Args:
        pairs: Unchanged lines (old, new), 1-based, increasing on both sides.
        old: The lines of the old side.
        new: The lines of the new side.
        statements: Which lines are one statement.

    Returns:
        Pairs without the lines of edited statements, and with those of whole statements
        that lines alone had not shown to be equal; and the statements that only have
        other line breaks.
    """
    if len(pairs) == len(old.lines) == len(new.lines):
        return list(pairs), []
    for side, found in zip((old, new), statements(), strict=True):
        side.join(found)
    kept = _without_edited(pairs, (old, new))
    again, reflowed = _paired_again(kept, old, new)
    return sorted([*kept, *again]), reflowed


def _without_edited(pairs: Sequence[Pair], sides: tuple[CodeLines, CodeLines]) -> list[Pair]:
    """Pairs but for the lines of statements of which some line has no partner."""
    twins = dict(pairs), {j: i for i, j in pairs}
    todo = [(n, unit) for n in (0, 1) for unit in dict.fromkeys(sides[n].unit.values())]
    while todo:
        n, unit = todo.pop()
        here, there = twins[n], twins[1 - n]
        code = sides[n].code(unit)
        paired = [line for line in code if line in here]
        if len(paired) == len(code):
            continue
        for line in paired:
            partner = here.pop(line)
            del there[partner]
            if partner in sides[1 - n].unit:  # its statement is edited as well
                todo.append((1 - n, sides[1 - n].unit[partner]))
    return sorted(twins[0].items())


def _paired_again(
    pairs: Sequence[Pair], old: CodeLines, new: CodeLines
) -> tuple[list[Pair], list[tuple[Range, Range]]]:
    """Statements between the pairs that have the same tokens on both sides."""
    again: list[Pair] = []
    reflowed: list[tuple[Range, Range]] = []
    last = (len(old.source.lines) + 1, len(new.source.lines) + 1)
    for (i, j), (x, y) in pairwise([(0, 0), *pairs, last]):
        units = old.units(i + 1, x - 1), new.units(j + 1, y - 1)
        if not all(units) or all(a == b for side in units for a, b in side):
            continue
        keys = [old.key(unit) for unit in units[0]], [new.key(unit) for unit in units[1]]
        weights = {key: information(key) for side in keys for key in side}
        for a, b in align(*keys, weights):
            one, other = units[0][a], units[1][b]
            lines = old.code(one), new.code(other)
            if len(lines[0]) == len(lines[1]) == 1 or not weights[keys[0][a]]:
                continue  # that two such lines are no pair was decided by their surroundings
            texts = [
                [renamed(old.source.tokens[n - 1], old.names) for n in lines[0]],
                [new.source.tokens[n - 1] for n in lines[1]],
            ]
            if texts[0] == texts[1]:
                again += zip(*lines, strict=True)
            else:
                reflowed.append((one, other))
    return again, reflowed
