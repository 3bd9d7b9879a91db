"""Front matter: the TOML by which a version's file says what it is.

A ``.cu`` file starts with ``/* ---``, TOML, ``--- */``. In a ``.py`` file the TOML
stands in the module's docstring, between two lines ``---``. Line numbers in
records and errors are the file's own, 1-based. docs/front-matter.md lists the keys.
"""

from __future__ import annotations

import ast
import re
import tomllib
import warnings
from typing import Literal

import msgspec

from workbench.errors import UsageError
from workbench.model import Expectation, LaunchSpec, Record, ScratchSpec
from workbench.nearest import did_you_mean
from workbench.study.frontkeys import Reader
from workbench.study.predictions import parse as parse_prediction

Kind = Literal["cuda", "python"]

_OPEN = re.compile(r"\A\s*/\*[ \t]*---[ \t]*\n")
_CLOSE = re.compile(r"^[ \t]*---\s*\*/", re.MULTILINE)

#: The keys of the front matter and of its tables.
TOP_KEYS = (
    "title",
    "parent",
    "change",
    "baseline",
    "launch",
    "expect",
    "scratch",
    "defines",
    "flags",
    "requires",
    "requires_why",
    "tolerance",
    "tolerance_why",
)
LAUNCH_KEYS = ("kernel", "grid", "block", "args", "dynamic_shared", "cluster")
EXPECT_KEYS = ("counter", "change", "why", "learned")
SCRATCH_KEYS = ("name", "dtype", "shape")
#: Keys that only code compiled by nvcc has.
_CUDA_ONLY = ("launch", "scratch", "defines", "flags")
#: Element types of scratch buffers, by their NumPy names.
DTYPES = (
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


class FrontMatter(Record, frozen=True):
    """What a version's file says of itself, checked but not yet evaluated.

    `lines` are the first and last line of the front matter; `key_lines` gives the
    line of each key by its path, for example ``launch[0].grid``.
    """

    title: str
    parent: str | None = None
    change: str = ""
    baseline: bool = False
    launches: tuple[LaunchSpec, ...] = ()
    scratch: tuple[ScratchSpec, ...] = ()
    defines: dict[str, str] = msgspec.field(default_factory=dict)
    flags: tuple[str, ...] = ()
    requires: str = ""
    requires_why: str = ""
    tolerance: float | None = None
    tolerance_why: str = ""
    expectations: tuple[Expectation, ...] = ()
    lines: tuple[int, int] = (0, 0)
    key_lines: dict[str, int] = msgspec.field(default_factory=dict)


class _Block(Record, frozen=True):
    """Where the TOML stands: its text, its first line, the block's own lines."""

    toml: str
    first: int
    lines: tuple[int, int]


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _cuda_block(text: str, path: str) -> _Block | None:
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
    return _Block(
        toml=toml,
        first=_line(text, start.end()),
        lines=(opened, _line(text, end.end())),
    )


def _docstring(text: str, path: str) -> ast.Expr | None:
    try:
        with warnings.catch_warnings():
            # Python itself warns of "\\d" in a docstring when it runs the file.
            warnings.simplefilter("ignore")
            body = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        reason = getattr(error, "msg", None) or str(error)
        raise UsageError(
            f"{path}:{line}: not valid Python: {reason}", "Correct the file."
        ) from None
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return body[0] if isinstance(body[0].value.value, str) else None
    return None


def _python_block(text: str, path: str) -> _Block | None:
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
    return _Block(
        toml="\n".join(rows[first + 1 : last]) + "\n",
        first=node.lineno + first + 1,
        lines=(node.lineno + first, node.lineno + last),
    )


def _block(text: str, path: str, kind: Kind) -> _Block | None:
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


def _launches(reader: Reader, table: dict[str, object]) -> tuple[LaunchSpec, ...]:
    launches = []
    for index, entry in enumerate(reader.tables(table, "launch")):
        prefix = f"launch[{index}]."
        reader.check_keys(entry, LAUNCH_KEYS, prefix)
        kernel = reader.required(entry, "kernel", prefix)
        if not _IDENTIFIER.match(kernel):
            reader.fail(
                prefix + "kernel",
                f"`{kernel}` is no function name",
                'Write the name alone; the kernel is declared extern "C" __global__.',
            )
        for key in ("grid", "block"):
            if not entry.get(key):
                reader.fail(
                    prefix + key, f"`{key}` is missing in [[launch]]", f"Add {key} = [256]."
                )
        (shared,) = reader.expressions(
            {"dynamic_shared": entry.get("dynamic_shared", 0)}, "dynamic_shared", prefix, 1
        ) or ("0",)
        launches.append(
            LaunchSpec(
                kernel=kernel,
                grid=reader.expressions(entry, "grid", prefix, 3),
                block=reader.expressions(entry, "block", prefix, 3),
                args=reader.expressions(entry, "args", prefix, None, floats=True),
                dynamic_shared=shared,
                cluster=reader.expressions(entry, "cluster", prefix, 3),
                line=reader.line(f"launch[{index}]"),
            )
        )
    return tuple(launches)


def _scratch(reader: Reader, table: dict[str, object]) -> tuple[ScratchSpec, ...]:
    buffers: list[ScratchSpec] = []
    for index, entry in enumerate(reader.tables(table, "scratch")):
        prefix = f"scratch[{index}]."
        reader.check_keys(entry, SCRATCH_KEYS, prefix)
        name = reader.required(entry, "name", prefix)
        if not _IDENTIFIER.match(name) or name in {each.name for each in buffers}:
            reader.fail(
                prefix + "name",
                f"`{name}` is no name or taken twice",
                "Give every scratch buffer a name of its own, of letters, digits and _.",
            )
        dtype = reader.required(entry, "dtype", prefix)
        if dtype not in DTYPES:
            reader.fail(
                prefix + "dtype",
                f"unknown dtype `{dtype}`",
                did_you_mean(dtype, DTYPES, "types"),
            )
        if not entry.get("shape"):
            reader.fail(
                prefix + "shape", "`shape` is missing in [[scratch]]", 'Add shape = ["M", "N"].'
            )
        buffers.append(
            ScratchSpec(
                name=name,
                dtype=dtype,
                shape=reader.expressions(entry, "shape", prefix, None),
                line=reader.line(f"scratch[{index}]"),
            )
        )
    return tuple(buffers)


def _expectations(reader: Reader, table: dict[str, object]) -> tuple[Expectation, ...]:
    expectations = []
    for index, entry in enumerate(reader.tables(table, "expect")):
        prefix = f"expect[{index}]."
        reader.check_keys(entry, EXPECT_KEYS, prefix)
        counter = reader.required(entry, "counter", prefix)
        change = reader.required(entry, "change", prefix)
        try:
            parse_prediction(change)
        except UsageError as error:
            reader.fail(prefix + "change", error.message, error.hint)
        expectations.append(
            Expectation(
                counter=counter,
                change=change,
                why=reader.string(entry, "why", prefix),
                learned=reader.string(entry, "learned", prefix),
                line=reader.line(f"expect[{index}]"),
            )
        )
    return tuple(expectations)


def _defines(reader: Reader, table: dict[str, object]) -> dict[str, str]:
    value = table.get("defines", {})
    if not isinstance(value, dict):
        reader.fail("defines", "`defines` must be a table", "Write [defines] and TILE = 32.")
    defines = {}
    for name, content in value.items():
        if not _IDENTIFIER.match(name):
            reader.fail(f"defines.{name}", f"`{name}` is no macro name", "Use letters, digits, _.")
        if isinstance(content, bool):
            content = int(content)
        if not isinstance(content, str | int | float):
            reader.fail(
                f"defines.{name}",
                f"`{name}` must be a number or a string, not {content!r}",
                f"Write {name} = 32.",
            )
        defines[name] = str(content)
    return defines


def _load(block: _Block, path: str) -> dict[str, object]:
    try:
        return tomllib.loads(block.toml)
    except tomllib.TOMLDecodeError as error:
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


def parse(text: str, *, path: str, kind: Kind) -> FrontMatter:
    """Read and check the front matter of a version's file.

    Args:
        text: The whole file.
        path: Name of the file in messages.
        kind: ``cuda`` for a ``.cu``, ``python`` for a ``.py``.

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
    reader = Reader(path, block.toml, block.first, block.lines[0])
    reader.check_keys(table, TOP_KEYS, "")
    if kind == "python":
        for key in _CUDA_ONLY:
            if key in table:
                reader.fail(
                    key,
                    f"`{key}` has no meaning in a .py version",
                    "Its prepare() launches what it needs.",
                )
    elif not table.get("launch"):
        reader.fail("launch", "no [[launch]]", "Add one: kernel, grid, block and args.")
    tolerance = reader.fraction(table, "tolerance")
    if tolerance is not None and not reader.string(table, "tolerance_why"):
        reader.fail(
            "tolerance",
            "`tolerance` without `tolerance_why`",
            "Say why this version may be further off than the study's tolerance.",
        )
    return FrontMatter(
        title=reader.required(table, "title"),
        parent=reader.string(table, "parent") if "parent" in table else None,
        change=reader.string(table, "change"),
        baseline=reader.flag(table, "baseline"),
        launches=_launches(reader, table),
        scratch=_scratch(reader, table),
        defines=_defines(reader, table),
        flags=reader.strings(table, "flags"),
        requires=reader.string(table, "requires"),
        requires_why=reader.string(table, "requires_why"),
        tolerance=tolerance,
        tolerance_why=reader.string(table, "tolerance_why"),
        expectations=_expectations(reader, table),
        lines=block.lines,
        key_lines=reader.lines,
    )
