"""On which line each key of a TOML document stands; tomllib does not say.

Only what is needed for that is recognized: headers, keys, strings, brackets and
comments. The document is read by `tomli` as well, so this scan may take any
valid document for granted and must merely not fail on another one.
"""

from __future__ import annotations

import re

_HEADER = re.compile(r"[ \t]*(\[\[?)[ \t]*([^\]\n]+?)[ \t]*\]\]?")
_KEY = re.compile(r"[ \t]*((?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')(?:[ \t]*\.[ \t]*[\w-]+)*)[ \t]*=")
_TOKEN = re.compile(
    r"""[^"'#\[\]{}\n]*+("""
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"{3,5}'  # multi-line basic string; may end in up to five quotes
    r"|'''(?:[^']++|'(?!''))*+'{3,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]"
    r"""|["'])""",  # one that nothing closes: not a valid document
    re.DOTALL,
)


def _plain(key: str) -> str:
    if key.isidentifier():
        return key
    return ".".join(part.strip().strip("\"'") for part in key.split("."))


def key_lines(toml: str) -> dict[str, int]:
    """The line (1-based) of every key and table header, by its path.

    A table of an array is ``launch[0]``, its keys ``launch[0].grid``. A key that
    stands twice (which TOML forbids) keeps its first line.
    """
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    prefix = ""
    offset, before, line = 0, 0, 1
    while offset < len(toml):
        # `offset` is at the start of a statement: a header, a key, or a blank line.
        line += toml.count("\n", before, offset)
        before = offset
        header = _HEADER.match(toml, offset)
        key = _KEY.match(toml, offset)
        if header is not None:
            name = _plain(header[2])
            if header[1] == "[[":
                index = counts.get(name, 0)
                counts[name] = index + 1
                lines.setdefault(name, line)
                name = f"{name}[{index}]"
            lines.setdefault(name, line)
            prefix = f"{name}."
            offset = header.end()
        elif key is not None:
            lines.setdefault(prefix + _plain(key[1]), line)
            offset = key.end()
        offset = _statement_end(toml, offset)
    return lines


def _statement_end(toml: str, offset: int) -> int:
    """The offset after the line end that closes the statement around `offset`."""
    depth = 0
    while (token := _TOKEN.match(toml, offset)) is not None:
        offset = token.end()
        first = token[1]
        if first in "[{":
            depth += 1
        elif first in "]}":
            depth -= 1
        elif first == "\n" and depth <= 0:
            return offset
    return len(toml)
