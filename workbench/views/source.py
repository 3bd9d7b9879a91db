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


def _cut(line: str) -> str:
    if len(line) <= _MAX_LINE:
        return line
    return f"{line[:_MAX_LINE]} … ({len(line):,} characters)"


def coloured(text: str, path: str) -> list[Markup]:
    """The lines of a source file as safe HTML, one per line of `lines`.

    Args:
        text: The file's text; any characters are shown, none are interpreted.
        path: Its name, from which the language follows.
    """
    plain = [_cut(line) for line in lines(text)]
    if sum(map(len, plain)) > _MAX_COLOURED:
        return [Markup(escape(line, quote=False)) for line in plain]
    out: list[str] = []
    current: list[str] = []
    for kind, value in _lexer(path).get_tokens("\n".join(plain)):
        name = _class(kind)
        first, *rest = value.split("\n")
        current.append(_wrap(first, name))
        for part in rest:
            out.append("".join(current))
            current = [_wrap(part, name)]
    out.append("".join(current))
    # A lexer never loses text, but a page must not shift lines if one ever does.
    if len(out) != max(len(plain), 1):
        return [Markup(escape(line, quote=False)) for line in plain]
    return [Markup(line) for line in out[: len(plain)]]
