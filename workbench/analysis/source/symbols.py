"""What the lines of CUDA sources declare, define, use and govern, from a real parse.

The parse is tree-sitter's CUDA grammar: it takes any text, marks what it does not
understand and goes on. `read` turns the trees of all files of one version into a
flat `Program`: symbols with scopes, definitions of their values, uses, regions that
a loop or condition governs, functions and calls. `workbench.analysis.source.links` asks of
two programs what a change reaches.

Known limits: no preprocessing (both sides of an ``#if`` are read), no overload
resolution (a call reaches every function of its name), no aliasing through pointers
beyond an argument's name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from workbench.analysis.source.tokens import Source, Tokens

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

SymbolKind = Literal["variable", "parameter", "macro", "function", "type", "member"]
DefinitionKind = Literal["value", "update", "element", "argument"]
Place = tuple[int, int, int]  # (file index, first line, last line)

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class Symbol:
    """A name with its scope. `shape` is what its declaration says besides the value.

    `scope` is the function that it is local to ("" for file scope); `block` the byte
    range of its innermost scope; `places` the lines of the declaration.
    """

    index: int
    name: str
    kind: SymbolKind
    scope: str
    shape: Tokens
    places: list[Place]
    file: int = 0
    block: tuple[int, int] = (0, 1 << 62)
    words: tuple[str, ...] = ()  # identifiers in a macro's body


@dataclass(slots=True)
class Definition:
    """A statement that gives a symbol a value. Byte positions order it in its file.

    `kills`: the whole value is replaced (``x = …``, not ``x += …`` or ``x[i] = …``).
    `guard` is the byte range of the innermost conditional block around it.
    """

    index: int
    symbol: int
    kind: DefinitionKind
    scope: str
    key: Tokens
    place: Place
    start: int
    end: int
    kills: bool
    guard: tuple[int, int]


@dataclass(slots=True)
class Use:
    """One mention of a symbol. `feeds` lists what the mention flows into."""

    symbol: int
    file: int
    line: int
    at: int
    feeds: tuple[tuple[str, int], ...]  # ("definition" | "shape" | "return" | "region", index)
    target: bool  # the left side of an assignment: only the shape matters to it


@dataclass(slots=True)
class Region:
    """Lines that a header governs: a loop, a condition, a pragma, an early exit."""

    index: int
    label: str
    scope: str
    key: Tokens
    header: Place
    body: Place
    early_exit: bool = False


@dataclass(slots=True)
class Function:
    """A function with a body. `head` is all before the name, attributes included."""

    name: str
    kernel: bool
    head: Tokens
    tokens: Tokens
    place: Place
    head_place: Place
    span: tuple[int, int]
    symbol: int
    parameters: list[int] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)  # parameters, and members of its type


@dataclass(slots=True)
class Call:
    """A call of a function that the sources define."""

    name: str
    scope: str
    key: Tokens
    place: Place


@dataclass(slots=True)
class Program:
    """All sources of one version."""

    symbols: list[Symbol] = field(default_factory=list)
    definitions: list[Definition] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    loops: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # by file


@lru_cache(maxsize=1)
def parser() -> Parser:
    """The CUDA parser, made once."""
    import tree_sitter_cuda
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_cuda.language()))


def read(sources: Sequence[Source]) -> Program:
    """Read all sources of one version, CUDA and Python."""
    from workbench.analysis.source.cuda.reader import Reader
    from workbench.analysis.source.python import PythonReader

    program = Program()
    readers: list[Reader | PythonReader] = []
    for file, source in enumerate(sources):
        if source.language == "cuda":
            readers.append(Reader(program, file, source))
        else:
            readers.append(PythonReader(program, file, source))
    # Headers come in any order: all file-level names first, then the bodies.
    for reader in readers:
        reader.declare_globals()
    names: dict[str, list[int]] = {}
    for symbol in program.symbols:
        if not symbol.scope:
            names.setdefault(symbol.name, []).append(symbol.index)
    by_name: dict[str, list[Function]] = {}
    for function in program.functions:
        by_name.setdefault(function.name, []).append(function)
    for reader in readers:
        reader.read_bodies(names, by_name)
    return program


def parse(source: Source) -> tuple[Node, str]:
    """Tree of a source, and the text in which byte n is character n.

    What is not ASCII becomes an underscore, so that positions in bytes and in
    characters are the same; names stay apart unless they differ in such letters alone.
    """
    text = _NOT_ASCII.sub("_", source.text).replace("\r", " ").replace("\0", " ")
    return parser().parse(text.encode("ascii")).root_node, text


def words_of(text: str) -> tuple[str, ...]:
    """Identifiers of a macro's body."""
    return tuple(dict.fromkeys(_WORD.findall(text)))
