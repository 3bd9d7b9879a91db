"""What an expression of a program's host code is, and what it leaves behind: read, and not run.

Constants keep their names: ``n * sizeof(float)`` is an amount of `n`. What a statement or a call
does is told by the classes that are made of `HostValues`.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.analysis.source.amounts import Known, element, elements, number, operated, size_of
from workbench.analysis.source.hostseen import (
    Callee,
    CopySeen,
    Extent,
    Followed,
    Frame,
    Fresh,
    HostWork,
    Instance,
    Lambda,
    Memory,
    Reference,
    Value,
    Variable,
)
from workbench.analysis.source.kernels import template_parameters
from workbench.analysis.source.lines import scan
from workbench.analysis.source.pieces import FilePiece, Pieces, inner
from workbench.analysis.source.symbols import parse

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_STEPS = 200_000
#: Of a number that the command line has to give, and what is put in its place.
ASKED, _GUESS = "?given", 1024
_BOUND = re.compile(r"(%\s*\(?\s*)([A-Za-z_]\w*)")

#: What a program asks of the device, and what is answered.
_DEVICE = {
    "multiProcessorCount": 132,
    "maxThreadsPerMultiProcessor": 2048,
    "maxThreadsPerBlock": 1024,
    "warpSize": 32,
    "sharedMemPerBlock": 49152,
    "major": 9,
}
_DECLARED = ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier")
_UNWRAP = ("parenthesized_expression", "condition_clause", "cast_expression")
INTEGERS = frozenset(
    [
        "int",
        "unsigned",
        "unsigned int",
        "size_t",
        "long",
        "long long",
        "unsigned long",
        "unsigned long long",
        "short",
        "uint",
        "int32_t",
        "uint32_t",
        "int64_t",
        "uint64_t",
        "long int",
        "char",
        "unsigned char",
        "unsigned short",
        "bool",
    ]
)


class HostValues(abc.ABC):
    """Names and values on the way through a program.

    Attributes:
        pieces: Of its file.
        found: What was met so far.
        frames: The functions that are entered, the innermost last.
        unit: The host's work that is going on; None: none.
        active: Functions and macros that reach the device, themselves or by what they call.
        counting: In the head of a loop: whether its variable has its first value.
    """

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self.found = Followed()
        self.frames: list[Frame] = []
        self.globals: dict[str, Value] = {}
        self.unit: HostWork | None = None
        self.active: set[str] = set()
        self.steps = 0
        self.counting = ""

    @abc.abstractmethod
    def statement(self, node: Node) -> None:
        """Go through a statement."""

    @abc.abstractmethod
    def _declare(self, kind: str, declarator: Node) -> None:
        """What a declaration makes of one name."""

    @abc.abstractmethod
    def _call(self, node: Node) -> Value:
        """What a call gives; what it does is taken down."""

    @abc.abstractmethod
    def _made(self, kind: str, given: list[Value]) -> Instance | None:
        """An object of a class of the file."""

    @abc.abstractmethod
    def _lambda(self, node: Node) -> Value:
        """A function without a name."""

    # --- names -----------------------------------------------------------------------

    def text(self, node: Node | None) -> str:
        """A node as it is written."""
        return self.frames[-1].plain[node.start_byte : node.end_byte] if node is not None else ""

    def lookup(self, name: str) -> Value:
        """What a name stands for here."""
        for scope in reversed(self.frames[-1].scopes):
            if name in scope:
                return scope[name]
        if name not in self.globals:
            self.globals[name] = None  # one that names itself ends here
            self.globals[name] = self._global(name)
        return self.globals[name]

    def _global(self, name: str) -> Value:
        piece = self.pieces.named(name)
        if piece is None:
            return None
        if piece.kind == "function":
            return Callee(name)
        if piece.kind == "macro" and inner(piece.node).type == "preproc_def":
            body = piece.node.child_by_field_name("value")
            written = piece.plain[body.start_byte : body.end_byte] if body is not None else ""
            written = re.sub(r"//.*|/\*.*?\*/", "", written).strip()
            found = self._snippet(written)
            return self._constant(name, found) if isinstance(found, Known) else found
        if piece.kind == "variable":
            frame = Frame("", piece.plain, piece.place)
            self.frames.append(frame)
            self.statement(inner(piece.node))
            self.frames.pop()
            found = frame.scopes[0].get(name)
            if isinstance(found, Variable) and found.memory is not None:
                on_device = bool(re.search(r"__(?:constant|device|managed)__", piece.head))
                found.memory.device, found.memory.host = on_device, not on_device
            return found
        if piece.kind == "type":
            return self._enumerator(name, piece)
        return None

    def _enumerator(self, name: str, piece: FilePiece) -> Value:
        found = re.search(rf"\b{name}\s*=\s*(\d+)", piece.text)
        return number(int(found[1])) if found else None

    def _constant(self, name: str, value: Known) -> Known:
        """A number that the program gives a name, which stays its name from here on."""
        if value.whole is None or not re.fullmatch(r"-?\d+", value.text):
            return value
        if self.found.constants.setdefault(name, value.whole) != value.whole:
            return value  # another one of the same name: as a number
        return Known(name, value.whole)

    def _snippet(self, written: str) -> Value:
        """The value of an expression that stands elsewhere, with the names of here."""
        if not written or len(written) > 400:
            return None
        root, plain = parse(scan(f"auto _ = {written};"))
        declared = root.named_children[0] if root.named_children else None
        value = next(
            (
                each.child_by_field_name("value")
                for each in (declared.named_children if declared is not None else [])
                if each.type == "init_declarator"
            ),
            None,
        )
        if value is None or root.has_error:
            return None
        old, self.frames[-1].plain = self.frames[-1].plain, plain
        try:
            return self.value(value)
        finally:
            self.frames[-1].plain = old

    def resolve(self, kind: str) -> str:
        """A type by its own name, without ``const``, aliases followed."""
        for _ in range(6):
            kind = re.sub(r"\b(?:const|volatile|typename|struct|static)\b|\bstd::", "", kind)
            kind = " ".join(kind.replace("&", "").split())
            bound = next((f.types[kind] for f in reversed(self.frames) if kind in f.types), None)
            if bound is not None and bound != kind:
                kind = bound
                continue
            piece = self.pieces.named(kind)
            if piece is None or piece.kind not in ("type", "macro"):
                return kind
            node = inner(piece.node)
            key = "value" if piece.kind == "macro" else "type"
            target = node.child_by_field_name(key)
            if target is None or target.type in _DECLARED:
                return kind
            kind = piece.plain[target.start_byte : target.end_byte]
        return kind

    def size_of(self, kind: str, stars: str = "") -> Known | None:
        """``sizeof`` of a type, or of a pointer to it; None: not known."""
        return size_of(self.resolve(kind) + stars, self.pieces.members)

    def declare(self, name: str, value: Value) -> None:
        """Give a name a value in the innermost block."""
        self.frames[-1].scopes[-1][name] = value

    def assign(self, name: str, value: Value) -> None:
        """Give a name another value, wherever it was declared."""
        for scope in reversed(self.frames[-1].scopes):
            if name in scope:
                scope[name] = value
                return
        self.globals[name] = value

    # --- expressions -------------------------------------------------------------------

    def value(self, node: Node | None) -> Value:
        """What an expression is; None: that is not known. What it does is taken down."""
        self.steps += 1
        if node is None or self.steps > MOST_STEPS:
            return None
        handler = _EXPRESSIONS.get(node.type)
        if handler is not None:
            return handler(self, node)
        found: Value = None
        for child in node.named_children:
            found = self.value(child)
        return found if node.type in _UNWRAP and len(node.named_children) == 1 else None

    def _number(self, node: Node) -> Value:
        text = self.text(node).lower().replace("'", "")
        try:
            if re.match(r"0[xb]", text):
                return number(int(text.rstrip("ul"), 0))
            if re.fullmatch(r"\d+[ul]*", text):
                return number(int(text.rstrip("ul"), 8 if re.match(r"0\d", text) else 10))
            return number(float(text.rstrip("fl")))
        except ValueError:
            return None

    def _identifier(self, node: Node) -> Value:
        return self.lookup(self.text(node))

    def _list(self, node: Node) -> Value:
        return [self.value(each) for each in node.named_children if each.type != "comment"]

    def _binary(self, node: Node) -> Value:
        left, right = (self.value(node.child_by_field_name(x)) for x in ("left", "right"))
        operator = self.text(node.child_by_field_name("operator"))
        for pointer, steps in ((left, right), (right, left)):
            if isinstance(pointer, Variable) and operator in "+-":
                return self._moved(pointer, operator, steps)
        if isinstance(left, Known) and isinstance(right, Known):
            return operated(operator, left, right)
        if isinstance(left, Callee) and isinstance(right, Callee) and operator in ("==", "!="):
            return number(int((left == right) == (operator == "==")))
        return None

    def _moved(self, pointer: Variable, operator: str, steps: Value) -> Variable:
        """A pointer so many elements on; by how many may not be known."""
        moved: Known | None = Known("?", None)
        if isinstance(steps, Known):
            start = pointer.moved
            moved = steps if start is None and operator == "+" else None
            moved = moved or operated(operator, start or number(0), steps) or Known("?", None)
        return Variable(pointer.name, pointer.kind, pointer.memory, None, moved)

    def _unary(self, node: Node) -> Value:
        found = self.value(node.child_by_field_name("argument"))
        sign = self.text(node)[:1]
        if not isinstance(found, Known) or found.value is None:
            return found if sign == "+" else None
        if sign == "-":
            negative = number(-found.value)
            return negative if found.text == repr(found.value) else operated("-", number(0), found)
        return number(int(not found.value)) if sign == "!" else found

    def _address(self, node: Node) -> Value:
        argument = node.child_by_field_name("argument")
        found = self.value(argument)
        if isinstance(found, Callee):
            return found
        if self.text(node)[:1] == "&":
            direct = argument is not None and argument.type in ("identifier", "field_expression")
            if isinstance(found, Variable) and direct:
                return (
                    Reference(found) if found.items is None and not self._is_array(found) else found
                )
            if argument is None:
                return None
            pointer, index = self._pointer(argument), argument.child_by_field_name("indices")
            if isinstance(pointer, Variable) and index is not None:
                first = index.named_children[0] if index.named_children else index
                place = self.value(first)
                if one := pointer.pointer(place, new=True):
                    return Reference(one)
                return self._moved(pointer, "+", place)
            return pointer
        if isinstance(found, Reference):
            return found.target
        if isinstance(found, Variable) and found.memory is not None:
            self._read(found.memory)
        return None

    def _is_array(self, variable: Variable) -> bool:
        return variable.memory is not None and variable.memory.vector

    def _pointer(self, node: Node) -> Value:
        """The array that ``a[i]`` is an element of, at whatever place."""
        while node.type in ("subscript_expression", "parenthesized_expression"):
            above, node = node, node.child_by_field_name("argument") or node.named_children[0]
            found = self.value(node) if node.type == "identifier" else None
            if isinstance(found, Variable) and found.pointers is not None and above.parent:
                inside = above.parent.type == "subscript_expression"
                return self.value(above) if inside else found
        found = self.value(node)
        return found if isinstance(found, Variable) else None

    def _cast(self, node: Node) -> Value:
        found = self.value(node.child_by_field_name("value"))
        kind = self.text(node.child_by_field_name("type"))
        return self._cast_to(kind, found)

    def _cast_to(self, kind: str, found: Value) -> Value:
        if isinstance(found, Known) and found.value is not None and "*" not in kind:
            plain = self.resolve(kind)
            if plain in ("float", "double"):
                return Known(found.text, float(found.value), found.level)
            if plain in INTEGERS and isinstance(found.value, float):
                return Known(found.text, int(found.value), found.level)
        return found

    def _sizeof(self, node: Node) -> Value:
        kind = node.child_by_field_name("type")
        if kind is not None:
            text = self.text(kind)
            known = self.size_of(text, "*" if "*" in text else "")
            if known is not None:
                return known
            name = text
        else:
            name = self.text(node.child_by_field_name("value")).strip("() ")
        found = self.lookup(name.split("[")[0])
        if isinstance(found, Variable) and found.memory is not None:
            each = self.size_of(found.kind)
            if "[" in name or name.startswith("*"):
                return each
            count = found.memory.count
            return operated("*", count, each) if count is not None and each is not None else None
        return size_of("int") if isinstance(found, Known) else self.size_of(name)

    def _conditional(self, node: Node) -> Value:
        condition = self.value(node.child_by_field_name("condition"))
        then, other = (node.child_by_field_name(x) for x in ("consequence", "alternative"))
        if isinstance(condition, Known) and condition.value is not None:
            return self.value(then if condition.value else other)
        first, second = self.value(then), self.value(other)
        return second if first is None else first

    def _subscript(self, node: Node) -> Value:
        base = self.value(node.child_by_field_name("argument"))
        indices = node.child_by_field_name("indices")
        index = [self.value(each) for each in indices.named_children] if indices else []
        if isinstance(base, Variable):
            if one := base.pointer(index[0] if index else None, new=False):
                return one
            if base.memory is not None:
                self._read(base.memory)
            at = index[0].whole if index and isinstance(index[0], Known) else None
            if base.items and at is not None and 0 <= at < len(base.items):
                return base.items[at]
            if base.memory is not None and base.memory.kind.endswith("[]"):
                return base
        return None

    def _field(self, node: Node) -> Value:
        base = self.value(node.child_by_field_name("argument"))
        name = self.text(node.child_by_field_name("field"))
        if isinstance(base, Extent) and name in ("x", "y", "z"):
            return {"x": base.x, "y": base.y, "z": base.z}[name]
        if isinstance(base, Instance):
            return base.fields.get(name)
        if name in _DEVICE and base is None:
            note = f"{name} of the device is taken for {_DEVICE[name]}, an H100's"
            if note not in self.found.notes:
                self.found.notes.append(note)
            return number(_DEVICE[name])
        return None

    def _member(self, node: Node) -> Value:
        """``T::size``, a constant of a type."""
        kind, _, name = self.text(node).rpartition("::")
        found = re.match(r"(\w+)\s*(?:<(.*)>)?\Z", self.resolve(kind))
        piece = self.pieces.named(found[1]) if found is not None else None
        if found is None or piece is None:
            return self.lookup(name)
        written = re.search(rf"static\s[^;=]*\b{name}\s*=\s*([^;]+);", piece.text)
        given = [self.resolve(each) for each in (found[2] or "").split(",")]
        bound = dict(zip(template_parameters(piece), given, strict=False))
        self.frames[-1].types |= bound
        return self._snippet(written[1]) if written is not None else None

    def _assignment(self, node: Node) -> Value:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        value = self.value(right)
        operator = self.text(node.child_by_field_name("operator"))
        if left is None:
            return value
        left = _structure(left)
        if left.type == "identifier":
            self._set(self.text(left), operator, value)
        elif left.type == "field_expression":
            base = self.value(left.child_by_field_name("argument"))
            name = self.text(left.child_by_field_name("field"))
            if isinstance(base, Extent) and isinstance(value, Known) and name in ("x", "y", "z"):
                setattr(base, name, value)
            elif isinstance(base, Instance):
                self.frames[-1].scopes.append(base.fields)
                self._set(name, operator, value)
                self.frames[-1].scopes.pop()
        elif left.type in ("subscript_expression", "pointer_expression"):
            self._store(left, operator, value, right)
        return value

    def _set(self, name: str, operator: str, value: Value) -> None:
        old = self.lookup(name)
        if operator != "=":
            if isinstance(old, Known) and isinstance(value, Known):
                self.assign(name, operated(operator[:-1], old, value))
            return
        if isinstance(value, Fresh):
            kind, called = (old.kind, old.name) if isinstance(old, Variable) else ("", name)
            self.assign(name, self._named(called, kind, value))
        elif isinstance(value, Variable) and isinstance(old, Variable):
            if value.memory is not None and value.name == "return":
                value.memory.name = name
            memory = value.memory
            if memory is not None and memory.vector and old.memory is not None:
                old.memory.count, old.memory.filled = memory.count, list(memory.filled)
                self.found.events.append(CopySeen(memory, old.memory))
                return
            self.assign(
                name, Variable(name, old.kind or value.kind, memory, value.items, value.moved)
            )
        elif isinstance(value, Known) and isinstance(old, Variable) and value.value == 0:
            self.assign(name, Variable(name, old.kind))  # a null pointer
        elif isinstance(value, Known) and self.counting:
            self.assign(name, value if self.counting == "known" else Known(name, None))
        elif isinstance(value, Known) and value.text == ASKED:
            if old is None:
                self._plain(name, "int", 0, value, None)
        elif isinstance(value, Known) and old is None:
            self.assign(name, self._constant(name, value))
        elif isinstance(value, Known | Extent) or not isinstance(old, Variable):
            if value is None and (isinstance(old, Known) or name in self.frames[-1].unset):
                value = Known(name, None)  # not known, and still a number of that name
            self.assign(name, value)

    def _plain(
        self, name: str, kind: str, pointer: object, value: Value, node: Node | None
    ) -> None:
        if isinstance(value, Fresh):
            self.declare(name, self._named(name, kind, value))
        elif isinstance(value, Instance):
            self.declare(name, value)
            pointers = [each for each in value.fields.values() if isinstance(each, Variable)]
            if len(pointers) == 1:  # what wraps one array stands for it
                pointers[0].name = name
                if pointers[0].memory is not None:
                    pointers[0].memory.name = name
        elif isinstance(value, Variable):
            if value.memory is not None and value.name == "return":
                value.memory.name = name
            self.declare(
                name, Variable(name, kind or value.kind, value.memory, value.items, value.moved)
            )
        elif pointer:
            known = isinstance(value, Reference)
            self.declare(name, value if known else Variable(name, kind))
        elif isinstance(value, Known):
            if self.counting:
                first = value if self.counting == "known" else Known(name, None)
                self.declare(name, first)
                return
            if value.text == ASKED:
                value = number(_GUESS)
                self.found.notes.append(
                    f"the command line gives `{name}`, and {_GUESS} was put in its place"
                )
            integral = kind in INTEGERS or (kind == "" and value.whole is not None)
            if integral and isinstance(value.value, float):
                value = Known(value.text, int(value.value), value.level)
            found = self._constant(name, value) if integral else value
            self.declare(name, found)
        elif isinstance(value, Lambda):
            self.active.add(name)
            self.declare(name, value)
        else:
            if self.unit is None and node is not None and self.found.events:
                last = self.found.events[-1]
                if (
                    isinstance(last, HostWork)
                    and last.callee
                    and self.text(node).startswith(last.callee)
                ):
                    last.result = name
            if value is None and node is not None and kind in INTEGERS and not self.counting:
                value = Known(name, None)
            self.declare(name, value)

    def _named(self, name: str, kind: str, fresh: Fresh) -> Variable:
        known = element(kind, self.pieces.members)
        count = fresh.size
        if count is not None and not fresh.counted and known is not None:
            count = elements(count, known)
        elif count is not None and known is not None and known[1] > 1:
            count = operated("*", count, number(known[1]))
        memory = Memory(name, known[0] if known else "", count, host=True, kind=kind)
        return Variable(name, kind, memory)

    def _store(self, left: Node, operator: str, value: Value, right: Node | None) -> None:
        indices = left.child_by_field_name("indices")
        for each in indices.named_children if indices is not None else ():
            self.value(each)
        target = self._pointer(left) if left.type == "subscript_expression" else None
        if isinstance(target, Variable) and target.pointers is not None and indices is not None:
            one = target.pointer(self.value(indices.named_children[0]), new=True)
            if isinstance(value, Fresh) and one is not None:
                one.memory = self._named(one.name, one.kind, value).memory
            elif isinstance(value, Variable) and one is not None:
                one.memory = value.memory
            return
        if left.type == "pointer_expression":
            held = self.value(left.child_by_field_name("argument"))
            if isinstance(held, Reference):
                if isinstance(value, Fresh):
                    held.target.memory = self._named(
                        held.target.name, held.target.kind, value
                    ).memory
                return
            target = held if isinstance(held, Variable) else None
        if isinstance(target, Variable) and target.memory is not None:
            if operator != "=":
                self._read(target.memory)
            self._write(target.memory, _BOUND.sub(self._bound, self.text(right)))

    def _bound(self, found: re.Match[str]) -> str:
        """``% below`` of a function, by the name that its caller has for the number."""
        value = self.lookup(found[2])
        known = isinstance(value, Known) and value.whole is not None
        return found[1] + (value.expression if known and isinstance(value, Known) else found[2])

    def _update(self, node: Node) -> Value:
        argument = node.child_by_field_name("argument")
        if argument is not None and argument.type != "identifier":
            argument = _structure(argument)
            indices = argument.child_by_field_name("indices")
            for each in indices.named_children if indices is not None else ():
                self.value(each)
            target = self._pointer(argument)
            if isinstance(target, Variable) and target.memory is not None:
                self._read(target.memory)
                self._write(target.memory, self.text(node))
        return None

    def _new(self, node: Node) -> Value:
        arguments = node.child_by_field_name("arguments")
        given = [self.value(each) for each in arguments.named_children] if arguments else []
        if made := self._made(self.text(node.child_by_field_name("type")), given):
            return made
        declarator = node.child_by_field_name("declarator")
        length = declarator.child_by_field_name("length") if declarator is not None else None
        if length is None and declarator is not None and declarator.named_children:
            length = declarator.named_children[0]
        size = self.value(length) if length is not None else None
        return Fresh(size if isinstance(size, Known) else None, counted=True)

    def _extent(self, given: list[Value]) -> Extent:
        if len(given) == 1 and isinstance(given[0], Extent):
            return Extent(given[0].x, given[0].y, given[0].z)
        known = [each if isinstance(each, Known) else Known("?", None) for each in given[:3]]
        known += [number(1)] * (3 - len(known))
        return Extent(*known)

    def _read(self, memory: Memory) -> None:
        if self.unit is not None and memory not in self.unit.reads:
            self.unit.reads.append(memory)

    def _write(self, memory: Memory, written: str) -> None:
        memory.filled.append(written)
        if self.unit is not None and memory not in self.unit.writes:
            self.unit.writes.append(memory)


_EXPRESSIONS: dict[str, Callable[[HostValues, Node], Value]] = {
    "number_literal": HostValues._number,
    **dict.fromkeys(("identifier", "this"), HostValues._identifier),
    "type_identifier": HostValues._identifier,
    "binary_expression": HostValues._binary,
    "unary_expression": HostValues._unary,
    "pointer_expression": HostValues._address,
    "cast_expression": HostValues._cast,
    "sizeof_expression": HostValues._sizeof,
    "conditional_expression": HostValues._conditional,
    "subscript_expression": HostValues._subscript,
    "field_expression": HostValues._field,
    "qualified_identifier": HostValues._member,
    "assignment_expression": HostValues._assignment,
    "update_expression": HostValues._update,
    "initializer_list": HostValues._list,
    "new_expression": HostValues._new,
    "call_expression": lambda walk, node: walk._call(node),
    "lambda_expression": lambda walk, node: walk._lambda(node),
    "string_literal": lambda _walk, _node: None,
    "null": lambda _walk, _node: number(0),
    "true": lambda _walk, _node: number(1),
    "false": lambda _walk, _node: number(0),
}


def _structure(node: Node) -> Node:
    """Of a member of an array's element the element: ``bodies[i]`` of ``bodies[i].at[2]``."""
    found, inside = node, node
    while inside.type in ("field_expression", "subscript_expression"):
        below = inside.child_by_field_name("argument")
        if below is None:
            break
        if inside.type == "field_expression" and below.type == "subscript_expression":
            found = below
        inside = below
    return found
