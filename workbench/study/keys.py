"""The keys of front matter, their types and their lines; every complaint names its line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NoReturn

import msgspec

from workbench.errors import UsageError, did_you_mean

# --- the line of each key, which tomllib does not give ---------------------------------------
#
# Only the necessary parts are recognized: headers, keys, strings, brackets and
# comments. `tomli` reads the document as well, so this scan may assume a valid document and must
# merely not fail on an invalid one.

_HEADER = r"[ \t]*(\[\[?)[ \t]*([^\]\n]+?)[ \t]*\]\]?"
_KEY = r"[ \t]*((?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')(?:[ \t]*\.[ \t]*[\w-]+)*)[ \t]*="
_TOKEN = (
    r"""(?s)[^"'#\[\]{}\n]*+("""
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"{3,5}'  # multi-line basic string; may end in up to five quotes
    r"|'''(?:[^']++|'(?!''))*+'{3,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]"
    r"""|["'])"""  # a string that is not closed: not a valid document
)


def _plain(key: str) -> str:
    if key.isidentifier():
        return key
    return ".".join(part.strip().strip("\"'") for part in key.split("."))


def key_lines(toml: str) -> dict[str, int]:
    """The line (1-based) of every key and table header, by its path.

    A table of an array is ``launch[0]``, its keys ``launch[0].grid``. A key that occurs twice
    (which TOML forbids) keeps its first line.
    """
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    prefix = ""
    offset, before, line = 0, 0, 1
    # Compiled here: the lines are needed only for errors, not for every version.
    header_at, key_at, token_at = (re.compile(form).match for form in (_HEADER, _KEY, _TOKEN))
    while offset < len(toml):
        # `offset` is at the start of a statement: a header, a key, or a blank line.
        line += toml.count("\n", before, offset)
        before = offset
        header, key = header_at(toml, offset), key_at(toml, offset)
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
        offset = _statement_end(toml, offset, token_at)
    return lines


def _statement_end(
    toml: str, offset: int, token_at: Callable[[str, int], re.Match[str] | None]
) -> int:
    """The offset after the line end that closes the statement around `offset`."""
    depth = 0
    while (token := token_at(toml, offset)) is not None:
        offset = token.end()
        first = token[1]
        if first in "[{":
            depth += 1
        elif first in "]}":
            depth -= 1
        elif first == "\n" and depth <= 0:
            return offset
    return len(toml)


