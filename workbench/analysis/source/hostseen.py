"""What a program of a ``.cu`` does, as records: its arrays, and what it does with them in order.

Values are what an expression of the program may be: an amount, an array behind a pointer, or memory
that was asked for and has no name yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.analysis.source.amounts import Known

if TYPE_CHECKING:
    from tree_sitter import Node

    from workbench.analysis.source.pieces import FilePiece


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
class Fresh:
    """Memory that was asked for and has no name yet: bytes, or elements."""

    size: Known | None
    counted: bool = False


@dataclass(slots=True, frozen=True)
class Callee:
    """A function of the file, by its name."""

    name: str


@dataclass(slots=True, frozen=True)
class Lambda:
    """A function without a name; `frame` is that which it stands in, whose variables it has."""

    node: Node
    frame: Frame


@dataclass(slots=True, eq=False)
class Instance:
    """An object of a class of the file.

    Attributes:
        piece: The class.
        types: What parameters of its template are.
        fields: Its variables; ``this`` is the object itself.
    """

    piece: FilePiece
    types: dict[str, str]
    fields: dict[str, Value] = field(default_factory=dict)


Value = (
    Known
    | Variable
    | Reference
    | Extent
    | Fresh
    | Callee
    | Lambda
    | Instance
    | list["Value"]
    | None
)


@dataclass(slots=True)
class Frame:
    """A function that was entered.

    Attributes:
        name: Its own.
        plain: The text that its nodes are of.
        place: ``file:line``.
        scopes: Its variables, those of inner blocks last.
        types: What parameters of its template are.
        result: What it gives.
        left: Whether it is over.
        unset: Integers that were declared without a value.
    """

    name: str
    plain: str
    place: str
    scopes: list[dict[str, Value]] = field(default_factory=lambda: [{}])
    types: dict[str, str] = field(default_factory=dict)
    result: Value = None
    left: bool = False
    unset: set[str] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class LaunchSeen:
    """A kernel's launch; `arguments` are amounts, or the memory behind pointers.

    `offsets` are the elements by which each pointer is behind its array's beginning. `part`: it
    goes on with the arrays of the launch before it, in a loop.
    """

    kernel: str
    template: list[str]
    grid: list[Known]
    block: list[Known]
    shared: Known | None
    arguments: list[Known | Memory | None]
    place: str
    offsets: list[Known | None] = field(default_factory=list)
    part: bool = False


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
class LibrarySeen:
    """A call of a library that works on the device's arrays; the last one is its result."""

    name: str
    arrays: list[Memory]


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


Event = LaunchSeen | CopySeen | ClearSeen | LibrarySeen | HostWork


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
