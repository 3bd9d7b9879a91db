"""Calls of a program's host code: its own functions, those of CUDA, and launches.

Functions of the file are entered; a call or a loop that only works on arrays is a unit of the
host's own work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.analysis.source.amounts import Known, element, number, operated, rounded_up
from workbench.analysis.source.hostseen import (
    Callee,
    ClearSeen,
    CopySeen,
    Extent,
    Frame,
    Fresh,
    HostWork,
    Instance,
    Lambda,
    LaunchSeen,
    LibrarySeen,
    Memory,
    Reference,
    Value,
    Variable,
)
from workbench.analysis.source.hostvalues import ASKED, INTEGERS, HostValues
from workbench.analysis.source.kernels import listed_parameters, parameters, template_parameters
from workbench.analysis.source.lines import scan
from workbench.analysis.source.pieces import FilePiece, Pieces, inner, name_in
from workbench.analysis.source.symbols import parse, words_of

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST = 24
_NAMES = ("identifier", "field_identifier", "primitive_type")
_ACTIVE = re.compile(r"<<<|\bcuda(?:Malloc|Memcpy|Memset|Launch|HostAlloc)\w*")
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dim3"})
#: What a function that is not here is taken to write to ``&width``, mostly of an image.
_FILLED = 256
#: Functions of libraries that read arrays: sums, and comparisons of NVIDIA's samples.
_READING = re.compile(r"\A(?:accumulate|reduce|inner_product|max_element)\Z|[Cc]ompare(?!Cap)")
_LIBRARY = re.compile(r"cu(?:blas|dnn|fft|sparse|solver)[A-Z]")
_ADDRESS = re.compile(r"(?:\([^()]*\*\s*\)\s*)?&\s*(\w+)\Z")
_ARITHMETIC = frozenset({"min", "max", "sqrt", "sqrtf", "pow", "powf", "abs", "floor", "floorf"})


class HostCalls(HostValues):
    """Calls on the way through a program.

    Attributes:
        left: What the parameters of the last function were in the end.
    """

    def __init__(self, pieces: Pieces) -> None:
        super().__init__(pieces)
        self.left: dict[str, Value] = {}
        self.active = self._active_functions()

    def enter(
        self, piece: FilePiece, given: list[Value], types: dict[str, Value | str] | None = None
    ) -> Value:
        """Go through a function's body."""
        body = inner(piece.node).child_by_field_name("body")
        if body is None or len(self.frames) > _DEEPEST or piece.kernel:
            return None
        frame = Frame(piece.names[0], piece.plain, piece.place)
        for name, bound in (types or {}).items():
            if isinstance(bound, str):
                frame.types[name] = bound
            else:
                frame.scopes[0][name] = bound
        for parameter, value in zip(parameters(piece), given, strict=False):
            frame.scopes[0][parameter.name] = value
            if isinstance(value, Variable) and parameter.stars and not parameter.reference:
                kind = value.kind if parameter.kind in frame.types or not value.kind else ""
                frame.scopes[0][parameter.name] = Variable(
                    parameter.name,
                    kind or self.resolve(parameter.kind),
                    value.memory,
                    value.items,
                    value.moved,
                )
        self.frames.append(frame)
        for parameter in parameters(piece)[len(given) :]:
            frame.scopes[0][parameter.name] = self._snippet(parameter.default)
        self.statement(body)
        self.frames.pop()
        self.left = frame.scopes[0]
        return frame.result

    def reaches(self, node: Node | None) -> bool:
        """Whether code allocates, copies or launches."""
        text = self.text(node)
        return bool(_ACTIVE.search(text)) or not self.active.isdisjoint(
            re.findall(r"[A-Za-z_]\w*(?=\s*[(<])", text)
        )

    def _active_functions(self) -> set[str]:
        """Functions and macros that reach the device, themselves or by what they call."""
        kinds = ("function", "macro")
        pieces = [p for p in self.pieces.pieces if p.names and not p.kernel]
        those = [(p.names[0], p.text, p.words) for p in pieces if p.kind in kinds]
        for piece in pieces:
            for name, node in _methods(piece) if piece.kind == "type" else ():
                text = piece.plain[node.start_byte : node.end_byte]
                those.append((name, text, frozenset(words_of(text))))
        found = {name for name, text, _ in those if _ACTIVE.search(text)}
        while True:
            more = {name for name, _, words in those if words & found} - found
            if not more:
                return found
            found |= more

    def _new_unit(self, node: Node, callee: str = "", given: list[Value] | None = None) -> HostWork:
        file = self.frames[-1].place.rpartition(":")[0]
        return HostWork(
            node,
            self.frames[-1].plain,
            callee,
            given or [],
            outside=self._outside(node),
            place=f"{file}:{node.start_point[0] + 1}",
        )

    def _outside(self, node: Node) -> dict[str, Value]:
        words = re.findall(r"[A-Za-z_]\w*", self.text(node))
        found: dict[str, Value] = {}
        for scope in self.frames[-1].scopes:
            found |= {word: scope[word] for word in words if word in scope}
        return found

    def _end_unit(self) -> None:
        unit, self.unit = self.unit, None
        if unit is not None and (unit.reads or unit.writes):
            self.found.events.append(unit)

    def _call(self, node: Node) -> Value:
        function, arguments = (node.child_by_field_name(x) for x in ("function", "arguments"))
        launch = next((c for c in node.children if c.type == "kernel_call_syntax"), None)
        name, template = self._called(function)
        listed = arguments.named_children if arguments is not None else []
        listed = [each for each in listed if each.type != "comment"]
        if launch is not None:
            held = self.lookup(name) if name else self.value(function)
            called = held.name if isinstance(held, Callee) else name
            self._launch(node, called, template, launch, listed)
            return None
        if function is not None and function.type == "field_expression":
            return self._method(function, name, listed)
        if name in _CASTS and name != "dim3":
            return self._cast_to(
                template[0] if template else "", self.value(listed[0]) if listed else None
            )
        if name in _BUILT_IN:
            return _BUILT_IN[name](self, listed)
        if name in ("ceil", "ceilf") and len(listed) == 1:
            return self._ceiling(listed[0])
        piece = self.pieces.named(name)
        if piece is not None and piece.kind == "macro":
            return self._macro(piece, listed)
        this = self.lookup("this") if piece is None else None
        if isinstance(this, Instance) and (method := _method(this.piece, name)) is not None:
            return self._on(this, method, [self.value(each) for each in listed])
        given = [self.value(each) for each in listed]
        if piece is not None and piece.kind == "type":
            return self._made(self.text(function), given)
        if name in _ARITHMETIC and given and all(isinstance(each, Known) for each in given):
            return self._arithmetic(name, [each for each in given if isinstance(each, Known)])
        if name == "dim3":
            return self._extent(given)
        if name in INTEGERS or name in ("float", "double"):
            return self._cast_to(name, given[0] if given else None)
        held = self.lookup(name) if name and piece is None else None
        if isinstance(held, Lambda):
            return self._inside(held, given)
        piece = self.pieces.function(held.name) if isinstance(held, Callee) else piece
        if piece is None or piece.kind != "function":
            self._unknown(name, node, listed, given)
            return None
        return self._inline(node, piece, template, given)

    def _called(self, function: Node | None) -> tuple[str, list[str]]:
        """The last name of what is called, and its template arguments as text."""
        template: list[str] = []
        while function is not None and function.type not in _NAMES:
            arguments = function.child_by_field_name("arguments")
            if function.type in ("template_function", "template_method") and arguments is not None:
                template = [self.text(each) for each in arguments.named_children]
            function = function.child_by_field_name("name") or function.child_by_field_name("field")
        return self.text(function), template

    def _inline(
        self, node: Node, piece: FilePiece, template: list[str], given: list[Value]
    ) -> Value:
        types: dict[str, Value | str] = {}
        names = template_parameters(piece)
        for name, text in zip(names, template, strict=False):
            value = None if element(self.resolve(text)) else self._snippet(text)
            types[name] = value if value is not None else self.resolve(text)
        for parameter, value in zip(parameters(piece), given, strict=False):
            free = parameter.kind in names and parameter.kind not in types
            if free and isinstance(value, Variable):
                types[parameter.kind] = value.kind
        alone = self.unit is None and piece.names[0] not in self.active
        if alone:
            self.unit = self._new_unit(node, piece.names[0], given)
        result = self.enter(piece, given, types)
        self._given_back(node, piece)
        if alone and self.unit is not None:
            self.unit.returned = result.memory if isinstance(result, Variable) else None
            self._end_unit()
        if isinstance(result, Variable) and result.memory is not None and result not in given:
            return Variable("return", result.kind, result.memory, result.items)
        return result

    def _inside(self, called: Lambda, given: list[Value]) -> Value:
        """Go through a lambda, with the variables around it."""
        body = called.node.child_by_field_name("body")
        if body is None or len(self.frames) > _DEEPEST:
            return None
        own, around = dict[str, Value](), called.frame
        frame = replace(around, scopes=[*around.scopes, own], result=None, left=False)
        return self._run(frame, called.node.child_by_field_name("declarator"), body, given)

    def _run(self, frame: Frame, head: Node | None, body: Node | None, given: list[Value]) -> Value:
        """Go through what is no function of the file's own level, in its innermost scope."""
        self.frames.append(frame)
        for number_, parameter in enumerate(listed_parameters(head, frame.plain)):
            default = self._snippet(parameter.default) if parameter.default else None
            self.declare(parameter.name, given[number_] if number_ < len(given) else default)
        if body is not None:
            self.statement(body)
        self.frames.pop()
        return frame.result

    def _made(self, kind: str, given: list[Value]) -> Instance | None:
        """An object of a class of the file: its fields, as a constructor leaves them."""
        found = re.match(r"(\w+)\s*(?:<(.*)>)?\Z", self.resolve(kind))
        piece = self.pieces.named(found[1]) if found is not None else None
        if found is None or piece is None or piece.kind != "type" or len(self.frames) > _DEEPEST:
            return None
        body = inner(piece.node).child_by_field_name("body")
        if body is None or body.type != "field_declaration_list":
            return None
        bound = [self.resolve(each) for each in (found[2] or "").split(",") if each.strip()]
        made = Instance(piece, dict(zip(template_parameters(piece), bound, strict=False)))
        frame = self._inside_of(made)
        self.frames.append(frame)
        for each in body.named_children:
            default = each.child_by_field_name("default_value")
            for declarator in each.children_by_field_name("declarator"):
                if each.type == "field_declaration" and declarator.type != "function_declarator":
                    self._declare(self.text(each.child_by_field_name("type")), declarator)
                    if default is not None:
                        self._set(self.text(name_in(declarator)), "=", self.value(default))
        self.frames.pop()
        made.fields |= frame.scopes.pop()
        if (constructor := _method(piece, found[1], len(given))) is not None:
            self._on(made, constructor, given)
        elif given and not isinstance(given[0], Instance):
            names = [name for name in made.fields if name != "this"]
            made.fields |= dict(zip(names, given, strict=False))  # as a list of its fields
        return made

    def _inside_of(self, made: Instance) -> Frame:
        place = made.piece.place
        made.fields["this"] = made
        return Frame(made.piece.names[0], made.piece.plain, place, [made.fields, {}], made.types)

    def _on(self, made: Instance, method: Node, given: list[Value]) -> Value:
        """Go through a method of an object."""
        if len(self.frames) > _DEEPEST:
            return None
        frame = self._inside_of(made)
        head = _head(method)
        for each in method.named_children:
            if each.type == "field_initializer_list":
                self._run(frame, head, None, given)
                self.frames.append(frame)
                for one in each.named_children:
                    self._begun(made, one)
                self.frames.pop()
        return self._run(frame, head, method.child_by_field_name("body"), given)

    def _begun(self, made: Instance, node: Node) -> None:
        """``size(n)`` of a constructor's list."""
        name = self.text(node.named_children[0]) if node.named_children else ""
        values = [
            self.value(each) for one in node.named_children[1:] for each in one.named_children
        ]
        old = made.fields.get(name)
        if isinstance(old, Variable) and old.memory is not None and old.memory.vector and values:
            old.memory.count = values[0] if isinstance(values[0], Known) else None
        elif values:
            self._set(name, "=", values[0])

    def _lambda(self, node: Node) -> Value:
        """One that reaches the device is gone through where it is called."""
        return Lambda(node, self.frames[-1]) if self.reaches(node) else None

    def _given_back(self, node: Node, piece: FilePiece) -> None:
        """Numbers that a function left in what it was given by reference."""
        arguments = node.child_by_field_name("arguments")
        listed = arguments.named_children if arguments is not None else []
        listed = [each for each in listed if each.type != "comment"]
        for argument, parameter in zip(listed, parameters(piece), strict=False):
            name, left = self.text(argument), self.left.get(parameter.name)
            plain = parameter.reference and not parameter.const and argument.type == "identifier"
            if plain and isinstance(left, Known) and name in self.frames[-1].unset:
                self._set(name, "=", left if left.value is not None else None)

    def _unknown(self, name: str, node: Node, listed: list[Node], given: list[Value]) -> None:
        """A function that is not here: of the standard library it may fill or read arrays."""
        arrays = [each.memory for each in given if isinstance(each, Variable) and each.memory]
        self._fills(name, listed)
        if name in ("generate", "generate_n", "fill", "fill_n", "iota") and arrays:
            body = self.text(listed[-1])
            inside = re.findall(r"\w+", body)
            more = [p.text for w in inside if (p := self.pieces.function(w)) is not None]
            self._write(arrays[0], " ".join([body, *more]))
        elif name in ("memset", "bzero") and arrays:
            self._write(arrays[0], "0")
        elif _LIBRARY.match(name) and arrays:
            self.found.events.append(LibrarySeen(name, arrays))
        elif _READING.search(name) and arrays:
            for each in arrays:
                self._read(each)
            if self.unit is None:
                unit = self._new_unit(node, f"std::{name}", given)
                unit.reads = list(dict.fromkeys(arrays))
                self.found.events.append(unit)

    def _fills(self, name: str, listed: list[Node]) -> None:
        """Integers without a value whose address is passed are filled by the function."""
        unset = self.frames[-1].unset
        for each in listed if not name.startswith("cu") else ():
            found = _ADDRESS.match(self.text(each))
            if found is None or found[1] not in unset or self.lookup(found[1]) is not None:
                continue
            self.found.notes.append(
                f"{name} gives `{found[1]}`, and {_FILLED} was put in its place"
            )
            self.assign(found[1], self._constant(found[1], number(_FILLED)))

    def _method(self, function: Node, name: str, listed: list[Node]) -> Value:
        base = self.value(function.child_by_field_name("argument"))
        given = [self.value(each) for each in listed]
        if isinstance(base, Instance) and (method := _method(base.piece, name)) is not None:
            return self._on(base, method, given)
        if not isinstance(base, Variable) or base.memory is None:
            return None
        if name in ("resize", "assign", "reserve") and given and isinstance(given[0], Known):
            base.memory.count = given[0]
        elif name in ("push_back", "emplace_back") and listed:
            self._write(base.memory, self.text(listed[0]))
        elif name in ("data", "begin", "end", "cbegin", "cend", "get"):
            return Variable(base.name, base.kind, base.memory)
        elif name == "size":
            return base.memory.count
        elif name == "at":
            self._read(base.memory)
        return None

    def _macro(self, piece: FilePiece, listed: list[Node]) -> Value:
        """A macro with arguments: those are gone through, and its value taken where it is one."""
        body = piece.node.child_by_field_name("value")
        names = piece.node.child_by_field_name("parameters")
        written = piece.plain[body.start_byte : body.end_byte].strip() if body is not None else ""
        known = [
            piece.plain[each.start_byte : each.end_byte]
            for each in (names.named_children if names is not None else [])
        ]
        if not re.search(r"[;{}#]|\bdo\b", written) and len(known) == len(listed) > 0:
            given = {n: f"({self.text(each)})" for n, each in zip(known, listed, strict=True)}
            if not self.reaches(listed[0]):
                return self._snippet(body_of(written, given))
        if piece.names[0] in self.active and re.search(r"<<<|[;{}]", written):
            self._expanded(body_of(written, dict(zip(known, map(self.text, listed), strict=False))))
            return None
        found: Value = None
        for each in listed:
            found = self.value(each)
        return found

    def _expanded(self, written: str) -> None:
        """Go through the statements of a macro that launches."""
        root, plain = parse(scan(f"void _() {{ {written} ; }}"))
        body = root.named_children[0].child_by_field_name("body") if root.named_children else None
        if body is None or len(self.frames) > _DEEPEST:
            return
        old, self.frames[-1].plain = self.frames[-1].plain, plain
        for child in body.named_children:
            self.statement(child)
        self.frames[-1].plain = old

    def _ceiling(self, node: Node) -> Value:
        while node.type in ("parenthesized_expression", "cast_expression") and node.named_children:
            node = node.child_by_field_name("value") or node.named_children[-1]
        if (
            node.type == "binary_expression"
            and self.text(node.child_by_field_name("operator")) == "/"
        ):
            a, b = (self.value(node.child_by_field_name(x)) for x in ("left", "right"))
            if isinstance(a, Known) and isinstance(b, Known):
                whole = [
                    Known(re.sub(r"\.0\Z", "", x.text), int(x.value)) if x.value is not None else x
                    for x in (a, b)
                ]
                return rounded_up(*whole)
        return self.value(node)

    def _arithmetic(self, name: str, given: list[Known]) -> Value:
        known = [each.value for each in given]
        if any(each is None for each in known):
            return None
        values = [each for each in known if each is not None]
        if name in ("min", "max") and len(given) > 1:
            chosen = min(values) if name == "min" else max(values)
            return Known(f"{name}({', '.join(each.text for each in given)})", chosen)
        try:
            operations: dict[str, Callable[[], float]] = {
                "sqrt": lambda: values[0] ** 0.5,
                "pow": lambda: float(values[0]) ** float(values[1]),
                "abs": lambda: abs(values[0]),
                "floor": lambda: float(values[0] // 1),
            }
            found = float(operations[name.removesuffix("f")]())
        except (KeyError, IndexError, OverflowError, ZeroDivisionError, TypeError):
            return None
        return number(int(found) if found.is_integer() else found)

    # --- the device --------------------------------------------------------------------

    def _launch(
        self, node: Node, name: str, template: list[str], launch: Node, listed: list[Node]
    ) -> None:
        shape = [self.value(each) for each in launch.named_children if each.type != "comment"]
        grid, block = (
            each if isinstance(each, Extent) else self._extent([each])
            for each in (shape + [None] * 2)[:2]
        )
        values = [self.value(each) for each in listed]
        arguments = [self._argument(each) for each in values]
        bound = []
        for text in template:
            kind = self.resolve(text)
            value = None if element(kind) else self._snippet(text)
            if isinstance(value, Callee):
                kind = value.name
            elif isinstance(value, Known) and value.whole is not None:
                kind = str(value.whole)
            bound.append(kind)
        file = self.frames[-1].place.rpartition(":")[0]
        self.found.events.append(
            LaunchSeen(
                name,
                bound,
                grid.amounts(),
                block.amounts(),
                shape[2] if len(shape) > 2 and isinstance(shape[2], Known) else None,
                arguments,
                f"{file}:{node.start_point[0] + 1}",
                [each.moved if isinstance(each, Variable) else None for each in values],
            )
        )

    def _argument(self, value: Value) -> Known | Memory | None:
        if isinstance(value, Variable):
            return value.memory
        if isinstance(value, Instance) and re.search(r"\boperator\b[^(=]*\*", value.piece.text):
            arrays = [each.memory for each in value.fields.values() if isinstance(each, Variable)]
            return arrays[0] if len(arrays) == 1 else None
        return value if isinstance(value, Known) else None

    def _pitched(self, listed: list[Node]) -> None:
        """Rows of device memory; the pitch that the driver chooses is taken for the row's bytes."""
        if len(listed) == 4:
            row, rows = self.value(listed[2]), self.value(listed[3])
            size = None
            if isinstance(row, Known) and isinstance(rows, Known):
                size = operated("*", row, rows)
            self._allocated([listed[0]], host=False, device=True, size=size)
            self.assign(self.text(listed[1]).strip("&() "), row)

    def _allocated(
        self, listed: list[Node], *, host: bool, device: bool, size: Value = None
    ) -> None:
        target = self.value(listed[0]) if listed else None
        size = self.value(listed[1]) if len(listed) > 1 else size
        variable = target.target if isinstance(target, Reference) else target
        if not isinstance(variable, Variable):
            return
        fresh = Fresh(size if isinstance(size, Known) else None)
        made = self._named(variable.name, variable.kind, fresh).memory
        assert made is not None
        made.host, made.device = host, device
        variable.memory = made

    def _mapped(self, listed: list[Node]) -> Value:
        """``cudaHostGetDevicePointer``: the host's array, which kernels reach as well."""
        target, memory = self.value(listed[0]), self._memory(listed[1])
        if isinstance(target, Reference) and memory is not None:
            target.target.memory, memory.device = memory, True
        return None

    def _memory(self, node: Node) -> Memory | None:
        found = self.value(node)
        if isinstance(found, Reference):
            found = found.target
        return found.memory if isinstance(found, Variable) else None

    def _copy(self, listed: list[Node]) -> Value:
        if len(listed) >= 2:
            target, source = self._memory(listed[0]), self._memory(listed[1])
            size = self.value(listed[2]) if len(listed) > 2 else None
            known = size if isinstance(size, Known) else None
            if target is not None or source is not None:
                self.found.events.append(CopySeen(source, target, size=known))
        return None

    def _to_symbol(self, listed: list[Node]) -> Value:
        if len(listed) >= 2:
            name = self.text(listed[0]).strip("&() ")
            source = self._memory(listed[1])
            self.found.events.append(CopySeen(source, None, name))
        return None

    def _clear(self, listed: list[Node]) -> Value:
        target = self._memory(listed[0]) if listed else None
        value = self.value(listed[1]) if len(listed) > 1 else None
        if target is not None and isinstance(value, Known):
            self.found.events.append(ClearSeen(target, value))
        return None

    def _malloc(self, listed: list[Node]) -> Value:
        sizes = [self.value(each) for each in listed]
        known = [each for each in sizes if isinstance(each, Known)]
        if len(known) == 2:
            return Fresh(operated("*", known[0], known[1]))
        return Fresh(known[0] if known else None)

    def _host_copy(self, listed: list[Node]) -> Value:
        if len(listed) >= 2:
            target, source = self._memory(listed[0]), self._memory(listed[1])
            if target is not None and source is not None:
                self.found.events.append(CopySeen(source, target))
        return None

    def _printed(self, listed: list[Node]) -> Value:
        """What is printed may be worked out there: ``printf("%s", right(a, b) ? …)``."""
        for each in listed:
            self.value(each)
        return None

    def _swap(self, listed: list[Node]) -> Value:
        pair = [self.value(each) for each in listed]
        if len(pair) == 2 and isinstance(pair[0], Variable) and isinstance(pair[1], Variable):
            pair[0].memory, pair[1].memory = pair[1].memory, pair[0].memory
        return None


def _methods(piece: FilePiece) -> Iterator[tuple[str, Node]]:
    """A class's functions with a body, by name."""
    body = inner(piece.node).child_by_field_name("body")
    for each in body.named_children if body is not None else ():
        node = inner(each)
        if node.type == "function_definition":
            name = name_in(node.child_by_field_name("declarator"))
            if name is not None:
                yield piece.plain[name.start_byte : name.end_byte], node


def _method(piece: FilePiece, name: str, given: int | None = None) -> Node | None:
    """A class's function of that name, if it can that with so many arguments."""
    found = [node for each, node in _methods(piece) if each == name]
    if given is not None:
        heads = [(node, _head(node)) for node in found]
        many = [(node, [*listed_parameters(head, piece.plain)]) for node, head in heads]
        found = [n for n, p in many if sum(not each.default for each in p) <= given <= len(p)]
    return found[0] if found else None


def _head(node: Node) -> Node | None:
    head = node.child_by_field_name("declarator")
    while head is not None and head.type != "function_declarator":
        head = head.child_by_field_name("declarator") or next(iter(head.named_children), None)
    return head


def body_of(written: str, given: Mapping[str, str]) -> str:
    """A macro's body with what its parameters stand for."""
    text = re.sub(r"[A-Za-z_]\w*", lambda word: given.get(word[0], word[0]), written)
    return re.sub(r"\s*##\s*", "", text.replace("\\\n", " "))


_BUILT_IN: dict[str, Callable[[HostCalls, list[Node]], Value]] = {
    **dict.fromkeys(
        ("cudaMalloc", "cudaMallocAsync"),
        lambda walk, listed: walk._allocated(listed, host=False, device=True),
    ),
    "cudaMallocManaged": lambda walk, listed: walk._allocated(listed, host=True, device=True),
    **dict.fromkeys(
        ("cudaMallocHost", "cudaHostAlloc", "posix_memalign"),
        lambda walk, listed: walk._allocated(listed, host=True, device=False),
    ),
    "cudaMallocPitch": HostCalls._pitched,
    "cudaHostGetDevicePointer": HostCalls._mapped,
    **dict.fromkeys(("cudaMemcpy", "cudaMemcpyAsync"), HostCalls._copy),
    **dict.fromkeys(
        ("cudaMemcpy2D", "cudaMemcpy2DAsync"),
        lambda walk, listed: walk._copy([*listed[:1], *listed[2:3]]),
    ),
    **dict.fromkeys(("cudaMemcpyToSymbol", "cudaMemcpyToSymbolAsync"), HostCalls._to_symbol),
    **dict.fromkeys(("cudaMemset", "cudaMemsetAsync"), HostCalls._clear),
    **dict.fromkeys(("malloc", "calloc", "aligned_alloc"), HostCalls._malloc),
    "memcpy": HostCalls._host_copy,
    "swap": HostCalls._swap,
    **dict.fromkeys(
        ("begin", "end", "cbegin", "cend", "thrust::raw_pointer_cast", "raw_pointer_cast"),
        lambda walk, listed: walk.value(listed[0]) if listed else None,
    ),
    **dict.fromkeys(
        ("atoi", "atol", "atoll", "stoi", "strtol", "stoul"),
        lambda _walk, _l: Known(ASKED, None),
    ),
    **dict.fromkeys(("printf", "fprintf"), HostCalls._printed),
    **dict.fromkeys(("free", "cudaFree", "srand", "exit"), lambda _walk, _listed: None),
}
