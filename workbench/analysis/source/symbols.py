"""Declarations, definitions, uses and control of lines, and CUDA's declarations at file level.

A `SourceMap` is flat: symbols with scopes, definitions of their values, uses, lines that
a loop or condition governs, routines and calls. One `Recorder` per file fills it
(`Declarations` and `cuda.Reader`, or `python.PythonReader`); `workbench.analysis.source.links`
finds in two maps the lines that a change reaches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from workbench.analysis.source.lines import Source, Tokens, tokens_of

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

SymbolKind = Literal["variable", "parameter", "macro", "function", "type", "member"]
DefinitionKind = Literal["value", "update", "element", "argument"]
Extent = tuple[int, int, int]  # (file index, first line, last line)

#: The byte range of a name, or of a block, at the outermost level.
EVERYWHERE = (0, 1 << 62)


@dataclass(slots=True)
class Symbol:
    """A name with its scope. `shape` is its declaration without the value.

    `scope` is the function to which it is local ("" for file scope); `block` the byte
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
    """One mention of a symbol. `feeds` lists the items that it flows into.

    `macro` is the name on the line if a macro mentions the symbol.
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

    `bare`: a loop whose body is one statement without braces. It is one statement with its head,
    where the compiler puts the code of an unrolled body.
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
    """A function with a body. `head` is everything before the name, attributes included."""

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
    """Records the content of one file in the map; each language's reader is a subclass.

    `declare_globals` comes first, for all files, then `read_bodies`: headers come in any order.
    """

    def __init__(self, found: SourceMap, file: int) -> None:
        self.found = found
        self.file = file
        self.function: Routine | None = None
        self.globals: Mapping[str, list[int]] = {}
        self.by_name: Mapping[str, list[Routine]] = {}
        self.feeds: list[tuple[str, int]] = []  # the targets of mentions, innermost last
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
        """Second pass: everything inside functions.

        `names` are symbols of file scope, `by_name` functions with a body, of all files.
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


# --- CUDA, first pass: the declarations of a file at file level -----------------------------------
#
# The parse is tree-sitter's CUDA grammar: it accepts any text, marks the parts that it does not
# understand, and continues.

Action = Callable[[], None]

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_WORD = re.compile(r"[A-Za-z_]\w*")
_TYPES = {"struct_specifier", "class_specifier", "union_specifier", "enum_specifier"}


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_cuda
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_cuda.language()))


def parse(source: Source) -> tuple[Node, str]:
    """Tree of a source, and the text in which byte n is character n.

    Characters outside ASCII become underscores, so that positions in bytes and in characters are
    the same; names stay distinct unless they differ only in such letters.
    """
    text = _NOT_ASCII.sub("_", source.text).replace("\r", " ").replace("\0", " ")
    return _parser().parse(text.encode("ascii")).root_node, text


def words_of(text: str) -> tuple[str, ...]:
    """Identifiers of a macro's body, or of a pragma; comments are not part of them."""
    return tuple(dict.fromkeys(filter(_WORD.fullmatch, tokens_of(text))))


