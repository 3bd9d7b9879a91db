"""Source text to tokens by line: what a line means to the compiler, and what it only says to us.

Two lines are *equal as code* when their tokens are equal; white space and comments
are no tokens. The lexer never fails: text that no compiler would take still gives
tokens, one character at worst, so that any bytes can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

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
