"""What the lines of sources declare, define, use and govern: the records of a reading.

A `SourceMap` is flat: symbols with scopes, definitions of their values, uses, lines that
a loop or condition governs, routines and calls. `workbench.analysis.source.reading` fills
it, with one `Recorder` per file; `workbench.analysis.source.links` asks of two maps what a
change reaches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from workbench.analysis.source.tokens import Tokens

SymbolKind = Literal["variable", "parameter", "macro", "function", "type", "member"]
DefinitionKind = Literal["value", "update", "element", "argument"]
Extent = tuple[int, int, int]  # (file index, first line, last line)

#: The byte range of a name, or of a block, that is not inside of anything.
EVERYWHERE = (0, 1 << 62)


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
    places: list[Extent]
    file: int = 0
    block: tuple[int, int] = EVERYWHERE
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
    place: Extent
    start: int
    end: int
    kills: bool
    guard: tuple[int, int]


@dataclass(slots=True)
class Use:
    """One mention of a symbol. `feeds` lists what the mention flows into.

    `macro` is the name that stands on the line where it is a macro that mentions the symbol.
    """

    symbol: int
    file: int
    line: int
    at: int
    feeds: tuple[tuple[str, int], ...]  # ("definition" | "shape" | "return" | "governed", index)
    target: bool  # the left side of an assignment: only the shape matters to it
    macro: str = ""


@dataclass(slots=True)
class Governed:
    """Lines that a header governs: a loop, a condition, a pragma, an early exit.

    `bare`: a loop whose body is one statement without braces. It is one statement with its
    head, and there the compiler puts the code of a body that it unrolls.
    """

    index: int
    label: str
    scope: str
    key: Tokens
    header: Extent
    body: Extent
    early_exit: bool = False
    bare: bool = False


@dataclass(slots=True)
class Routine:
    """A function with a body. `head` is all before the name, attributes included."""

    name: str
    kernel: bool
    head: Tokens
    tokens: Tokens
    place: Extent
    head_place: Extent
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
    place: Extent


@dataclass(slots=True)
class SourceMap:
    """All sources of one version.

    `loops` are byte ranges; `statements` the lines (1-based, both ends included) of every
    statement, or head of a loop, condition or function, that has several.
    """

    symbols: list[Symbol] = field(default_factory=list)
    definitions: list[Definition] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    governed: list[Governed] = field(default_factory=list)
    routines: list[Routine] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    loops: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # by file
    statements: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # by file


class Recorder:
    """Writes what one file says into the map; a reader of each language is one.

    `declare_globals` comes first, for all files, then `read_bodies`: headers come in any order.

    Args:
        found: The map of the whole version.
        file: Index of the file that is read.
    """

    def __init__(self, found: SourceMap, file: int) -> None:
        self.found = found
        self.file = file
        self.function: Routine | None = None
        self.globals: Mapping[str, list[int]] = {}
        self.by_name: Mapping[str, list[Routine]] = {}
        self.feeds: list[tuple[str, int]] = []  # what a mention flows into, innermost last
        self.guards = [EVERYWHERE]

    @property
    def scope(self) -> str:
        """Name of the function that is being read, "" at file level."""
        return self.function.name if self.function else ""

    def declare_globals(self) -> None:
        """First pass: names of file scope."""
        raise NotImplementedError

    def read_bodies(
        self, names: Mapping[str, list[int]], by_name: Mapping[str, list[Routine]]
    ) -> None:
        """Second pass: everything inside of functions.

        Args:
            names: Symbols of file scope, of all files, by name.
            by_name: Functions with a body, of all files, by name.
        """
        raise NotImplementedError

    def add_symbol(
        self,
        name: str,
        kind: SymbolKind,
        shape: Tokens,
        places: list[Extent],
        scope: str = "",
        block: tuple[int, int] = EVERYWHERE,
    ) -> Symbol:
        """Record a symbol."""
        every = self.found.symbols
        every.append(Symbol(len(every), name, kind, scope, shape, places, self.file, block))
        return every[-1]

    def add_definition(
        self,
        symbol: int,
        kind: DefinitionKind,
        scope: str,
        key: Tokens,
        place: Extent,
        span: tuple[int, int],
        *,
        kills: bool = False,
    ) -> int:
        """Record a definition; returns its index."""
        every = self.found.definitions
        made = Definition(
            len(every), symbol, kind, scope, key, place, *span, kills, self.guards[-1]
        )
        every.append(made)
        return made.index

    def add_use(
        self,
        symbol: int,
        line: int,
        at: int,
        feeds: tuple[tuple[str, int], ...],
        *,
        target: bool = False,
        macro: str = "",
    ) -> None:
        """Record one mention of one symbol."""
        self.found.uses.append(Use(symbol, self.file, line, at, feeds, target, macro))

    def add_governed(
        self,
        label: str,
        key: Tokens,
        header: Extent,
        body: Extent,
        *,
        early_exit: bool = False,
        bare: bool = False,
    ) -> int:
        """Record lines that a header governs; returns their index."""
        every = self.found.governed
        every.append(Governed(len(every), label, self.scope, key, header, body, early_exit, bare))
        return len(every) - 1

    def add_call(self, name: str, key: Tokens, place: Extent) -> None:
        """Record a call."""
        self.found.calls.append(Call(name, self.scope, key, place))

    def add_loop(self, start: int, end: int) -> None:
        """Record the byte range of a loop."""
        self.found.loops.setdefault(self.file, []).append((start, end))
