"""The host's own answer in a ``.cu``: a function or a loop, made a C++ file that can be called.

Either the host computes the same as the device, or it compares the device's result with what it
should be: ``if (fabs(a[i] + b[i] - c[i]) > eps)`` is read as ``c[i] = a[i] + b[i]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.analysis.source.amounts import VECTORS, Known
from workbench.analysis.source.hostseen import HostWork, Memory, Value, Variable
from workbench.analysis.source.kernels import Formal, parameters
from workbench.analysis.source.pieces import Pieces, inner
from workbench.analysis.source.symbols import words_of
from workbench.language import template

if TYPE_CHECKING:
    from tree_sitter import Node

_C_TYPES = {
    "float32": "float", "float64": "double", "int8": "signed char", "uint8": "unsigned char",
    "int16": "short", "uint16": "unsigned short", "int32": "int", "uint32": "unsigned int",
    "int64": "long long", "uint64": "unsigned long long",
}  # fmt: skip
#: What a host program may take for granted.
_HEAD = (Path(__file__).parents[2] / "data/host_program.h").read_text(encoding="utf-8")
#: What the host takes for numbers of half a float's width, which it does not have.
_NARROW = ("__nv_bfloat16", "nv_bfloat16", "__half", "half")
_NARROWED = re.compile(
    r"__(?:float|half|double)2(?:half|float|bfloat16)(?:_r[nduz])?|__bfloat162float"
)
_WRAP = ("parenthesized_expression", "cast_expression", "condition_clause")


@dataclass(slots=True)
class HostReference:
    """A C++ file with one function to call.

    Attributes:
        code: Its text.
        arrays: The arrays that the function takes, in order, with the types of their elements:
            name of the buffer -> (NumPy's type, whether the function fills it).
        numbers: The expressions that follow, whole numbers of the problem.
        says: Where it comes from, for people.
        compares: Whether it is what results are compared with, perhaps not all of them.
    """

    code: str
    arrays: dict[str, tuple[str, bool]] = field(default_factory=dict)
    numbers: list[str] = field(default_factory=list)
    says: str = ""
    compares: bool = False


@dataclass(slots=True, frozen=True)
class AnswerSought:
    """What is known of the arrays of an answer that the host may give.

    Attributes:
        pieces: Of the file.
        events: The host's work on arrays, in order.
        inputs: The host's arrays that inputs were copied from -> their names.
        outputs: The host's arrays that results were copied to -> their names.
        names: Of all outputs.
        begun: Inputs that an output begins with -> that output; the host may work on them in place.
        later: Work that writes arrays which went to the device before it, with these, by identity.
        sizes: The parameters of problems, those included that the file does not tell.
    """

    pieces: Pieces
    events: list[HostWork]
    inputs: Mapping[Memory, str]
    outputs: Mapping[Memory, str]
    names: list[str]
    begun: Mapping[str, str]
    later: Set[tuple[int, int]]
    sizes: Mapping[str, int]

    def found(self) -> HostReference | None:
        """The host's answer, where the file has one that gives every output."""
        return self._computed() or self._in_turn() or self._held_against()

    def _written(
        self, events: list[HostWork], more: Mapping[Memory, str], filled: set[Memory]
    ) -> HostReference | None:
        known = {**self.inputs, **more}
        return _Writer(self.pieces, events, known, filled, self.sizes).written({})

    def _computed(self) -> HostReference | None:
        """The answer of one function or loop."""
        for event in self.events:
            inputs = self.inputs
            others = [m for m in event.reads if m in inputs and m not in event.writes]
            placed = {
                m: self.begun[inputs[m]]
                for m in event.writes
                if inputs.get(m) in self.begun and (others or (id(event), id(m)) in self.later)
            }
            fresh = [m for m in event.writes if m not in inputs or m in placed]
            if not fresh or not any(m in inputs for m in event.reads):
                continue
            paired = self._paired(fresh, placed)
            if paired is None or not set(self.names) <= set(paired.values()):
                continue
            if found := self._written([event], paired, set(paired)):
                return found
        return None

    def _in_turn(self) -> HostReference | None:
        """The answer that several functions or loops work out, each from what is there before."""
        known, chain = set(self.inputs), list[HostWork]()
        for event in self.events:
            if any(m in known for m in event.reads) and not known.issuperset(event.writes):
                chain.append(event)
                known.update(event.writes)
        written = dict.fromkeys(m for e in chain for m in e.writes)
        paired = self._paired([m for m in written if m not in self.inputs], {})
        if not paired or not set(self.names) <= set(paired.values()):
            return None
        needed, kept = set(paired), list[HostWork]()
        for event in reversed(chain):
            if not needed.isdisjoint(event.writes):
                kept.insert(0, event)
                needed.update(event.reads)
        return self._written(kept, paired, needed.difference(self.inputs))

    def _held_against(self) -> HostReference | None:
        """What a result is compared with."""
        for event in self.events:
            results = {m: self.outputs[m] for m in event.reads if m in self.outputs}
            others = [m for m in event.reads if m in self.inputs and m not in results]
            if set(results.values()) != set(self.names) or not others or len(self.names) != 1:
                continue
            if not self._as_sent(others):
                continue
            (result,) = list(results)[:1]
            if changed := _compared(self.pieces, event, result):
                known = {**self.inputs, **results}
                writer = _Writer(self.pieces, [event], known, {result}, self.sizes)
                if found := writer.written(changed):
                    return found
        return None

    def _as_sent(self, arrays: list[Memory]) -> bool:
        """Whether the host leaves arrays as they went to the device."""
        changed = {array for _, array in self.later}
        return not any(id(each) in changed for each in arrays)

    def _paired(
        self, fresh: list[Memory], placed: Mapping[Memory, str]
    ) -> dict[Memory, str] | None:
        """Which output each array of the host's answer is the answer of."""
        outputs = {**self.outputs, **placed}
        found = {m: outputs[m] for m in fresh if m in outputs}
        for event in self.events:
            both = [m for m in event.reads if m in fresh and m not in found]
            results = [outputs[m] for m in event.reads if m in outputs and m not in fresh]
            if len(both) == 1 and len(set(results)) == 1:
                found[both[0]] = results[0]
        held = any(
            not each.writes and not outputs.keys().isdisjoint(each.reads) for each in self.events
        )
        if len(self.names) == 1 and not found and len(fresh) == 1 and not held:
            found[fresh[0]] = self.names[0]
        for name in self.names:
            if name not in found.values():
                alike = [m for m in fresh if m not in found and name.lower() in m.name.lower()]
                if len(alike) == 1:
                    found[alike[0]] = name
        return found if len(set(found.values())) == len(found) else None


def _compared(pieces: Pieces, event: HostWork, result: Memory) -> dict[tuple[int, int], str]:
    """What to write in place of a comparison: where it stands -> the assignment."""
    if event.callee:
        piece = pieces.function(event.callee)
        if piece is None:
            return {}
        names = [
            each.name
            for each, value in zip(parameters(piece), event.arguments, strict=False)
            if isinstance(value, Variable) and value.memory is result
        ]
        node, plain = inner(piece.node), piece.plain
    else:
        node, plain = event.node, event.plain
        names = [
            name
            for name, value in event.outside.items()
            if isinstance(value, Variable) and value.memory is result
        ]
    for name in names:
        for statement in _statements(node):
            found = _assigned(statement, plain, name)
            if found:
                changed = {(statement.start_byte, statement.end_byte): found}
                return changed | (_writable(node, plain, name) if event.callee else {})
    return {}


def _writable(node: Node, plain: str, name: str) -> dict[tuple[int, int], str]:
    """A function's parameter without its ``const``: what was compared is assigned now."""
    stack, found = [node], dict[tuple[int, int], str]()
    while stack:
        each = stack.pop()
        if each.type == "parameter_declaration":
            if re.search(rf"\b{name}\Z", plain[each.start_byte : each.end_byte].rstrip("[] ")):
                spots = [part for part in each.children if part.type == "type_qualifier"]
                found |= {(part.start_byte, part.end_byte): "" for part in spots}
        elif each.type != "compound_statement":
            stack += each.children
    return found


def _statements(node: Node) -> Iterator[Node]:
    """Inner statements before outer ones."""
    for child in node.named_children:
        yield from _statements(child)
    if node.type in ("if_statement", "expression_statement", "declaration"):
        yield node


def _assigned(statement: Node, plain: str, name: str) -> str:
    """``c[i] = a[i] + b[i];`` of a statement that compares the two; "" of another."""
    head: Node | None = statement
    if statement.type == "if_statement":
        head = statement.child_by_field_name("condition")
    for node in _operations(head):
        sides = [node.child_by_field_name(x) for x in ("left", "right")]
        operator = node.child_by_field_name("operator")
        sign = plain[operator.start_byte : operator.end_byte] if operator is not None else ""
        if sign not in ("-", "==", "!=") or None in sides:
            continue
        for mine, other in (sides, sides[::-1]):
            mine, other = _bare(mine), _bare(other)
            if mine is None or other is None or mine.type != "subscript_expression":
                continue
            base = mine.child_by_field_name("argument")
            texts = [plain[x.start_byte : x.end_byte] for x in (mine, other)]
            if base is None or plain[base.start_byte : base.end_byte] != name:
                continue
            if re.search(rf"\b{name}\b", texts[1]):
                continue
            kept = ""
            if statement.type == "declaration":
                declared = statement.child_by_field_name("declarator")
                inside = declared.child_by_field_name("declarator") if declared else None
                if inside is None:
                    continue
                kept = f"auto {plain[inside.start_byte : inside.end_byte]} = 0.0; (void)" + (
                    f"{plain[inside.start_byte : inside.end_byte]}; "
                )
            return f"{kept}{texts[0]} = {texts[1]};"
    return ""


def _operations(node: Node | None) -> Iterator[Node]:
    stack = [node] if node is not None else []
    while stack:
        found = stack.pop(0)
        if found.type == "binary_expression":
            yield found
        stack.extend(found.named_children)


def _bare(node: Node | None) -> Node | None:
    while node is not None and node.type in _WRAP and node.named_children:
        node = node.child_by_field_name("value") or node.named_children[-1]
    return node


def _vector_type(name: str) -> str:
    """CUDA's ``float4`` for a compiler that has no CUDA: its members, alignment and maker."""
    base, many = name[:-1].replace("longlong", "long long"), int(name[-1])
    base = re.sub(r"^u(?=char|short|int|long)", "unsigned ", base)
    listed = "xyzw"[:many]
    aligned = f"alignas(sizeof({base}) * {many} > 16 ? 16 : sizeof({base}) * {many}) "
    taken, given = (", ".join(f"{kind}{each}" for each in listed) for kind in (f"{base} ", ""))
    return (
        f"struct {aligned if many in (2, 4) else ''}{name} {{ {base} {', '.join(listed)}; }};\n"
        f"static inline {name} make_{name}({taken}) {{ return {{{given}}}; }}"
    )


class _Writer:
    """Writes the file around calls and loops."""

    def __init__(
        self,
        pieces: Pieces,
        events: list[HostWork],
        known: Mapping[Memory, str],
        filled: set[Memory],
        sizes: Mapping[str, int],
    ) -> None:
        self.pieces, self.events, self.known, self.filled = pieces, events, known, filled
        self.sizes = sizes
        self.event = events[0]
        self.arrays: dict[str, tuple[str, bool]] = {}
        self.numbers: list[str] = []
        self.before: list[str] = []
        self.after: list[str] = []
        self.failed = False
        self.between: dict[Memory, str] = {}

    def written(self, changed: Mapping[tuple[int, int], str]) -> HostReference | None:
        lines = [line for m in self.filled if m not in self.known for line in self._between(m)]
        for event in self.events:
            self.event, self.before, self.after = event, [], []
            body = self._call() if self.event.callee else self._loop(changed)
            lines += ["{", *self.before, *body, *self.after, "}"]
        if self.failed or not any(filled for _, filled in self.arrays.values()):
            return None
        words = [w for e in self.events for w in words_of(self._text(e.node, e.plain, {}))]
        own = [each.callee for each in self.events if each.callee]
        kept = self.pieces.needed([*words, *own], host=True)
        parts = [_HEAD]
        mentioned = {word for piece in kept for word in piece.words} | set(words)
        parts += [f"typedef float {word};" for word in _NARROW if word in mentioned]
        parts += map(_vector_type, sorted({w.removeprefix("make_") for w in mentioned} & VECTORS))
        calls = [word for word in sorted(mentioned) if _NARROWED.fullmatch(word)]
        parts += [f"#define {word}(x) float(x)" for word in calls]
        parts += [p.text for p in self.pieces.pieces if p.kind == "using" and "std" in p.text]
        for piece in kept:
            text = piece.text
            if changed and piece.names[:1] == (self.event.callee,) and piece.kind == "function":
                text = self._text(piece.node, piece.plain, changed)
            ends = (
                ";"
                if piece.kind in ("variable", "type") and not text.rstrip().endswith(";")
                else ""
            )
            parts.append(text + ends)
        taken = [
            *(f"{_C_TYPES[kind]}* given_{name}" for name, (kind, _) in self.arrays.items()),
            *(f"long long number{i}" for i in range(len(self.numbers))),
        ]
        inside = "\n".join(f"    {line}" for line in lines)
        parts.append(f'extern "C" void reference({", ".join(taken)}) {{\n{inside}\n}}\n')
        what = " and ".join(f"`{x.callee}`" if x.callee else "the loop" for x in self.events)
        says = template("{what} at {place}, which computes the answer")
        if changed:
            says = template("{what} at {place}, which compares with the answer")
        elif len(self.events) > 1:
            says = template("{what} at {place}, which compute the answer")
        says = says.format(what=what, place=self.event.place)
        return HostReference("\n".join(parts), self.arrays, self.numbers, says, bool(changed))

    def _between(self, memory: Memory) -> list[str]:
        """An array of the host's alone, which one of its functions fills for the next."""
        kind, name = _C_TYPES.get(memory.dtype, ""), f"between{len(self.between)}"
        if memory.count is None or not kind:
            self.failed = True
            return []
        self.between[memory] = name
        return [
            f"std::vector<{kind}> {name}_({self._amount(memory.count)});",
            f"{kind}* {name} = {name}_.data();",
        ]

    def _text(self, node: Node, plain: str, changed: Mapping[tuple[int, int], str]) -> str:
        text, at = "", node.start_byte
        for (start, end), new in sorted(changed.items()):
            text += plain[at:start] + new
            at = end
        return text + plain[at : node.end_byte]

    def _call(self) -> list[str]:
        piece = self.pieces.function(self.event.callee)
        if piece is None:
            self.failed = True
            return []
        listed = parameters(piece)
        given = [
            self._given(value, parameter)
            for parameter, value in zip(listed, self.event.arguments, strict=False)
        ]
        call, returned = f"{self.event.callee}({', '.join(given)});", self.event.returned
        if returned is None or returned not in self.filled:
            return [call]
        first, last = "returned.begin()", "returned.end()"
        if not returned.vector:
            size = self._amount(returned.count) if returned.count is not None else ""
            self.failed = self.failed or not size
            first, last = "returned", f"returned + {size}"
        return [f"auto returned = {call}", f"std::copy({first}, {last}, {self._array(returned)});"]

    def _given(self, value: Value, parameter: Formal) -> str:
        if isinstance(value, Variable):
            memory = value.memory
            name = self._array(memory)
            if memory is None or not name:
                self.failed = True
                return ""
            if "vector" in parameter.kind:
                return self._vector(memory, name)
            if parameter.stars != 1:
                self.failed = True
            name = self._typed(memory, name)
            if value.moved is not None and value.moved.value != 0:
                return f"{name} + {self._amount(value.moved)}"
            return name
        if isinstance(value, Known):
            return self._amount(value)
        self.failed = True
        return ""

    def _array(self, memory: Memory | None) -> str:
        """The name of the function's own parameter for an array."""
        if memory in self.between:
            return self.between[memory]
        if memory is None or memory not in self.known:
            return ""
        narrow = memory.dtype in ("bfloat16", "float16")
        dtype, name = "float32" if narrow else memory.dtype, self.known[memory]
        if dtype not in _C_TYPES:
            return ""
        filled = memory in self.filled or self.arrays.get(name, ("", False))[1]
        self.arrays[name] = dtype, filled
        return f"given_{name}"

    def _vector(self, memory: Memory, name: str) -> str:
        if memory.count is None:
            self.failed = True
            return ""
        made = name.replace("given_", "vector_", 1)
        kind = memory.kind or _C_TYPES.get(memory.dtype, "float")
        first, last = name, f"{name} + {self._amount(memory.count)}"
        if self.pieces.members(kind) is not None:
            first, last = f"({kind}*){first}", f"({kind}*)({last})"
        self.before.append(f"std::vector<{kind}> {made}({first}, {last});")
        if memory in self.filled:
            self.after.append(f"std::copy({made}.begin(), {made}.end(), {first});")
        return made

    def _typed(self, memory: Memory, name: str) -> str:
        """An array as the file types its elements: ``int64_t`` is ``long`` here, elsewhere not."""
        plain = memory.kind and "[" not in memory.kind
        wide = memory.dtype in ("int64", "uint64") or self.pieces.members(memory.kind) is not None
        return f"({memory.kind}*){name}" if plain and wide else name

    def _amount(self, value: Known) -> str:
        words = re.findall(r"[A-Za-z_]\w*", value.expression)
        told = value.whole is not None or not set(words) - {*self.sizes, "cdiv"}
        if words and told:
            if value.expression not in self.numbers:
                self.numbers.append(value.expression)
            return f"number{self.numbers.index(value.expression)}"
        if value.value is None:
            self.failed = True
            return ""
        return repr(value.value)

    def _loop(self, changed: Mapping[tuple[int, int], str]) -> list[str]:
        for name, value in self.event.outside.items():
            if isinstance(value, Variable):
                memory = value.memory
                taken = self._array(memory)
                if memory is None or not taken or memory.kind.endswith("[]"):
                    self.failed = True
                    return []
                if memory.vector:
                    made = self._vector(memory, taken)
                    self.before.append(f"auto& {name}_ = {made};")
                else:
                    self.before.append(f"auto* {name}_ = {self._typed(memory, taken)};")
            elif isinstance(value, Known):
                number = self._amount(value) if value.value is not None else "0"
                kind = "int" if value.whole is not None or value.value is None else "double"
                self.before.append(f"{kind} {name}_ = {number};")
        outside = [n for n, v in self.event.outside.items() if isinstance(v, Variable | Known)]
        inside = self._text(self.event.node, self.event.plain, changed)
        opened = "{ " + " ".join(f"auto& {name} = {name}_; (void){name};" for name in outside)
        return [opened, inside, "}"]
