"""Front matter: the TOML by which a version's file says what it is.

A ``.cu`` file starts with ``/* ---``, TOML, ``--- */``. In a ``.py`` file the TOML
stands in the module's docstring, between two lines ``---``; where it has a ``[[launch]]``,
the file holds a Triton kernel. Line numbers in records and errors are the file's own,
1-based. docs/front-matter.md lists the keys.
"""

from __future__ import annotations

import ast
import re
import warnings
from functools import lru_cache
from typing import Literal

from workbench.disk.limits import FRONT_MATTER, read_toml
from workbench.errors import UsageError
from workbench.model import Record
from workbench.specs import Description, Version
from workbench.study.flags import refusal
from workbench.study.keys import Keys
from workbench.study.tables import (
    read_define,
    read_expectation,
    read_fill,
    read_launch,
    read_scratch,
    read_tensor_map,
)

Kind = Literal["cuda", "triton", "python"]

_OPEN = re.compile(r"\A\s*/\*[ \t]*---[ \t]*\n")
_CLOSE = re.compile(r"^[ \t]*---\s*\*/", re.MULTILINE)

#: Keys that only code compiled here has.
_COMPILED = ("launch", "scratch", "fill", "tensor_map", "defines", "flags", "arch_specific")


class FrontMatter(Description, frozen=True, kw_only=True):
    """What a version's file says of itself, checked but not yet evaluated.

    `lines` are the first and last line of the front matter.
    """

    lines: tuple[int, int]
    keys: Keys

    @property
    def key_lines(self) -> dict[str, int]:
        """The line of each key by its path, for example ``launch[0].grid``."""
        return self.keys.lines


class _Header(Record, frozen=True):
    """Where the TOML stands: its text, its first line, the block's own lines."""

    toml: str
    first: int
    lines: tuple[int, int]


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _cuda_block(text: str, path: str) -> _Header | None:
    start = _OPEN.match(text)
    if start is None:
        return None
    end = _CLOSE.search(text, start.end())
    opened = _line(text, text.index("/*"))
    if end is None:
        raise UsageError(
            f"{path}:{opened}: the front matter is not closed",
            "End it with a line `--- */`.",
        )
    toml = text[start.end() : end.start()]
    if "*/" in toml:
        line = _line(text, start.end() + toml.index("*/"))
        raise UsageError(
            f"{path}:{line}: `*/` inside the front matter ends the comment early",
            "Remove it: the compiler takes what follows for code.",
        )
    return _Header(
        toml=toml,
        first=_line(text, start.end()),
        lines=(opened, _line(text, end.end())),
    )


@lru_cache(maxsize=256)
def _docstring(text: str, path: str) -> ast.Expr | None:
    try:
        with warnings.catch_warnings():
            # Python itself warns of "\\d" in a docstring when it runs the file.
            warnings.simplefilter("ignore")
            body = ast.parse(text).body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        reason = getattr(error, "msg", None) or str(error) or "nested too deeply"
        raise UsageError(
            f"{path}:{line}: not valid Python: {reason}", "Correct the file."
        ) from None
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return body[0] if isinstance(body[0].value.value, str) else None
    return None


def _python_block(text: str, path: str) -> _Header | None:
    node = _docstring(text, path)
    if node is None or node.end_lineno is None:
        return None
    rows = text.split("\n")[node.lineno - 1 : node.end_lineno]
    # The opening quotes may stand on the line of the first "---".
    rows[0] = re.sub(r"^\s*[rRuU]?(\"\"\"|''')", "", rows[0])
    marks = [index for index, row in enumerate(rows) if row.strip() == "---"]
    if not marks:
        return None
    if len(marks) == 1:
        raise UsageError(
            f"{path}:{node.lineno + marks[0]}: the front matter is not closed",
            "End it with a second line `---` in the docstring.",
        )
    first, last = marks[0], marks[1]
    return _Header(
        toml="\n".join(rows[first + 1 : last]) + "\n",
        first=node.lineno + first + 1,
        lines=(node.lineno + first, node.lineno + last),
    )


def _block(text: str, path: str, kind: Kind) -> _Header | None:
    return _cuda_block(text, path) if kind == "cuda" else _python_block(text, path)


def present(text: str, *, path: str, kind: Kind) -> bool:
    """Whether the text starts with front matter.

    Raises:
        UsageError: front matter that is opened and not closed, or a ``.py`` file
            that is no Python.
    """
    return _block(text, path, kind) is not None