class Declarations(Recorder):
    """One CUDA file: helpers that read nodes, and the names of file scope."""

    def __init__(self, found: SourceMap, file: int, source: Source) -> None:
        super().__init__(found, file)
        self.root, self.text = parse(source)
        self.scopes: list[dict[str, int]] = []
        self.blocks: list[tuple[int, int]] = []
        self.members: dict[str, int] = {}
        self.targets: set[int] = set()  # bytes of identifiers that are assigned to
        self.declared: set[int] = set()  # bytes of identifiers that are declarations
        self.stack: list[Node | Action] = []
        self.bodies: list[Node] = []

    def slice(self, start: int, end: int) -> str:
        """Text between two bytes."""
        return self.text[start:end]

    def tokens(self, *nodes: Node | None) -> Tokens:
        """Tokens of nodes, one after another."""
        out: Tokens = ()
        for node in nodes:
            if node is not None:
                out += tokens_of(self.slice(node.start_byte, node.end_byte))
        return out

    def place(self, node: Node, last: Node | None = None) -> Extent:
        """Lines of a node (up to the end of another)."""
        end = (last or node).end_point
        row = end[0] if end[1] or end[0] == node.start_point[0] else end[0] - 1
        return (self.file, node.start_point[0] + 1, row + 1)

    def name(self, node: Node) -> str:
        """Text of a node."""
        return self.slice(node.start_byte, node.end_byte)

    def children(self, node: Node) -> list[Node]:
        """Named children."""
        return [child for child in node.children if child.is_named]

    def symbol(
        self, name: str, kind: SymbolKind, shape: Tokens, places: list[Extent], scope: str = ""
    ) -> Symbol:
        """Record a symbol, in the innermost open scope."""
        block = self.blocks[-1] if self.blocks else EVERYWHERE
        made = self.add_symbol(name, kind, shape, places, scope, block)
        if self.scopes:
            self.scopes[-1][name] = made.index
        return made

    def definition(
        self, symbol: int, kind: DefinitionKind, node: Node, key: Tokens, *, kills: bool = False
    ) -> int:
        """Record a definition; returns its index."""
        span = (node.start_byte, node.end_byte)
        return self.add_definition(
            symbol, kind, self.scope, key, self.place(node), span, kills=kills
        )

    def lookup(self, name: str) -> list[int]:
        """Symbols that a name may mean here: the innermost scope's, else all of file scope."""
        for scope in reversed(self.scopes):
            if name in scope:
                return [scope[name]]
        return self.globals.get(name, [])

    def row_of(self, at: int) -> int:
        """1-based line of the last character before a byte."""
        return self.text.count("\n", 0, max(0, at - 1)) + 1 if at else 1

    def base(self, node: Node | None) -> tuple[Node | None, bool]:
        """The variable that an expression on the left side is part of; whether it is an element."""
        element = False
        while node is not None and node.type not in ("identifier", "type_identifier"):
            inner = node.child_by_field_name("argument") or node.child_by_field_name("value")
            if node.type in ("subscript_expression", "pointer_expression", "field_expression"):
                element = True
            elif node.type == "call_expression":  # reinterpret_cast<float4*>(&x[i])
                arguments = node.child_by_field_name("arguments")
                inner = (
                    arguments.named_children[0] if arguments and arguments.named_children else None
                )
                element = True
            elif node.type == "parenthesized_expression":
                inner = node.named_children[0] if node.named_children else None
            node = inner
        return node, element

    def declare_globals(self) -> None:
        """First pass: macros, types, functions and variables of file scope."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            kind = node.type
            if kind in ("preproc_def", "preproc_function_def"):
                self.macro(node)
            elif kind == "function_definition":
                self._function(node)
            elif kind in _TYPES:
                self._type(node)
            elif kind in ("alias_declaration", "type_definition"):
                self._alias(node)
            elif kind == "declaration":
                self._global(node)
            else:
                stack.extend(reversed(node.children))

    def macro(self, node: Node) -> None:
        """Record a macro."""
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            return
        body = self.name(value) if value else ""
        parameters = node.child_by_field_name("parameters")
        shape = self.tokens(parameters) + tokens_of(body)
        made = self.symbol(self.name(name), "macro", shape, [self.place(node)])
        hidden = set(words_of(self.name(parameters))) if parameters else set()
        made.words = tuple(word for word in words_of(body) if word not in hidden)
        self.bodies.append(node)

    def _function(self, node: Node) -> None:
        declarator = node.child_by_field_name("declarator")
        name = declarator
        while name is not None and name.type not in ("identifier", "field_identifier"):
            name = name.child_by_field_name("declarator") or name.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if declarator is None or name is None or body is None:
            return
        parent = node.parent
        start = parent if parent is not None and parent.type == "template_declaration" else node
        head = tokens_of(self.slice(start.start_byte, name.start_byte))
        whole = tokens_of(self.slice(start.start_byte, node.end_byte))
        head_place = (self.file, start.start_point[0] + 1, name.end_point[0] + 1)
        symbol = self.symbol(self.name(name), "function", whole, [self.place(start, node)])
        made = Routine(
            name=self.name(name),
            kernel="__global__" in head,
            head=head,
            tokens=whole,
            place=self.place(start, node),
            head_place=head_place,
            span=(start.start_byte, node.end_byte),
            symbol=symbol.index,
            names=dict(self.members),
        )
        self.found.routines.append(made)
        while declarator is not None and declarator.type != "function_declarator":
            declarator = declarator.child_by_field_name("declarator")
        listed = declarator.child_by_field_name("parameters") if declarator else None
        # By position, for calls; the second pass visits the same nodes in their scope.
        for parameter in listed.named_children if listed else ():
            inner, _ = self.declared_name(parameter.child_by_field_name("declarator"))
            if parameter.type == "comment":
                continue
            text = self.name(inner) if inner is not None else ""
            own = self.symbol(
                text, "parameter", self.tokens(parameter), [self.place(parameter)], made.name
            )
            own.block = made.span
            made.parameters.append(own.index)
            if text:
                made.names[text] = own.index
        self.bodies.append(start)

    def _type(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is not None and node.child_by_field_name("body") is not None:
            self.symbol(self.name(name), "type", self.tokens(node), [self.place(node)])
        if node.type == "enum_specifier":
            for item in node.named_children[-1].named_children if node.named_children else ():
                label = item.child_by_field_name("name")
                if label is not None:
                    self.symbol(self.name(label), "variable", self.tokens(item), [self.place(item)])
        self.bodies.append(node)
        methods: list[Node] = []
        members: dict[str, int] = {}
        stack = list(node.named_children)
        while stack:
            inner = stack.pop()
            if inner.type == "function_definition":
                methods.append(inner)
            elif inner.type == "field_declaration":
                field, _ = self.declared_name(inner.child_by_field_name("declarator"))
                if field is not None and name is not None:
                    # It gets its own scope: a bare name outside the methods is not a member.
                    made = self.symbol(
                        self.name(field),
                        "member",
                        self.tokens(inner),
                        [self.place(inner)],
                        self.name(name),
                    )
                    members[made.name] = made.index
            elif inner.type in ("field_declaration_list", "template_declaration", *_TYPES):
                stack.extend(inner.named_children)
        self.members = members
        for method in methods:
            self._function(method)
        self.members = {}

    def _alias(self, node: Node) -> None:
        name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
        if name is not None:
            self.symbol(self.name(name), "type", self.tokens(node), [self.place(node)])
        self.bodies.append(node)
        for child in node.named_children:
            if child.type in _TYPES:
                self._type(child)

    def _global(self, node: Node) -> None:
        for child in node.named_children:
            if child.type in _TYPES:
                self._type(child)
        for declarator in node.children_by_field_name("declarator"):
            if declarator.type == "function_declarator":
                continue  # a prototype
            name, _ = self.declared_name(declarator)
            if name is not None:
                self.declared.add(name.start_byte)
                shape = tokens_of(self.slice(node.start_byte, node.end_byte))
                self.symbol(self.name(name), "variable", shape, [self.place(node)])
        self.bodies.append(node)

    def declared_name(self, node: Node | None) -> tuple[Node | None, Node | None]:
        """(name, innermost declarator without its initializer) of a declarator."""
        shape = node
        while node is not None and node.type not in ("identifier", "field_identifier"):
            if node.type == "init_declarator":
                shape = node.child_by_field_name("declarator")
            inner = node.child_by_field_name("declarator") or node.child_by_field_name("name")
            if inner is None and node.type in ("reference_declarator", "parenthesized_declarator"):
                inner = node.named_children[-1] if node.named_children else None
            node = inner
        return node, shape
