"""What the host code of a ``.cu`` does with its kernels: read, and nothing of it run.

`follow` walks through ``main`` as the program would go without arguments: constants keep their
names, functions of the file are entered, loops are gone through once. What comes out is what the
device sees of it, in order: memory, copies, launches, and between them the host's own work on the
same arrays. Where the file chooses between kernels (``switch (atoi(argv[1]))``), `choices` tells
all ways, and each is followed by itself.

It is one module because a statement, an expression and a call are read by one another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from workbench.analysis.source.amounts import (
    Known,
    element,
    elements,
    number,
    operated,
    rounded_up,
    size_of,
)
from workbench.analysis.source.kernels import listed_parameters, parameters, template_parameters
from workbench.analysis.source.lines import scan
from workbench.analysis.source.pieces import FilePiece, Pieces, inner, name_in
from workbench.analysis.source.symbols import parse

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST, _MOST_STEPS = 24, 200_000
_ACTIVE = re.compile(r"<<<|\bcuda(?:Malloc|Memcpy|Memset|Launch|HostAlloc)\w*")
_COMPARES = re.compile(r"==|!=|[<>]")
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dim3"})
#: Of a number that the command line has to give, and what is put in its place.
_ASKED, _GUESS = "?given", 1024
#: What a function that is not here is taken to write to ``&width``, mostly of an image.
_FILLED = 256
_LAUNCHED = re.compile(r"\b([A-Za-z_]\w*)\s*<<<")
_POINTED = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*&?\s*([A-Za-z_]\w*)\s*(?:<[\w, ]*>)?\s*;")
#: Functions of libraries that read arrays: sums, and comparisons of NVIDIA's samples.
_READING = re.compile(r"\A(?:accumulate|reduce|inner_product|max_element)\Z|[Cc]ompare(?!Cap)")
_BOUND = re.compile(r"(%\s*\(?\s*)([A-Za-z_]\w*)")
_ADDRESS = re.compile(r"(?:\([^()]*\*\s*\)\s*)?&\s*(\w+)\Z")
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


@dataclass(slots=True, eq=False)
class Memory:
    """An array of the program.

    Attributes:
        name: The variable that it was first kept in.
        dtype: NumPy's type of its elements, "" where it is not known.
        count: Elements; None: not known.
        device: Whether kernels reach it.
        host: Whether the host does.
        filled: What the host's code assigned to its elements, as it is written.
        dims: Of an array with several dimensions, the inner ones as text.
    """

    name: str
    dtype: str = ""
    count: Known | None = None
    device: bool = False
    host: bool = False
    filled: list[str] = field(default_factory=list)
    vector: bool = False
    kind: str = ""


@dataclass(slots=True, eq=False)
class Variable:
    """A pointer, an array or a vector by its name; `moved` elements behind its beginning.

    `pointers` are those of an array of pointers, by their index.
    """

    name: str
    kind: str
    memory: Memory | None = None
    items: list[Value] | None = None
    moved: Known | None = None
    pointers: dict[int, Variable] | None = None

    def pointer(self, index: Value, *, new: bool) -> Variable | None:
        """One of an array of pointers; where it is not `new`, one that is there for another."""
        if self.pointers is None:
            return None
        at = index.whole if isinstance(index, Known) and index.whole is not None else 0
        if at not in self.pointers and self.pointers and not new:
            at = min(self.pointers)
        return self.pointers.setdefault(at, Variable(f"{self.name}{at or ''}", self.kind))


@dataclass(slots=True, eq=False)
class Reference:
    """``&p`` of a pointer `p`."""

    target: Variable


@dataclass(slots=True, eq=False)
class Extent:
    """A ``dim3``."""

    x: Known
    y: Known
    z: Known

    def amounts(self) -> list[Known]:
        """Its dimensions without the last ones that are 1."""
        found = [self.x, self.y, self.z]
        while len(found) > 1 and found[-1].text == "1":
            found.pop()
        return found


@dataclass(slots=True)
class _Fresh:
    """Memory that was asked for and has no name yet: bytes, or elements."""

    size: Known | None
    counted: bool = False


@dataclass(slots=True, frozen=True)
class _Callee:
    name: str


@dataclass(slots=True, frozen=True)
class _Lambda:
    node: Node
    frame: _Frame  # of the function that it stands in, whose variables it has


Value = Known | Variable | Reference | Extent | _Fresh | _Callee | _Lambda | list["Value"] | None


@dataclass(slots=True, eq=False)
class LaunchSeen:
    """A kernel's launch; `arguments` are amounts, or the memory behind pointers.

    `offsets` are the elements by which each pointer is behind its array's beginning.
    """

    kernel: str
    template: list[str]
    grid: list[Known]
    block: list[Known]
    shared: Known | None
    arguments: list[Known | Memory | None]
    place: str
    offsets: list[Known | None] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class CopySeen:
    """``cudaMemcpy`` of `size` bytes; `symbol` where it went to a variable of the device."""

    source: Memory | None
    target: Memory | None
    symbol: str = ""
    size: Known | None = None


@dataclass(slots=True, eq=False)
class ClearSeen:
    """``cudaMemset``."""

    target: Memory
    value: Known


@dataclass(slots=True, eq=False)
class HostWork:
    """Work of the host on arrays: a call, or a loop in a function that drives the device.

    Attributes:
        node: The call or the loop.
        plain: Text that the node is of.
        callee: The function that is called; "": a loop.
        arguments: Of the call.
        reads: Memory that it reads, in order.
        writes: Memory that it writes.
        outside: Of a loop, the variables around it that it mentions.
        place: ``file:line``.
        result: The variable that a call's result was kept in.
        returned: The array that a call gives.
    """

    node: Node
    plain: str
    callee: str
    arguments: list[Value] = field(default_factory=list)
    reads: list[Memory] = field(default_factory=list)
    writes: list[Memory] = field(default_factory=list)
    outside: dict[str, Value] = field(default_factory=dict)
    place: str = ""
    result: str = ""
    returned: Memory | None = None


Event = LaunchSeen | CopySeen | ClearSeen | HostWork


@dataclass(slots=True, eq=False)
class Followed:
    """What a program does.

    Attributes:
        events: In order.
        constants: Name -> value of the program's integers that were written as numbers.
        choices: What the program chooses a kernel by: the labels of each way.
        notes: What was guessed on the way.
    """

    events: list[Event] = field(default_factory=list)
    constants: dict[str, int] = field(default_factory=dict)
    choices: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def follow(pieces: Pieces, choice: int = 0, start: str = "main") -> Followed:
    """Walk through a program.

    Args:
        pieces: Of its file.
        choice: Which of the ways is taken where it chooses between kernels.
        start: The function that it begins with.
    """
    walk = _HostWalk(pieces, choice)
    begin = pieces.function(start)
    if begin is not None:
        walk.enter(begin, [Known("1", 1), None])
    return walk.found


@dataclass(slots=True)
class _Frame:
    name: str
    plain: str
    place: str
    scopes: list[dict[str, Value]] = field(default_factory=lambda: [{}])
    types: dict[str, str] = field(default_factory=dict)
    result: Value = None
    left: bool = False
    unset: set[str] = field(default_factory=set)  # integers that were declared without a value


class _HostWalk:
    def __init__(self, pieces: Pieces, choice: int) -> None:
        self.pieces, self.choice = pieces, choice
        self.found = Followed()
        self.frames: list[_Frame] = []
        self.globals: dict[str, Value] = {}
        self.unit: HostWork | None = None
        self.steps = 0
        self.forked: int | None = None
        self.left: dict[str, Value] = {}  # what the last function's parameters were in the end
        self.counting = ""  # in the head of a loop: whether its variable has its first value
        self.active = self._active_functions()
        texts = [each.text for each in pieces.pieces if each.kind == "function"]
        called = {name for text in texts for name in _LAUNCHED.findall(text)}
        self.pointers = called - set(pieces.kernels())  # variables that are launched

    def _active_functions(self) -> set[str]:
        """Functions and macros that reach the device, themselves or by what they call."""
        kinds = ("function", "macro")
        those = [p for p in self.pieces.pieces if p.kind in kinds and p.names and not p.kernel]
        found = {p.names[0] for p in those if _ACTIVE.search(p.text)}
        while True:
            more = {p.names[0] for p in those if p.words & found} - found
            if not more:
                return found
            found |= more

    # --- names -----------------------------------------------------------------------

    def text(self, node: Node | None) -> str:
        return self.frames[-1].plain[node.start_byte : node.end_byte] if node is not None else ""

    def lookup(self, name: str) -> Value:
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
            return _Callee(name)
        if piece.kind == "macro" and inner(piece.node).type == "preproc_def":
            body = piece.node.child_by_field_name("value")
            written = piece.plain[body.start_byte : body.end_byte] if body is not None else ""
            written = re.sub(r"//.*|/\*.*?\*/", "", written).strip()
            found = self._snippet(written)
            return self._constant(name, found) if isinstance(found, Known) else found
        if piece.kind == "variable":
            frame = _Frame("", piece.plain, piece.place)
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

    def declare(self, name: str, value: Value) -> None:
        self.frames[-1].scopes[-1][name] = value

    def assign(self, name: str, value: Value) -> None:
        for scope in reversed(self.frames[-1].scopes):
            if name in scope:
                scope[name] = value
                return
        self.globals[name] = value

    # --- statements --------------------------------------------------------------------

    def enter(
        self, piece: FilePiece, given: list[Value], types: dict[str, Value | str] | None = None
    ) -> Value:
        """Go through a function's body."""
        body = inner(piece.node).child_by_field_name("body")
        if body is None or len(self.frames) > _DEEPEST or piece.kernel:
            return None
        frame = _Frame(piece.names[0], piece.plain, piece.place)
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

    def statement(self, node: Node) -> None:
        self.steps += 1
        if self.frames[-1].left or self.steps > _MOST_STEPS:
            return
        handler = _STATEMENTS.get(node.type)
        if handler is not None:
            handler(self, node)
        elif node.type.endswith(("_expression", "literal")) or node.type == "identifier":
            self.value(node)
        else:
            for child in node.named_children:
                self.statement(child)

    def reaches(self, node: Node | None) -> bool:
        """Whether code allocates, copies or launches."""
        text = self.text(node)
        return bool(_ACTIVE.search(text)) or not self.active.isdisjoint(
            re.findall(r"[A-Za-z_]\w*(?=\s*[(<])", text)
        )

    def _block(self, node: Node) -> None:
        self.frames[-1].scopes.append({})
        for child in node.named_children:
            self.statement(child)
        self.frames[-1].scopes.pop()

    def _return(self, node: Node) -> None:
        if node.named_children:
            self.frames[-1].result = self.value(node.named_children[0])
        self.frames[-1].left = True

    def _if(self, node: Node) -> None:
        condition = self.value(node.child_by_field_name("condition"))
        then, other = (node.child_by_field_name(x) for x in ("consequence", "alternative"))
        branches = list(_branches(node))
        if (
            self.forked is None
            and len([each for each in branches if self._launches(each)]) > 1
            and _by_number(self.text(node.child_by_field_name("condition")))
            and not self._settled(condition, node)
        ):
            ways = [each for each in branches if self._launches(each)]
            labels = [self._label(each) for each in ways]
            self._fork(ways, labels)
            return
        known = condition.value if isinstance(condition, Known) else None
        usage = "argc" in self.text(node.child_by_field_name("condition"))
        if usage and then is not None and re.search(r"\b(?:exit|return)\b", self.text(then)):
            known = 0  # how the program says what it wants to be given
        if known is not None and self.unit is None:
            chosen = then if known else other
            if chosen is not None:
                self.statement(chosen)
            return
        launching = [each for each in branches if self._launches(each)]
        for branch in (then, other):
            if branch is None or (len(launching) > 1 and branch is not then):
                continue  # of two ways to launch the first
            if (
                self.unit is not None
                or self.reaches(branch)
                or not re.search(r"\b(?:exit|return|abort)\b", self.text(branch))
            ):
                self._maybe(branch)

    def _label(self, branch: Node) -> str:
        """What a branch of ``if`` is taken for."""
        above = branch.parent
        if above is None or above.type != "if_statement":
            return "else"
        return self.text(above.child_by_field_name("condition")).strip("()")

    def _settled(self, condition: Value, node: Node) -> bool:
        """Whether what is chosen by is a constant of the program and no argument of it."""
        names = set(re.findall(r"[A-Za-z_]\w*", self.text(node.child_by_field_name("condition"))))
        chosen = {name for frame in self.frames for name in _from_arguments(frame)}
        return isinstance(condition, Known) and condition.value is not None and not names & chosen

    def _maybe(self, branch: Node) -> None:
        """A branch that may not be taken: that it leaves says nothing."""
        self.statement(branch)
        self.frames[-1].left = False

    def _launches(self, node: Node) -> bool:
        """Whether code launches a kernel, or points to the one that is launched."""
        text = self.text(node)
        return (
            "<<<" in text
            or any(
                name in self.active and self._launching(name, set())
                for name in re.findall(r"[A-Za-z_]\w*(?=\s*[(<])", text)
            )
            or any(
                found[1] in self.pointers and found[2] in self.pieces.kernels()
                for found in _POINTED.finditer(text)
            )
        )

    def _launching(self, name: str, seen: set[str]) -> bool:
        piece = self.pieces.named(name)
        if piece is None or name in seen:
            return False
        seen.add(name)
        return "<<<" in piece.text or any(
            self._launching(each, seen) for each in piece.words & self.active
        )

    def _fork(self, ways: list[Node], labels: list[str]) -> None:
        self.forked = ways[0].start_byte
        self.found.choices = labels
        for child in [ways[min(self.choice, len(ways) - 1)]]:
            self.statement(child)

    def _switch(self, node: Node) -> None:
        value = self.value(node.child_by_field_name("condition"))
        body = node.child_by_field_name("body")
        cases = [c for c in body.named_children if c.type == "case_statement"] if body else []
        ways = [each for each in cases if self._launches(each)]
        if (
            len(ways) > 1
            and self.forked is None
            and not (
                isinstance(value, Known)
                and value.value is not None
                and self._constant_argument(node)
            )
        ):
            labels = [self.text(each.child_by_field_name("value")) or "default" for each in ways]
            self._fork(ways, labels)
            return
        if self.forked is not None and len(ways) > 1 and not isinstance(value, Known):
            self.statement(ways[min(self.choice, len(ways) - 1)])
            return
        for each in cases:
            label = self.value(each.child_by_field_name("value"))
            other = (
                isinstance(label, Known) and isinstance(value, Known) and label.value != value.value
            )
            if each in ways and not other:
                self.statement(each)
                return

    def _constant_argument(self, node: Node) -> bool:
        """Whether a function chooses by a number that each of its callers writes down."""
        condition = self.text(node.child_by_field_name("condition")).strip("() ")
        frame = self.frames[-1]
        return (
            frame.name != "main"
            and re.fullmatch(r"\w+", condition) is not None
            and (isinstance(found := self.lookup(condition), Known) and found.text.isdigit())
        )

    def _case(self, node: Node) -> None:
        label = node.child_by_field_name("value")
        for child in node.named_children:
            if child.type == "break_statement":
                return
            if label is None or child.id != label.id:
                self.statement(child)

    def _loop(self, node: Node) -> None:
        self.frames[-1].scopes.append({})
        body = node.child_by_field_name("body")
        alone = self.unit is None and not self.reaches(node) and not self._calls(node)
        alone = alone and self.frames[-1].name in (self.active | {"main"})
        if alone:
            self.unit = self._new_unit(node)
        start = node.child_by_field_name("initializer") or node.child_by_field_name("declarator")
        counted, self.counting = self.counting, "known" if self.reaches(body) else "open"
        for name in ("initializer", "condition", "right", "update"):
            part = node.child_by_field_name(name)
            if part is not None and (name != "update" or not self.reaches(body)):
                self.statement(part)
            self.counting = counted
        if start is not None and node.type == "for_range_loop":
            self._each(self.text(name_in(start)), node)
        for child in node.named_children:
            if child.type == "comment":
                continue
            if body is not None and child.id == body.id:
                self._maybe(child)
        if alone:
            self._end_unit()
        self.frames[-1].scopes.pop()

    def _each(self, name: str, node: Node) -> None:
        """``for (auto& x : values)``: what is assigned to `x` fills the array."""
        self.declare(name, None)
        values = self.value(node.child_by_field_name("right"))
        if not isinstance(values, Variable) or values.memory is None:
            return
        filled = re.search(rf"\b{name}\s*[-+*/]?=(?!=)\s*([^;]*)", self.text(node))
        if filled is not None:
            self._write(values.memory, filled[1])
        else:
            self._read(values.memory)

    def _calls(self, node: Node) -> bool:
        """Whether code calls a function of the file, and gives it an array."""
        for found in re.finditer(r"(\w+)\s*\(([^;]*)\)", self.text(node)):
            piece = self.pieces.function(found[1])
            if piece is not None and not piece.device:
                words = re.findall(r"[A-Za-z_]\w*(?!\w*\s*\[)", found[2])
                if any(isinstance(self.lookup(word), Variable) for word in words):
                    return True
        return False

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

    def _declaration(self, node: Node) -> None:
        kind = node.child_by_field_name("type")
        written = self.text(kind)
        for declarator in node.children_by_field_name("declarator"):
            self._declare(written, declarator)

    def _declare(self, kind: str, declarator: Node) -> None:
        name = self.text(name_in(declarator))
        value = declarator.child_by_field_name("value")
        shape = declarator
        if declarator.type == "init_declarator":
            shape = declarator.child_by_field_name("declarator") or declarator
        stars = self.text(shape).partition("[")[0].count("*")
        plain = self.resolve(kind.rstrip("* ")) if kind != "auto" else ""
        vector = re.match(r"(?:thrust::\w+_|pinned_)?vector\s*<\s*([^<>]+?)\s*(?:,.*)?>", plain)
        if plain == "dim3":
            self.declare(name, self._extent(self._arguments(value, shape)))
        elif vector:
            self._vector(name, self.resolve(vector[1]), value, shape)
        elif shape.type == "array_declarator" or "[" in self.text(shape):
            self._array(name, plain, shape, value)
        elif shape.type == "function_declarator" and kind != "auto":
            given = self._arguments(value, shape)
            self.declare(name, given[0] if given and plain in _INTEGERS else None)
        else:
            given_value = self.value(value) if value is not None else None
            if value is None and plain in _INTEGERS and not stars:
                self.frames[-1].unset.add(name)
            if isinstance(given_value, list) and len(given_value) == 1:
                given_value = given_value[0]
            self._plain(name, plain, stars or kind.endswith("*"), given_value, value)

    def _plain(
        self, name: str, kind: str, pointer: object, value: Value, node: Node | None
    ) -> None:
        if isinstance(value, _Fresh):
            self.declare(name, self._named(name, kind, value))
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
            if value.text == _ASKED:
                value = number(_GUESS)
                self.found.notes.append(
                    f"the command line gives `{name}`, and {_GUESS} was put in its place"
                )
            integral = kind in _INTEGERS or (kind == "" and value.whole is not None)
            if integral and isinstance(value.value, float):
                value = Known(value.text, int(value.value), value.level)
            found = self._constant(name, value) if integral else value
            self.declare(name, found)
        elif isinstance(value, _Lambda):
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
            if value is None and node is not None and kind in _INTEGERS and not self.counting:
                value = Known(name, None)
            self.declare(name, value)

    def _named(self, name: str, kind: str, fresh: _Fresh) -> Variable:
        known = element(kind)
        count = fresh.size
        if count is not None and not fresh.counted and known is not None:
            count = elements(count, known)
        elif count is not None and known is not None and known[1] > 1:
            count = operated("*", count, number(known[1]))
        memory = Memory(name, known[0] if known else "", count, host=True, kind=kind)
        return Variable(name, kind, memory)

    def _vector(self, name: str, kind: str, value: Node | None, shape: Node) -> None:
        given = self._arguments(value, shape)
        made = self._named(name, kind, _Fresh(None))
        assert made.memory is not None
        made.memory.vector = True
        if value is not None and value.type == "initializer_list" and len(given) > 1:
            made.memory.count = number(len(given))
            made.memory.filled.append(self.text(value))
        elif given and isinstance(given[0], Known):
            made.memory.count = given[0]
            if len(given) > 1 and isinstance(given[1], Known):
                made.memory.filled.append(given[1].expression)
        elif given and isinstance(given[0], Variable) and given[0].memory is not None:
            made.memory.count = given[0].memory.count
            made.memory.filled = list(given[0].memory.filled)
            self.found.events.append(CopySeen(given[0].memory, made.memory))
        if not made.memory.filled:
            made.memory.filled.append("0")  # as the language says
        self.declare(name, made)

    def _array(self, name: str, kind: str, shape: Node, value: Node | None) -> None:
        count: Known | None = number(1)
        sizes = 0
        node: Node | None = shape
        while node is not None and node.type == "array_declarator":
            size = node.child_by_field_name("size")
            found = self.value(size) if size is not None else None
            if isinstance(found, Known) and count is not None:
                count = operated("*", found, count)
            else:
                count = None
            sizes += 1
            node = node.child_by_field_name("declarator")
        items = self.value(value) if value is not None else None
        listed = items if isinstance(items, list) else None
        if count is None and listed:
            count = number(len(listed))
        if "*" in self.text(shape).partition("[")[0]:  # an array of pointers
            self.declare(name, Variable(name, kind, pointers={}))
            return
        made = self._named(name, kind, _Fresh(count, counted=True))
        made.items = listed
        if listed and made.memory is not None:
            made.memory.filled.append(self.text(value))
        if made.memory is not None and sizes > 1:
            made.memory.kind += "[]" * (sizes - 1)
        self.declare(name, made)

    def _arguments(self, value: Node | None, shape: Node) -> list[Value]:
        """What stands in parentheses behind a variable: arguments, read as parameters at times."""
        if value is not None and value.type in ("argument_list", "initializer_list"):
            return [self.value(each) for each in value.named_children]
        if value is not None:
            found = self.value(value)
            return found if isinstance(found, list) else [found]
        listed = shape.child_by_field_name("parameters")
        if listed is None:
            return []
        return [self._snippet(self.text(each)) for each in listed.named_children]

    def _extent(self, given: list[Value]) -> Extent:
        if len(given) == 1 and isinstance(given[0], Extent):
            return Extent(given[0].x, given[0].y, given[0].z)
        known = [each if isinstance(each, Known) else Known("?", None) for each in given[:3]]
        known += [number(1)] * (3 - len(known))
        return Extent(*known)

    # --- expressions -------------------------------------------------------------------

    def value(self, node: Node | None) -> Value:
        """What an expression is; None: that is not known. What it does is taken down."""
        self.steps += 1
        if node is None or self.steps > _MOST_STEPS:
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

    def _binary(self, node: Node) -> Value:
        left, right = (self.value(node.child_by_field_name(x)) for x in ("left", "right"))
        operator = self.text(node.child_by_field_name("operator"))
        for pointer, steps in ((left, right), (right, left)):
            if isinstance(pointer, Variable) and operator in "+-":
                return self._moved(pointer, operator, steps)
        if isinstance(left, Known) and isinstance(right, Known):
            return operated(operator, left, right)
        if isinstance(left, _Callee) and isinstance(right, _Callee) and operator in ("==", "!="):
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
        if isinstance(found, _Callee):
            return found
        if self.text(node)[:1] == "&":
            direct = argument is not None and argument.type == "identifier"
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
            if plain in _INTEGERS and isinstance(found.value, float):
                return Known(found.text, int(found.value), found.level)
        return found

    def _sizeof(self, node: Node) -> Value:
        kind = node.child_by_field_name("type")
        if kind is not None:
            text = self.text(kind)
            known = size_of(self.resolve(text) + ("*" if "*" in text else ""))
            if known is not None:
                return known
            name = text
        else:
            name = self.text(node.child_by_field_name("value")).strip("() ")
        found = self.lookup(name.split("[")[0])
        if isinstance(found, Variable) and found.memory is not None:
            each = size_of(self.resolve(found.kind))
            if "[" in name or name.startswith("*"):
                return each
            count = found.memory.count
            return operated("*", count, each) if count is not None and each is not None else None
        return size_of("int") if isinstance(found, Known) else size_of(self.resolve(name))

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
        if left.type == "identifier":
            self._set(self.text(left), operator, value)
        elif left.type == "field_expression":
            base = self.value(left.child_by_field_name("argument"))
            name = self.text(left.child_by_field_name("field"))
            if isinstance(base, Extent) and isinstance(value, Known) and name in ("x", "y", "z"):
                setattr(base, name, value)
        elif left.type in ("subscript_expression", "pointer_expression"):
            self._store(left, operator, value, right)
        return value

    def _set(self, name: str, operator: str, value: Value) -> None:
        old = self.lookup(name)
        if operator != "=":
            if isinstance(old, Known) and isinstance(value, Known):
                self.assign(name, operated(operator[:-1], old, value))
            return
        if isinstance(value, _Fresh):
            kind = old.kind if isinstance(old, Variable) else ""
            self.assign(name, self._named(name, kind, value))
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
        elif isinstance(value, Known) and self.counting:
            self.assign(name, value if self.counting == "known" else Known(name, None))
        elif isinstance(value, Known) and value.text == _ASKED:
            if old is None:
                self._plain(name, "int", 0, value, None)
        elif isinstance(value, Known) and old is None:
            self.assign(name, self._constant(name, value))
        elif isinstance(value, Known | Extent) or not isinstance(old, Variable):
            if value is None and (isinstance(old, Known) or name in self.frames[-1].unset):
                value = Known(name, None)  # not known, and still a number of that name
            self.assign(name, value)

    def _store(self, left: Node, operator: str, value: Value, right: Node | None) -> None:
        indices = left.child_by_field_name("indices")
        for each in indices.named_children if indices is not None else ():
            self.value(each)
        target = self._pointer(left) if left.type == "subscript_expression" else None
        if isinstance(target, Variable) and target.pointers is not None and indices is not None:
            one = target.pointer(self.value(indices.named_children[0]), new=True)
            if isinstance(value, _Fresh) and one is not None:
                one.memory = self._named(one.name, one.kind, value).memory
            elif isinstance(value, Variable) and one is not None:
                one.memory = value.memory
            return
        if left.type == "pointer_expression":
            held = self.value(left.child_by_field_name("argument"))
            if isinstance(held, Reference):
                if isinstance(value, _Fresh):
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
            indices = argument.child_by_field_name("indices")
            for each in indices.named_children if indices is not None else ():
                self.value(each)
            target = self._pointer(argument)
            if isinstance(target, Variable) and target.memory is not None:
                self._read(target.memory)
                self._write(target.memory, self.text(node))
        return None

    def _read(self, memory: Memory) -> None:
        if self.unit is not None and memory not in self.unit.reads:
            self.unit.reads.append(memory)

    def _write(self, memory: Memory, written: str) -> None:
        memory.filled.append(written)
        if self.unit is not None and memory not in self.unit.writes:
            self.unit.writes.append(memory)

    def _identifier(self, node: Node) -> Value:
        return self.lookup(self.text(node))

    def _list(self, node: Node) -> Value:
        return [self.value(each) for each in node.named_children if each.type != "comment"]

    def _new(self, node: Node) -> Value:
        declarator = node.child_by_field_name("declarator")
        length = declarator.child_by_field_name("length") if declarator is not None else None
        if length is None and declarator is not None and declarator.named_children:
            length = declarator.named_children[0]
        size = self.value(length) if length is not None else None
        return _Fresh(size if isinstance(size, Known) else None, counted=True)

    # --- calls -------------------------------------------------------------------------

    def _call(self, node: Node) -> Value:
        function, arguments = (node.child_by_field_name(x) for x in ("function", "arguments"))
        launch = next((c for c in node.children if c.type == "kernel_call_syntax"), None)
        name, template = self._called(function)
        listed = arguments.named_children if arguments is not None else []
        listed = [each for each in listed if each.type != "comment"]
        if launch is not None:
            self._launch(node, name, template, launch, listed)
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
        given = [self.value(each) for each in listed]
        if name in _ARITHMETIC and given and all(isinstance(each, Known) for each in given):
            return self._arithmetic(name, [each for each in given if isinstance(each, Known)])
        if name == "dim3":
            return self._extent(given)
        if name in _INTEGERS or name in ("float", "double"):
            return self._cast_to(name, given[0] if given else None)
        held = self.lookup(name) if name and piece is None else None
        if isinstance(held, _Lambda):
            return self._inside(held, given)
        piece = self.pieces.function(held.name) if isinstance(held, _Callee) else piece
        if piece is None or piece.kind != "function":
            self._unknown(name, node, listed, given)
            return None
        return self._inline(node, piece, template, given)

    def _called(self, function: Node | None) -> tuple[str, list[str]]:
        """The last name of what is called, and its template arguments as text."""
        template: list[str] = []
        while function is not None and function.type not in ("identifier", "field_identifier"):
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

    def _inside(self, called: _Lambda, given: list[Value]) -> Value:
        """Go through a lambda, with the variables around it."""
        body = called.node.child_by_field_name("body")
        if body is None or len(self.frames) > _DEEPEST:
            return None
        own, around = dict[str, Value](), called.frame
        frame = replace(around, scopes=[*around.scopes, own], result=None, left=False)
        formals = listed_parameters(called.node.child_by_field_name("declarator"), frame.plain)
        for parameter, value in zip(formals, given, strict=False):
            own[parameter.name] = value
        self.frames.append(frame)
        self.statement(body)
        self.frames.pop()
        return frame.result

    def _lambda(self, node: Node) -> Value:
        """One that reaches the device is gone through where it is called."""
        return _Lambda(node, self.frames[-1]) if self.reaches(node) else None

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
            known = value.whole if isinstance(value, Known) else None
            bound.append(str(known) if known is not None else kind)
        held = self.lookup(name)
        file = self.frames[-1].place.rpartition(":")[0]
        self.found.events.append(
            LaunchSeen(
                held.name if isinstance(held, _Callee) else name,
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
        fresh = _Fresh(size if isinstance(size, Known) else None)
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
            return _Fresh(operated("*", known[0], known[1]))
        return _Fresh(known[0] if known else None)

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


def body_of(written: str, given: Mapping[str, str]) -> str:
    """A macro's body with what its parameters stand for."""
    text = re.sub(r"[A-Za-z_]\w*", lambda word: given.get(word[0], word[0]), written)
    return re.sub(r"\s*##\s*", "", text.replace("\\\n", " "))


def _from_arguments(frame: _Frame) -> Iterator[str]:
    """Variables of a function that get a number of the command line."""
    for found in re.finditer(r"(\w+)\s*=[^=;]*\b(?:argv|ato[il]|stoi|strtol)\b", frame.plain):
        yield found[1]


def _by_number(condition: str) -> bool:
    return bool(re.search(r"\w+\s*==\s*\w+|strcmp", condition))


def _branches(node: Node) -> Iterator[Node]:
    """The bodies of ``if``, ``else if``, ``else``."""
    while node is not None and node.type == "if_statement":
        then, other = (node.child_by_field_name(x) for x in ("consequence", "alternative"))
        if then is not None:
            yield then
        if other is None:
            return
        inside = other.named_children[-1] if other.type == "else_clause" else other
        if inside.type != "if_statement":
            yield inside
            return
        node = inside


_INTEGERS = frozenset(
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
_ARITHMETIC = frozenset({"min", "max", "sqrt", "sqrtf", "pow", "powf", "abs", "floor", "floorf"})
_STATEMENTS: dict[str, Callable[[_HostWalk, Node], None]] = {
    "compound_statement": _HostWalk._block,
    "declaration": _HostWalk._declaration,
    "return_statement": _HostWalk._return,
    "if_statement": _HostWalk._if,
    "switch_statement": _HostWalk._switch,
    "case_statement": _HostWalk._case,
    **dict.fromkeys(
        ("for_statement", "while_statement", "do_statement", "for_range_loop"), _HostWalk._loop
    ),
    **dict.fromkeys(
        ("comment", "preproc_def", "preproc_function_def", "type_definition"),
        lambda _walk, _node: None,
    ),
}
_EXPRESSIONS: dict[str, Callable[[_HostWalk, Node], Value]] = {
    "number_literal": _HostWalk._number,
    "identifier": _HostWalk._identifier,
    "type_identifier": _HostWalk._identifier,
    "binary_expression": _HostWalk._binary,
    "unary_expression": _HostWalk._unary,
    "pointer_expression": _HostWalk._address,
    "cast_expression": _HostWalk._cast,
    "sizeof_expression": _HostWalk._sizeof,
    "conditional_expression": _HostWalk._conditional,
    "subscript_expression": _HostWalk._subscript,
    "field_expression": _HostWalk._field,
    "qualified_identifier": _HostWalk._member,
    "assignment_expression": _HostWalk._assignment,
    "update_expression": _HostWalk._update,
    "initializer_list": _HostWalk._list,
    "new_expression": _HostWalk._new,
    "call_expression": _HostWalk._call,
    "lambda_expression": _HostWalk._lambda,
    "string_literal": lambda _walk, _node: None,
    "null": lambda _walk, _node: number(0),
    "true": lambda _walk, _node: number(1),
    "false": lambda _walk, _node: number(0),
}
_BUILT_IN: dict[str, Callable[[_HostWalk, list[Node]], Value]] = {
    **dict.fromkeys(
        ("cudaMalloc", "cudaMallocAsync"),
        lambda walk, listed: walk._allocated(listed, host=False, device=True),
    ),
    "cudaMallocManaged": lambda walk, listed: walk._allocated(listed, host=True, device=True),
    **dict.fromkeys(
        ("cudaMallocHost", "cudaHostAlloc", "posix_memalign"),
        lambda walk, listed: walk._allocated(listed, host=True, device=False),
    ),
    "cudaMallocPitch": _HostWalk._pitched,
    "cudaHostGetDevicePointer": _HostWalk._mapped,
    **dict.fromkeys(("cudaMemcpy", "cudaMemcpyAsync"), _HostWalk._copy),
    **dict.fromkeys(
        ("cudaMemcpy2D", "cudaMemcpy2DAsync"),
        lambda walk, listed: walk._copy([*listed[:1], *listed[2:3]]),
    ),
    **dict.fromkeys(("cudaMemcpyToSymbol", "cudaMemcpyToSymbolAsync"), _HostWalk._to_symbol),
    **dict.fromkeys(("cudaMemset", "cudaMemsetAsync"), _HostWalk._clear),
    **dict.fromkeys(("malloc", "calloc", "aligned_alloc"), _HostWalk._malloc),
    "memcpy": _HostWalk._host_copy,
    "swap": _HostWalk._swap,
    **dict.fromkeys(
        ("begin", "end", "cbegin", "cend", "thrust::raw_pointer_cast", "raw_pointer_cast"),
        lambda walk, listed: walk.value(listed[0]) if listed else None,
    ),
    **dict.fromkeys(
        ("atoi", "atol", "atoll", "stoi", "strtol", "stoul"),
        lambda _walk, _l: Known(_ASKED, None),
    ),
    **dict.fromkeys(("printf", "fprintf"), _HostWalk._printed),
    **dict.fromkeys(("free", "cudaFree", "srand", "exit"), lambda _walk, _listed: None),
}
