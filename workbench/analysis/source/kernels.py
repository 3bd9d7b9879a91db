"""A kernel's parameters, and which of them its code reads and writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.analysis.source.pieces import FilePiece, Pieces, inner, name_in

if TYPE_CHECKING:
    from tree_sitter import Node

_ATOMIC = re.compile(r"atomic[A-Z]\w*\Z|red\w*\Z")
_ARRAYS = ("pointer_declarator", "array_declarator")
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Formal:
    """A parameter of a function.

    Attributes:
        name: Its name.
        kind: Its type without ``*``, ``&`` and qualifiers: ``float``.
        stars: How many ``*`` and ``[]`` it has.
        reference: Whether it has an ``&``.
        const: Whether what it points to is.
        default: Its value where a call gives none, as it is written.
    """

    name: str
    kind: str
    stars: int
    reference: bool
    const: bool
    default: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """What code does to the memory behind a parameter.

    `added` where an atomic operation, or an assignment such as ``+=``, goes on from what is there.
    """

    read: bool = False
    written: bool = False
    added: bool = False


def parameters(piece: FilePiece) -> list[Formal]:
    """Of a function, in order."""
    return list(listed_parameters(_declarator(inner(piece.node)), piece.plain))


def _declarator(node: Node) -> Node | None:
    found = node.child_by_field_name("declarator")
    while found is not None and found.type != "function_declarator":
        found = found.child_by_field_name("declarator") or next(
            (each for each in found.named_children if "declarator" in each.type), None
        )
    return found


def listed_parameters(node: Node | None, plain: str) -> Iterator[Formal]:
    """Of a function's or a lambda's declarator, in order."""
    listed = node.child_by_field_name("parameters") if node is not None else None
    for each in listed.named_children if listed is not None else ():
        if "parameter" not in each.type:
            continue
        declarator, kind = (each.child_by_field_name(x) for x in ("declarator", "type"))
        name = name_in(declarator)
        whole = plain[each.start_byte : each.end_byte]
        written = plain[declarator.start_byte : declarator.end_byte] if declarator else ""
        yield Formal(
            name=plain[name.start_byte : name.end_byte] if name is not None else "",
            kind=plain[kind.start_byte : kind.end_byte] if kind is not None else "",
            stars=written.count("*") + written.count("["),
            reference="&" in written,
            const=bool(re.match(r"[^*]*\bconst\b", whole)),
            default=whole.partition("=")[2].strip(),
        )


def template_parameters(piece: FilePiece) -> list[str]:
    """The names of a template's parameters, in order."""
    listed = piece.node.child_by_field_name("parameters")
    if piece.node.type != "template_declaration" or listed is None:
        return []
    found = []
    for each in listed.named_children:
        name = name_in(each.child_by_field_name("declarator") or each.child_by_field_name("name"))
        name = name or name_in(each)
        found.append(piece.plain[name.start_byte : name.end_byte] if name is not None else "")
    return found


def accesses(piece: FilePiece, pieces: Pieces) -> list[Access]:
    """What a kernel does to each of its parameters; of what is no pointer nothing."""
    names = [each.name for each in parameters(piece) if each.stars]
    found = _Accesses(pieces).of(piece, tuple(names))
    return [found.get(each.name, Access()) for each in parameters(piece)]


