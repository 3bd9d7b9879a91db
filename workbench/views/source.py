"""Source text to coloured lines: Pygments decides the tokens, the stylesheet the colours."""

from __future__ import annotations

from html import escape

from markupsafe import Markup
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.c_like import CudaLexer
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

#: Headers of CUDA code are CUDA code; Pygments would take them for C.
_CUDA = (".cu", ".cuh", ".h", ".hpp", ".hxx", ".inl", ".cc", ".cpp")
#: Beyond this, colours cost seconds and help nobody; the text is then shown plain.
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


class _Line:
    """A line under construction; neighbours of one class share a span, which halves the bytes."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, str]] = []

    def add(self, text: str, name: str) -> None:
        if self._parts and self._parts[-1][1] == name:
            self._parts[-1] = (self._parts[-1][0] + text, name)
        elif text:
            self._parts.append((text, name))

    def html(self) -> str:
        return "".join(_wrap(text, name) for text, name in self._parts)


def _tail(line: str) -> str:
    return f" … ({len(line):,} characters)" if len(line) > _MAX_LINE else ""


def coloured(text: str, path: str) -> list[Markup]:
    """The lines of a source file as safe HTML, one per line of `lines`.

    Args:
        text: The file's text; any characters are shown, none are interpreted.
        path: Its name, from which the language follows.
    """
    whole = lines(text)
    tails = [_tail(line) for line in whole]
    plain = [line[:_MAX_LINE] for line in whole]
    found = _tokens(plain, path) if sum(map(len, plain)) <= _MAX_COLOURED else []
    # A lexer never loses text, but a page must not shift lines if one ever does.
    if len(found) != len(plain):
        found = [escape(line, quote=False) for line in plain]
    return [Markup(line + tail) for line, tail in zip(found, tails, strict=True)]


def _tokens(plain: list[str], path: str) -> list[str]:
    done = [_Line()]
    # Without an end of line, Pygments' C++ does not see a comment in the last line.
    for kind, value in _lexer(path).get_tokens("".join(f"{line}\n" for line in plain)):
        first, *rest = value.split("\n")
        name = _class(kind)
        done[-1].add(first, name)
        for part in rest:
            done.append(_Line())
            done[-1].add(part, name)
    return [line.html() for line in done[:-1]]