#: An integer, or an expression that gives one.
Size = int | str
#: Types of a launch's scalar arguments.
Scalar = int | float | str


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table as it is written; missing keys are empty."""


class LaunchTable(Table, frozen=True):
    """``[[launch]]``."""

    kernel: str = ""
    grid: Size | tuple[Size, ...] = ()
    block: Size | tuple[Size, ...] = ()
    args: Scalar | tuple[Scalar | tuple[Scalar, ...], ...] = ()
    dynamic_shared: Size | tuple[Size, ...] = 0
    cluster: Size | tuple[Size, ...] = ()
    cooperative: bool = False
    when: Size = 1
    num_warps: Literal[1, 2, 4, 8, 16, 32] | None = None
    num_stages: Annotated[int, msgspec.Meta(ge=1, le=16)] | None = None
    divisible_by_16: tuple[str, ...] = ()


class ScratchTable(Table, frozen=True):
    """``[[scratch]]``."""

    name: str = ""
    dtype: str = ""
    shape: Size | tuple[Size, ...] = ()


class FillTable(Table, frozen=True):
    """``[[fill]]``."""

    name: str = ""
    value: Scalar | tuple[Scalar, ...] = ()
    input: str = ""
    dtype: str = ""
    restores: bool = False


class TensorMapTable(Table, frozen=True):
    """``[[tensor_map]]``."""

    name: str = ""
    buffer: str = ""
    dtype: str = ""
    dims: Size | tuple[Size, ...] = ()
    strides: Size | tuple[Size, ...] = ()
    box: Size | tuple[Size, ...] = ()
    element_strides: Size | tuple[Size, ...] = ()
    swizzle: Size = 0
    interleave: Size = 0
    l2_promotion: Size = 0
    fill: str = "zero"
    lower: Size | tuple[Size, ...] = ()
    upper: Size | tuple[Size, ...] = ()
    channels: Size | None = None
    pixels: Size | None = None


class TextureTable(Table, frozen=True):
    """``[[texture]]``."""

    name: str = ""
    buffer: str = ""
    dtype: str = ""
    dims: Size | tuple[Size, ...] = ()
    channels: Size = 1
    pitch: Size = 0
    layout: str = "array"
    address: str | tuple[str, ...] = "clamp"
    filter: str = "point"
    normalized: bool = False
    read: str = "element"


class ExpectTable(Table, frozen=True):
    """``[[expect]]``."""

    counter: str = ""
    change: str = ""
    why: str = ""
    learned: str = ""


class VersionTable(Table, frozen=True):
    """The whole front matter. The values of `defines` and `tune` are still to be checked."""

    title: str = ""
    parent: str | None = None
    change: str = ""
    baseline: bool = False
    launch: tuple[LaunchTable, ...] = ()
    expect: tuple[ExpectTable, ...] = ()
    tune: dict[str, object] = {}
    scratch: tuple[ScratchTable, ...] = ()
    fill: tuple[FillTable, ...] = ()
    tensor_map: tuple[TensorMapTable, ...] = ()
    texture: tuple[TextureTable, ...] = ()
    defines: dict[str, object] = {}
    flags: tuple[str, ...] = ()
    arch_specific: bool = False
    image: str = ""
    requires: str | tuple[str, ...] = ""
    requires_why: str = ""
    tolerance: Annotated[float, msgspec.Meta(ge=0, lt=1)] | None = None
    tolerance_why: str = ""


#: The tables by the name in their headers.
TABLES: dict[str, type[Table]] = {
    "": VersionTable,
    "launch": LaunchTable,
    "scratch": ScratchTable,
    "fill": FillTable,
    "tensor_map": TensorMapTable,
    "texture": TextureTable,
    "expect": ExpectTable,
}
#: The keys of a tensor map or texture that hold several values; and all that hold sizes.
LISTS = ("dims", "strides", "box", "element_strides", "lower", "upper", "address")
TEXTURE_SIZES = ("dims", "channels", "pitch")
TENSOR_MAP_SIZES = tuple(
    each
    for each in TensorMapTable.__struct_fields__
    if each not in ("name", "buffer", "dtype", "fill")
)
_SIZES = ("`{key}` must hold integers or expressions, not {value!r}", "{key} = {example}")
_EXAMPLE = '["cdiv(N, 64)", 1], with strings for all but plain numbers'
_TABLES = ("`{key}` must be a list of tables", "[[{key}]], with two brackets")
#: Key -> its type in words, and an example; all others are strings.
_FORMS = {
    **dict.fromkeys(
        ("baseline", "cooperative", "arch_specific", "restores", "normalized"),
        ("`{key}` must be true or false, not {value!r}", "{key} = true"),
    ),
    "divisible_by_16": ("`{key}` must be a list of strings, not {value!r}", '{key} = ["N"]'),
    "flags": ("`{key}` must be a list of strings, not {value!r}", '{key} = ["…"]'),
    "defines": ("`{key}` must be a table", "[defines] and TILE = 32"),
    "tune": ("`{key}` must be a table", "[tune] and TILE = [16, 32]"),
    "num_warps": ("`{key}` must be 1, 2, 4, 8, 16 or 32, not {value!r}", "{key} = 4"),
    "num_stages": ("`{key}` must be an integer from 1 to 16, not {value!r}", "{key} = 3"),
    "tolerance": ("`{key}` must be 0 or a number below 1, not {value!r}", "{key} = 1e-3"),
    "value": ("`{key}` must hold strings or numbers, not {value!r}", "{key} = {example}"),
    "args": (
        "`{key}` must hold strings, numbers or lists of them, not {value!r}",
        'args = ["x", "cdiv(N, 64)", 0.5], with a nested list for a struct',
    ),
    **dict.fromkeys(("grid", "block", "cluster", "dynamic_shared", "shape"), _SIZES),
    "when": ("`{key}` must be an expression, not {value!r}", '{key} = "N > 512"'),
    "address": ("`{key}` must be a string or a list of them, not {value!r}", '{key} = "clamp"'),
    **dict.fromkeys((*TENSOR_MAP_SIZES, *TEXTURE_SIZES), _SIZES),
    **dict.fromkeys(("launch", "scratch", "fill", "tensor_map", "texture", "expect"), _TABLES),
}
_STRING = ("`{key}` must be a string, not {value!r}", '{key} = "…"')
#: msgspec's messages: the fault, and the path to it, `$.launch[0].grid[1]`.
_MESSAGE = re.compile(r"(.*?)(?: - at `\$\.?([\w.\[\]]+)`)?\Z", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`\Z", re.DOTALL)


@dataclass(frozen=True)
class Keys:
    """The keys of a file's front matter: lines, values, errors.

    Messages name `path`. `first` is the line in the file on which `toml` begins, `opened` the line
    on which the front matter begins.
    """

    path: str
    toml: str
    first: int
    opened: int

    @cached_property
    def lines(self) -> dict[str, int]:
        """The line of each key by its path; computed only for an error."""
        return {key: line + self.first - 1 for key, line in key_lines(self.toml).items()}

    @cached_property
    def _headers(self) -> dict[str, list[int]]:
        """The lines of ``[[launch]]`` and the like, which every version needs.

        They are found without reading every key, unless they are written in another way or a string
        of several lines may contain some.
        """
        found: dict[str, list[int]] = {}
        for line, text in enumerate(self.toml.split("\n"), self.first):
            if text.lstrip().startswith("[["):
                found.setdefault(text.strip(), []).append(line)
        plain = all(head.endswith("]]") and head[2:-2].isidentifier() for head in found)
        return found if plain and '"""' not in self.toml and "'''" not in self.toml else {}

    def line(self, key: str) -> int:
        """The line of a key, of the nearest table around it, or of the front matter."""
        name, _, index = key.removesuffix("]").partition("[")
        at = self._headers.get(f"[[{name}]]", ())
        if index.isdecimal() and int(index) < len(at):
            return at[int(index)]
        while key not in self.lines and "." in key:
            key = key.rpartition(".")[0]
        return self.lines.get(key, self.opened)

    def fail(self, key: str, what: str, hint: str) -> NoReturn:
        """Raise the UsageError for the key's line."""
        raise UsageError(f"{self.path}:{self.line(key)}: {what}", hint)

    def read(self, table: dict[str, Any]) -> VersionTable:
        """The table with every value of its type; UsageError: an unknown key or a wrong type."""
        try:
            return msgspec.convert(table, VersionTable)
        except msgspec.ValidationError as error:
            message = str(error)
        return self._fail_type(table, message)

    def _fail_type(self, table: dict[str, Any], message: str) -> NoReturn:
        """Raise msgspec's error in our words."""
        match = _MESSAGE.match(message)
        what, place = (match[1], match[2] or "") if match else (message, "")
        if unknown := _UNKNOWN.match(what):
            self._fail_unknown(place, unknown[1])
        # An element of a list has the line of its key.
        path = re.sub(r"(\[\d+\])+\Z", "", place)
        key = path.rpartition(".")[2]
        must, write = _FORMS.get(key, _STRING)
        value: Any = table
        for name, index in re.findall(r"(\w+)|\[(\d+)\]", path if key == "flags" else place):
            value = value[int(index)] if index else value[name]
        self.fail(
            path,
            must.format(key=key, value=value),
            f"Write {write.format(key=key, example=_EXAMPLE)}.",
        )

    def _fail_unknown(self, table: str, key: str) -> NoReturn:
        name = table.partition("[")[0]
        self.fail(
            f"{table}.{key}" if table else key,
            f"unknown key `{key}`" + (f" in [[{name}]]" if name else ""),
            did_you_mean(key, TABLES[name].__struct_fields__, "keys"),
        )

    def missing(self, key: str, example: str) -> NoReturn:
        """Raise the UsageError for a missing key, with an example of a value."""
        table, _, name = key.rpartition(".")
        inside = f" in [[{table.partition('[')[0]}]]" if table else ""
        self.fail(key, f"`{name}` is missing{inside}", f"Add {name} = {example}.")

    def required(self, key: str, value: str) -> str:
        """The string, stripped; it must not be blank."""
        return value.strip() or self.missing(key, '"…"')

    def texts(
        self, key: str, value: Scalar | tuple[Scalar, ...], most: int | None = 3
    ) -> tuple[str, ...]:
        """Expressions (or a single one), at most `most` of them, as text."""
        values = value if isinstance(value, tuple) else (value,)
        if most is not None and len(values) > most:
            self.fail(
                key,
                f"`{key.rpartition('.')[2]}` has {len(values)} dimensions",
                f"A launch has at most {most} dimensions: x, y, z.",
            )
        return tuple(str(each).strip() for each in values)