def code(text: str, *, kind: Kind) -> str:
    """The text without what only describes it: front matter, or the whole docstring."""
    if kind == "cuda":
        block = _cuda_block(text, "")
        return text if block is None else "\n".join(text.split("\n")[block.lines[1] :])
    node = _docstring(text, "")
    if node is None or node.end_lineno is None:
        return text
    rows = text.split("\n")
    return "\n".join(rows[: node.lineno - 1] + rows[node.end_lineno :])


def _load(block: _Header, path: str) -> dict[str, object]:
    if len(block.toml) > FRONT_MATTER.bytes:
        found = f"has {len(block.toml):,} characters of front matter"
        told = FRONT_MATTER.exceeded(f"{path}:{block.lines[0]}", found)
        raise UsageError(told.message, told.hint)
    try:
        return read_toml(block.toml)
    except ValueError as error:
        message = str(error)
        place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
        line = block.lines[1]
        column = ""
        if place is not None:
            message = message[: place.start()]
            if place[1]:
                line = block.first + int(place[1]) - 1
                column = f" (column {place[2]})"
        raise UsageError(
            f"{path}:{line}: not valid TOML: {message}{column}",
            "Correct the front matter; docs/front-matter.md shows every key.",
        ) from None


@lru_cache(maxsize=256)
def parse(text: str, *, path: str, kind: Kind) -> FrontMatter:
    """Read and check the front matter of a version's file.

    What was read is remembered by the text: whoever watches a study edits one of its versions.

    Args:
        text: The whole file.
        path: Name of the file in messages.
        kind: ``cuda`` for a ``.cu``, else a ``.py``.

    Raises:
        UsageError: no front matter, TOML that does not parse, an unknown key, a
            wrong type or a missing key; names file, line and the nearest right key.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    block = _block(text, path, kind)
    if block is None:
        form = "`/* ---`, TOML, `--- */`" if kind == "cuda" else "a docstring with TOML in `---`"
        raise UsageError(
            f"{path}:1: no front matter",
            f"A version's file starts with {form}; `workbench new` writes one.",
        )
    table = _load(block, path)
    keys = Keys(path, block.toml, block.first, block.lines[0])
    said = keys.read(table)
    triton = kind != "cuda" and bool(said.launch)
    if kind != "cuda":
        for key in ("flags",) if triton else _COMPILED:
            if key in table:
                keys.fail(
                    key,
                    f"`{key}` has no meaning in a .py version"
                    + ("" if triton else " without [[launch]]"),
                    "Triton takes num_warps, num_stages in [[launch]], constants in [defines]."
                    if triton
                    else "Its prepare() launches what it needs.",
                )
    elif not said.launch:
        keys.fail("launch", "no [[launch]]", "Add one: kernel, grid, block and args.")
    if wrong := refusal(said.flags):
        keys.fail("flags", *wrong)
    if said.tolerance is not None and not said.tolerance_why.strip():
        keys.fail(
            "tolerance",
            "`tolerance` without `tolerance_why`",
            "Say why this version may be less exact than the study's tolerance.",
        )
    taken: set[str] = set()
    filled: set[str] = set()
    return FrontMatter(
        title=keys.required("title", said.title),
        parent=None if said.parent is None else said.parent.strip(),
        change=said.change.strip(),
        baseline=said.baseline,
        launches=tuple(read_launch(keys, *each, triton) for each in enumerate(said.launch)),
        scratch=tuple(read_scratch(keys, *each, taken) for each in enumerate(said.scratch)),
        fills=tuple(read_fill(keys, *each, filled) for each in enumerate(said.fill)),
        defines={name: read_define(keys, name, value) for name, value in said.defines.items()},
        tensor_maps=tuple(
            read_tensor_map(keys, *each, taken) for each in enumerate(said.tensor_map)
        ),
        flags=said.flags,
        arch_specific=said.arch_specific,
        requires=said.requires.strip(),
        requires_why=said.requires_why.strip(),
        tolerance=said.tolerance,
        tolerance_why=said.tolerance_why.strip(),
        expectations=tuple(read_expectation(keys, *each) for each in enumerate(said.expect)),
        lines=block.lines,
        keys=keys,
    )


def place(version: Version, key: str) -> str:
    """``kernels/sgemm/v3_padded.cu:7``: where a key of the front matter stands."""
    front = parse(version.text, path=version.path, kind=version.kind)
    line = front.key_lines.get(key) or front.key_lines.get(key.rpartition(".")[0])
    return f"{version.path}:{line or front.lines[0]}"
