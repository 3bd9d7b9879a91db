"""A ``.cu`` file and the headers beside it as pieces of file scope, and which of them a name needs.

A piece is a function, a type, a variable or a macro with the comment above it. Branches of
``#if`` that the host compiler would not take are left out; those that only the device decides
(``__CUDA_ARCH__``) stay whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from workbench.analysis.source.lines import scan
from workbench.analysis.source.symbols import parse, words_of
from workbench.errors import UsageError
from workbench.study.expressions import evaluate

if TYPE_CHECKING:
    from tree_sitter import Node

PieceKind = Literal["include", "macro", "function", "type", "variable", "using", "other"]
#: Gives the text of a header that stands in quotes; None: it is not there.
Headers = Callable[[str], str | None]

_INCLUDE = re.compile(r'\s*#\s*include\s*(<[^>]+>|"[^"]+")')
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_BY_DEVICE = re.compile(r"__CUDA_ARCH__|__CUDACC_VER|__CUDACC_RTC__")
_ON_DEVICE = re.compile(r"\b(?:__global__|__device__)\b")
_CONDITIONALS = ("preproc_if", "preproc_ifdef", "preproc_elif", "preproc_elifdef", "preproc_else")
#: What the compiler of CUDA says of itself.
_KNOWN = {"__CUDACC__": 1, "__NVCC__": 1, "__cplusplus": 201703, "__linux__": 1}
_MOST_HEADERS = 40
#: What gives a structure another layout than its members have.
_LAID_OUT = re.compile(r"\b(?:alignas|__align__|__attribute__|pragma|virtual)\b")
#: A member that holds what its type says: ``x``, ``v[3][4]``.
_PLAIN_MEMBER = re.compile(r"\w+(?:\s*\[\s*\w+\s*\])*")
#: A type whose alignment stands where the grammar expects its name.
_ALIGNED = re.compile(r"(?:struct|union|class)\s+(?:__align__|alignas)\s*\([^)]*\)\s*(\w+)")
#: Headers of CUDA that code of the device may need.
DEVICE_HEADERS = re.compile(
    r"cuda(?:_(?:runtime|fp\d+|bf16|pipeline\w*|awbarrier\w*|\w+_types))?\.h(?:pp)?|cuda/.+|"
    r"cuComplex\.h|mma\.h|cooperative_groups(?:\.h|/.+)|cub/.+|math_constants\.h|"
    r"curand_\w+\.h|vector_(?:types|functions)\.h(?:pp)?"
)
#: Headers that some write in quotes, and others that a compiler brings.
_OF_TOOLKITS = re.compile(
    DEVICE_HEADERS.pattern + r"|cuda_(?:runtime_api|profiler_api|device_runtime_api)\.h|"
    r"device_(?:launch_parameters|functions|atomic_functions)\.h|curand\.h|cu\w+_v2\.h|"
    r"cu(?:blas|fft|sparse|solver|dnn)\w*\.h|c?(?:assert|float|limits|math|std\w+|string)(?:\.h)?"
)


@dataclass(frozen=True, slots=True)
class FilePiece:
    """One thing at file scope.

    Attributes:
        kind: What it is.
        text: As it is written, with the comment above it.
        names: What it declares.
        words: Every identifier in it.
        node: In the tree of its file.
        plain: Text of that file, in which byte n of the tree is character n.
        place: ``file:line``.
    """

    kind: PieceKind
    text: str
    names: tuple[str, ...]
    words: frozenset[str]
    node: Node
    plain: str
    place: str

    @property
    def head(self) -> str:
        """All of a function but its body."""
        body = inner(self.node).child_by_field_name("body")
        start, end = self.node.start_byte, body.start_byte if body else self.node.end_byte
        return self.plain[start:end]

    @property
    def kernel(self) -> bool:
        """Whether it is a kernel with a body."""
        return self.kind == "function" and bool(re.search(r"\b__global__\b", self.head))

    @property
    def device(self) -> bool:
        """Whether it is a function or a variable that lives on the device."""
        return bool(_ON_DEVICE.search(self.head) or "__constant__" in self.head)


def inner(node: Node) -> Node:
    """What a template or a linkage specification is of."""
    while node.type in ("template_declaration", "linkage_specification") and node.named_children:
        node = node.child_by_field_name("body") or node.named_children[-1]
    return node


@dataclass(slots=True)
class Pieces:
    """All pieces in their order, those of headers where they are included.

    Attributes:
        pieces: In order.
        missing: Headers of the program's own that are not there.
    """

    pieces: list[FilePiece] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    _macros: dict[str, int | None] = field(default_factory=lambda: dict(_KNOWN))
    _seen: set[str] = field(default_factory=set)

    def read(self, text: str, path: str, headers: Headers) -> None:
        """Add what a file holds, and before that what it includes."""
        source = scan(text)
        root, plain = parse(source)
        self._level(root, source.text, plain, path, headers)

    def _level(self, root: Node, text: str, plain: str, path: str, headers: Headers) -> None:
        before = None
        heads = [root.child_by_field_name(x) for x in ("alternative", "condition", "name")]
        for node in root.children:
            if any(each is not None and each.id == node.id for each in heads):
                continue
            if node.type in _CONDITIONALS and not _BY_DEVICE.search(_line(node, plain)):
                branch = self._branch(node, plain)
                if branch is not None:
                    self._level(branch, text, plain, path, headers)
            elif node.type in ("namespace_definition", "linkage_specification") and _opens(node):
                self._level(_opens(node)[0], text, plain, path, headers)
            elif node.type == "preproc_include":
                self._include(node, text, plain, path, headers)
            elif node.is_named and node.type not in ("comment", "preproc_else", "preproc_elif"):
                start = before.start_byte if before is not None else node.start_byte
                self._add(node, text[start : node.end_byte], plain, path)
            touches = before is not None and before.end_point[0] + 1 >= node.start_point[0]
            if node.type != "comment":
                before = None
            elif before is None or not touches:
                before = node

    def _add(self, node: Node, text: str, plain: str, path: str) -> None:
        kind = _kind(node)
        own = plain[node.start_byte : node.end_byte]
        names = tuple(_names(node, plain))
        if aligned := _ALIGNED.match(own):
            kind, names = "type", (aligned[1],)
        if kind == "macro" and names:
            value = inner(node).child_by_field_name("value")
            body = plain[value.start_byte : value.end_byte] if value is not None else ""
            self._macros[names[0]] = _integer(body)
        place = f"{path}:{node.start_point[0] + 1}"
        if kind != "other" or own.strip(" ;\n"):
            self.pieces.append(
                FilePiece(
                    kind, text.strip("\n"), names, frozenset(words_of(own)), node, plain, place
                )
            )

    def _include(self, node: Node, text: str, plain: str, path: str, headers: Headers) -> None:
        found = _INCLUDE.match(plain[node.start_byte : node.end_byte])
        if found is None:
            return
        name = found[1][1:-1]
        inside = headers(name) if found[1][0] == '"' and len(self._seen) < _MOST_HEADERS else None
        if inside is not None:
            if name not in self._seen:
                self._seen.add(name)
                self.read(inside, name, headers)
            return
        own = found[1][0] == '"' or name.endswith((".cuh", ".hpp"))
        if own and not _OF_TOOLKITS.fullmatch(name):
            self.missing.append(name)
        line = text[node.start_byte : node.end_byte].strip()
        place = f"{path}:{node.start_point[0] + 1}"
        self.pieces.append(FilePiece("include", line, (name,), frozenset(), node, plain, place))

    def _branch(self, node: Node, plain: str) -> Node | None:
        """What of a conditional is compiled: the node whose children they are."""
        branch: Node | None = node
        while branch is not None:
            if branch.type == "preproc_else" or self._holds(branch, plain):
                return branch
            branch = branch.child_by_field_name("alternative")
        return None

    def _holds(self, node: Node, plain: str) -> bool:
        name, condition = (node.child_by_field_name(x) for x in ("name", "condition"))
        if name is not None:
            is_there = plain[name.start_byte : name.end_byte] in self._macros
            return is_there is not _line(node, plain).lstrip("# \t").startswith(
                ("ifndef", "elifndef")
            )
        if condition is None:
            return False
        text = _DEFINED.sub(
            lambda found: str(int((found[1] or found[2]) in self._macros)),
            plain[condition.start_byte : condition.end_byte],
        )
        text = text.replace("&&", " and ").replace("||", " or ")
        text = re.sub(r"!(?!=)", " not ", text)
        text = re.sub(
            r"\b(?!and\b|or\b|not\b)[A-Za-z_]\w*", lambda w: str(self._macros.get(w[0]) or 0), text
        )
        try:
            return bool(evaluate(" ".join(text.split()), {}))
        except UsageError:
            return False

    def unread(self) -> int:
        """The line from which on the grammar does not get to kernels that are there; 0: none."""
        for piece in self.pieces:
            if piece.kind == "other" and "__global__" in piece.text:
                todo = list(piece.node.children)
                while todo:
                    node = todo.pop(0)
                    if node.is_error:
                        return node.start_point[0] + 1
                    todo += node.children
                return piece.node.start_point[0] + 1
        return 0

    # --- asked for by name ---------------------------------------------------------

    def function(self, name: str) -> FilePiece | None:
        """The function of that name that has a body; of several the first that is no kernel."""
        found = [each for each in self.pieces if each.kind == "function" and name in each.names]
        return next((each for each in found if not each.kernel), found[0] if found else None)

    def named(self, name: str) -> FilePiece | None:
        """The first piece that declares a name, functions with a body before others."""
        return self.function(name) or next((p for p in self.pieces if name in p.names), None)

    def members(self, kind: str) -> list[tuple[str, int]] | None:
        """The data members of a structure, as type and number of each.

        None: it is none, or has what no list of types tells (a pointer, bits, a base, an alignment
        of its own, something virtual, an array of a size that is no number).
        """
        piece = self.named(kind)
        node = inner(piece.node) if piece is not None and piece.kind == "type" else None
        while node is not None and node.type not in ("struct_specifier", "class_specifier"):
            node = node.child_by_field_name("type")
        body = node.child_by_field_name("body") if node is not None else None
        if piece is None or node is None or body is None or _LAID_OUT.search(piece.text):
            return None
        if any(each.type == "base_class_clause" for each in node.named_children):
            return None
        found: list[tuple[str, int]] = []
        for member in body.named_children:
            text = piece.plain[member.start_byte : member.end_byte]
            if member.type != "field_declaration" or text.startswith("static"):
                continue
            type_ = member.child_by_field_name("type")
            for declared in member.children_by_field_name("declarator"):
                shape = piece.plain[declared.start_byte : declared.end_byte]
                if declared.type == "function_declarator":
                    continue
                sizes = [self._size(each) for each in re.findall(r"\[\s*(\w+)\s*\]", shape)]
                if type_ is None or None in sizes or not _PLAIN_MEMBER.fullmatch(shape):
                    return None
                name = piece.plain[type_.start_byte : type_.end_byte]
                found.append((name, math.prod(each or 0 for each in sizes)))
            if any(each.type == "bitfield_clause" for each in member.named_children):
                return None
        return found

    def _size(self, written: str) -> int | None:
        if written.isdigit():
            return int(written)
        piece = self.named(written)
        text = piece.text if piece is not None else ""
        value = re.search(rf"\b{written}\b\s*=?\s*(\d+)\s*;?\s*\Z", text)
        return int(value[1]) if value is not None else None

    def kernels(self) -> dict[str, FilePiece]:
        """Name -> kernel, in order."""
        return {p.names[0]: p for p in self.pieces if p.kernel and p.names}

    def needed(self, words: Iterable[str], *, host: bool = False) -> list[FilePiece]:
        """What code that mentions `words` needs to compile, in order, includes left out.

        Args:
            words: Identifiers.
            host: For the host compiler, which knows no kernel.
        """
        todo, seen, kept = list(words), set[str](), set[int]()
        while todo:
            word = todo.pop()
            if word in seen:
                continue
            seen.add(word)
            for number, piece in enumerate(self.pieces):
                if word in piece.names and piece.kind != "include" and number not in kept:
                    if not self._fits(piece, host=host):
                        continue
                    kept.add(number)
                    todo += piece.words
        return [piece for number, piece in enumerate(self.pieces) if number in kept]

    def _fits(self, piece: FilePiece, *, host: bool) -> bool:
        if host:
            return not piece.kernel and not (piece.kind == "variable" and piece.device)
        return piece.kind != "function" or self._on_device(piece)

    def _on_device(self, piece: FilePiece) -> bool:
        return piece.device or "constexpr" in piece.head or "__DEVICE" in piece.head.upper()


def _opens(node: Node) -> list[Node]:
    """The braces of an unnamed or ``extern "C"`` block."""
    if node.type == "namespace_definition" and node.child_by_field_name("name") is not None:
        return []
    return [each for each in node.children if each.type == "declaration_list"]


def _line(node: Node, plain: str) -> str:
    return plain[node.start_byte : node.end_byte].split("\n", 1)[0]


def _integer(text: str) -> int | None:
    try:
        return evaluate(re.sub(r"//.*|/\*.*?\*/", "", text).strip(), {})
    except UsageError:
        return None


def _kind(node: Node) -> PieceKind:
    node = inner(node)
    if node.type in ("preproc_def", "preproc_function_def"):
        return "macro"
    if node.type == "function_definition":
        return "function"
    if node.type in ("type_definition", "alias_declaration", "concept_definition") or (
        node.type.endswith("_specifier")
    ):
        return "type"
    if node.type == "using_declaration":
        return "using"
    if node.type == "declaration":
        return "variable"
    return "other"


def _names(node: Node, plain: str) -> Iterator[str]:
    """What a piece declares; of conditionals and namespaces all that stands in them."""
    node = inner(node)
    if node.type in _CONDITIONALS or node.type in ("namespace_definition", "declaration_list"):
        for child in node.children:
            yield from _names(child, plain)
        if node.type == "namespace_definition" and (name := node.child_by_field_name("name")):
            yield plain[name.start_byte : name.end_byte]
        return
    for key in ("name", "declarator"):
        for each in node.children_by_field_name(key):
            if found := name_in(each):
                yield plain[found.start_byte : found.end_byte]
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type.endswith("_specifier"):
        yield from _names(kind, plain)
        body = kind.child_by_field_name("body")
        if kind.type == "enum_specifier" and body is not None:
            for each in body.named_children:
                yield from _names(each, plain)
    if node.type == "enum_specifier" and (body := node.child_by_field_name("body")):
        for each in body.named_children:
            yield from _names(each, plain)


def name_in(node: Node | None) -> Node | None:
    """The identifier that a declarator declares."""
    while node is not None and "identifier" not in node.type:
        node = (
            node.child_by_field_name("declarator")
            or next((each for each in node.named_children if "declarator" in each.type), None)
            or next((each for each in node.named_children if "identifier" in each.type), None)
        )
    if node is not None and node.type == "qualified_identifier":
        return node.child_by_field_name("name")
    return node