class _Accesses:
    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self.depth = 0
        self.known: dict[tuple[str, int], Access] = {}

    def of(self, piece: FilePiece, names: tuple[str, ...]) -> Mapping[str, Access]:
        body = inner(piece.node).child_by_field_name("body")
        if body is None or self.depth > _DEEPEST:
            return {name: Access(True, True) for name in names}
        plain, aliases = piece.plain, {name: name for name in names}
        found = dict.fromkeys(names, Access())
        nodes = list(_below(body))
        targets: dict[int, bool] = {}
        for _ in range(2):  # a pointer made of a pointer
            for node in nodes:
                if (base := self._alias(node, plain, aliases)) is not None:
                    targets[base.start_byte] = False  # it reads nothing yet
        stored: dict[str, int] = {}  # where the first statement ends that stores plainly
        for node in nodes:
            if node.type in ("assignment_expression", "update_expression"):
                left = node.child_by_field_name("left") or node.child_by_field_name("argument")
                base = _base(left, plain, aliases)
                if base is None or left is None or left.type == "identifier":
                    continue  # the pointer itself moves
                operator = node.child_by_field_name("operator")
                plainly = operator is not None and plain[operator.start_byte :][:1] == "="
                targets[base.start_byte] = plainly and node.type != "update_expression"
                name = aliases[plain[base.start_byte : base.end_byte]]
                old, goes_on = found[name], not targets[base.start_byte]
                if not goes_on:
                    stored.setdefault(name, node.end_byte)
                goes_on = goes_on and name not in stored
                found[name] = Access(old.read or goes_on, True, old.added or goes_on)
            elif node.type == "call_expression":
                self._call(node, plain, aliases, found, targets)
        for node in nodes:
            name = plain[node.start_byte : node.end_byte] if node.type == "identifier" else ""
            if name in aliases and node.start_byte not in targets and not _declares(node):
                if node.start_byte > stored.get(aliases[name], node.start_byte):
                    continue  # it reads what it has written
                old = found[aliases[name]]
                found[aliases[name]] = Access(True, old.written, old.added)
        return found

    def _alias(self, node: Node, plain: str, aliases: dict[str, str]) -> Node | None:
        """The pointer that another is made of, which is known by both names from here on."""
        if node.type != "init_declarator":
            return None
        left, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        whole = plain[left.start_byte : left.end_byte] if left is not None else ""
        kind = node.parent.child_by_field_name("type") if node.parent is not None else None
        auto = kind is not None and kind.type in ("placeholder_type_specifier", "auto")
        name = name_in(left)
        if name is None or value is None or not ("*" in whole or "&" in whole or auto):
            return None
        if (
            auto
            and value.type in ("subscript_expression", "binary_expression")
            and "[" in (plain[value.start_byte : value.end_byte])
        ):
            return None
        base = _base(value, plain, aliases)
        if base is not None:
            target = aliases[plain[base.start_byte : base.end_byte]]
            aliases.setdefault(plain[name.start_byte : name.end_byte], target)
        return None if auto else base  # `auto` may be a value

    def _call(
        self,
        node: Node,
        plain: str,
        aliases: Mapping[str, str],
        found: dict[str, Access],
        targets: dict[int, bool],
    ) -> None:
        function, arguments = (node.child_by_field_name(x) for x in ("function", "arguments"))
        if function is None or arguments is None:
            return
        name = re.split(r"[<(]", plain[function.start_byte : function.end_byte])[0].split("::")[-1]
        if name.endswith("_cast"):
            return
        for number, argument in enumerate(arguments.named_children):
            base = _base(argument, plain, aliases)
            if base is None:
                continue
            direct = argument.type in ("identifier", "pointer_expression", "binary_expression")
            direct = direct or "cast" in plain[argument.start_byte : argument.end_byte]
            if argument.type == "pointer_expression" and plain[argument.start_byte] == "*":
                direct = False
            mine = aliases[plain[base.start_byte : base.end_byte]]
            old = found[mine]
            if _ATOMIC.match(name) and number == 0:
                found[mine] = Access(old.read, True, True)
                targets[base.start_byte] = False
            elif direct and (given := self._given(name, number)) is not None:
                targets[base.start_byte] = False
                found[mine] = Access(
                    old.read or given.read, old.written or given.written, old.added or given.added
                )
            elif direct and re.match(r"__st|store|memcpy", name) and number == 0:
                found[mine] = Access(old.read, True, old.added)
                targets[base.start_byte] = False

    def _given(self, name: str, number: int) -> Access | None:
        """What a function of the file does to its argument of that number."""
        piece = self.pieces.function(name)
        if piece is None:
            return None
        listed = parameters(piece)
        if number >= len(listed) or not (listed[number].stars or listed[number].reference):
            return Access(read=True)
        key = piece.place, number
        if key not in self.known:
            self.known[key] = Access()  # a function that calls itself does no more than this
            self.depth += 1
            self.known[key] = self.of(piece, (listed[number].name,))[listed[number].name]
            self.depth -= 1
        return self.known[key]


def _declares(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type in _ARRAYS


def _below(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        found = stack.pop()
        yield found
        stack.extend(reversed(found.children))


def _base(node: Node | None, plain: str, names: Mapping[str, str]) -> Node | None:
    """The pointer that an expression is an element of, or an address in; indices left out."""
    stack = [node] if node is not None else []
    while stack:
        each = stack.pop(0)
        if each.type == "identifier" and plain[each.start_byte : each.end_byte] in names:
            return each
        stack[:0] = [
            child
            for child in each.named_children
            if child.type not in ("subscript_argument_list", "type_descriptor")
            and not (each.type == "call_expression" and child.type == "identifier")
        ]
    return None


def _strides(node: Node, plain: str) -> bool:
    """Whether an element of memory is one so far from a thread's own: of a tree in a block."""
    base, index = (node.child_by_field_name(x) for x in ("argument", "indices"))
    if base is None or index is None or base.type != "identifier":
        return False
    name, inside = (plain[each.start_byte : each.end_byte] for each in (base, index))
    outer: Node | None = node.parent
    while outer is not None and outer.type != "function_definition":
        variable = outer.child_by_field_name("initializer")
        if outer.type == "for_statement" and variable is not None:
            declared = re.search(r"(\w+)\s*=", plain[variable.start_byte : variable.end_byte])
            body = outer.child_by_field_name("body")
            head = plain[outer.start_byte : body.start_byte if body is not None else outer.end_byte]
            if declared and "blockDim" in head and re.search(rf"\+\s*{declared[1]}\b", inside):
                return not re.search(rf"__shared__[^;]*\b{name}\b", plain)
        outer = outer.parent
    return False


def guarded(piece: FilePiece) -> bool:
    """Whether a kernel stores only where a condition holds, so that a size may be any."""
    body = inner(piece.node).child_by_field_name("body")
    if body is None:
        return False
    names = {each.name: each.name for each in parameters(piece) if each.stars}
    plain, early = piece.plain, False
    for node in _below(body):
        text = plain[node.start_byte : node.end_byte]
        if node.type == "if_statement" and re.search(r"[<>]", text) and "return" in text:
            early = True
        if node.type == "subscript_expression" and _strides(node, plain):
            return False
        if node.type != "assignment_expression" or early:
            continue
        left = node.child_by_field_name("left")
        if left is None or left.type == "identifier" or _base(left, plain, names) is None:
            continue
        outer: Node | None = node.parent
        while outer is not None and outer.id != body.id:
            condition = outer.child_by_field_name("condition")
            if outer.type in ("if_statement", "for_statement") and condition is not None:
                text = plain[condition.start_byte : condition.end_byte]
                if re.search(r"[<>]", text):
                    break
            outer = outer.parent
        if outer is None or outer.id == body.id:
            return False
    return True
