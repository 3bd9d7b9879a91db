"""Typed PTX: made by the parser and used by everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from ptxemu.callers import Foreign
from ptxemu.sass import Assembled

Item = TypeVar("Item")
#: Bytes of each fundamental type, by the suffix that instructions carry.
SIZES = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4,
    "u16x2": 4, "s16x2": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Loc:
    """A source position: `file` indexes `Ptx.files`.

    `called_from` is a header's outermost caller, to which its cost belongs.
    """

    file: int
    line: int
    called_from: tuple[int, int] | None = None

    @property
    def home(self) -> tuple[int, int]:
        """File and line to which the cost belongs (`ptxemu.callers`)."""
        return self.called_from or (self.file, self.line)


@dataclass(frozen=True, slots=True)
class Reg:
    """A register operand (or predicate); `negated` for ``!%p``."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Imm:
    """A literal. `bits` of a float literal are IEEE bits of `width` bytes; 0: an integer."""

    bits: int
    width: int = 0


@dataclass(frozen=True, slots=True)
class Sym:
    """A variable, label or function name used as a value."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vec:
    """``{a, b, …}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``d|p``: a result and its predicate."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Addr:
    """``[base + offset]``; base is a register, a variable or None (absolute)."""

    base: Reg | Sym | None
    offset: int = 0


Operand = Reg | Imm | Sym | Vec | Pair | Addr


def atoms(operand: Operand) -> Iterator[Reg | Imm | Sym | Addr]:
    """The parts of an operand, with vectors and pairs taken apart."""
    if isinstance(operand, Vec):
        for item in operand.items:
            yield from atoms(item)
    elif isinstance(operand, Pair):
        yield from atoms(operand.first)
        yield from atoms(operand.second)
    else:
        yield operand


def registers_of(operand: Operand) -> list[str]:
    """Names of the registers that an operand reads (or writes, if it is a result)."""
    if isinstance(operand, Reg):
        return [operand.name]
    bases = (each.base if isinstance(each, Addr) else each for each in atoms(operand))
    return [base.name for base in bases if isinstance(base, Reg)]


def reached(start: Iterable[Item], following: Callable[[Item], Iterable[Item]]) -> set[Item]:
    """All items reachable from `start`, including its own."""
    seen, left = set[Item](), list(start)
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            left += following(one)
    return seen


#: Registers that count the time, and their bytes.
CLOCKS = {
    "%clock": 4, "%clock_hi": 4, "%clock64": 8,
    "%globaltimer": 8, "%globaltimer_lo": 4, "%globaltimer_hi": 4,
}  # fmt: skip

#: Opcodes whose first operand is not a result.
_NO_RESULT = frozenset(
    (
        "st", "bar", "barrier", "bra", "ret", "exit", "trap", "red", "membar", "fence",
        "prefetch", "prefetchu", "brx", "nanosleep", "cp", "discard", "applypriority", "brkpt",
        "pmevent", "griddepcontrol", "mbarrier", "wgmma", "tensormap", "stmatrix",
        "setmaxnreg", "pragma", "free",
    )
)  # fmt: skip


_MBARRIER_RESULTS = ("arrive", "arrive_drop", "test_wait", "try_wait", "pending_count")


@dataclass(frozen=True)
class Instr:
    """One instruction. `parts` are the dot-separated pieces of its opcode, `op` the first."""

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Reg | None
    loc: Loc
    ptx_line: int
    text: str
    op: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "op", self.parts[0])

    def turned(self, *parts: str, operands: tuple[Operand, ...] | None = None) -> Instr:
        """Another instruction at its place, without its guard."""
        return replace(
            self, parts=parts, operands=self.operands if operands is None else operands, guard=None
        )

    def number(self, place: int = 0) -> int:
        """An operand that is a literal."""
        operand = self.operands[place]
        assert isinstance(operand, Imm)
        return operand.bits

    @cached_property
    def writes(self) -> tuple[str, ...]:
        """Registers that it writes."""
        op, parts = self.op, self.parts
        result = op not in _NO_RESULT and bool(self.operands)
        if op == "bar" or op == "barrier":
            result = "red" in parts
        elif op == "mbarrier":
            result = parts[1] in _MBARRIER_RESULTS
        elif op == "wgmma":
            result = parts[1] == "mma_async"
        elif op == "wmma":
            result = result and "store" not in parts
        return tuple(registers_of(self.operands[0])) if result else ()

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Registers that it reads, its guard included."""
        # `wgmma` reads its sums as well.
        skip = 1 if self.writes and self.op != "wgmma" else 0
        names = [name for operand in self.operands[skip:] for name in registers_of(operand)]
        first = self.operands[0] if self.operands else None
        if skip and isinstance(first, Addr):
            names += registers_of(first)
        if self.guard is not None:
            names.append(self.guard.name)
        return tuple(names)


SPACES = ("global", "shared", "local", "const", "param")


def space_of(instr: Instr) -> str:
    """The state space that an opcode names; "" for a generic address."""
    names = (part.partition("::")[0] for part in instr.parts[1:])
    return next((name for name in names if name in SPACES), "")


@dataclass(frozen=True, slots=True)
class Label:
    """A jump target inside a body."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space. `size` in bytes; 0 for ``extern .shared x[]``."""

    name: str
    space: str
    size: int
    align: int
    init: bytes = b""
    symbols: tuple[tuple[int, str], ...] = ()  # offset -> symbol whose address is stored there
    kind: str = ""  # type of its elements: ``f32``


def layout(variables: Iterable[Variable]) -> tuple[dict[str, int], int]:
    """The start of each variable, in order and aligned; and the total bytes."""
    at, places = 0, {}
    for variable in variables:
        align = max(variable.align, 1)
        places[variable.name] = at = -(-at // align) * align
        at += variable.size
    return places, at


#: Bytes of each result and of each parameter of a function.
Signature = tuple[tuple[int, ...], tuple[int, ...]]
#: Addresses of functions, for pointers to them; these addresses cannot be read.
CODE_BASE, CODE_STEP = 0x7C00_0000_0000, 16


def signature_of(returns: Iterable[Variable], params: Iterable[Variable]) -> Signature:
    """The signature of a function with these results and parameters."""
    return tuple(v.size for v in returns), tuple(v.size for v in params)


#: Attributes of a function that are set when its body is read.
_OF_BODY = ("registers", "variables", "body", "branch_tables", "prototypes")


@dataclass(slots=True)
class Function:
    """An entry or device function."""

    name: str
    entry: bool
    params: list[Variable] = field(default_factory=list)
    returns: list[Variable] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)  # name -> type
    variables: list[Variable] = field(default_factory=list)
    body: list[Instr | Label] = field(default_factory=list)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)  # maxntid, reqntid …
    branch_tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: dict[str, Signature] = field(default_factory=dict)
    source: str = ""  # the text of its body
    unread: Callable[[Function], None] | None = None  # reads it

    def leave(self, source: str, read: Callable[[Function], None]) -> None:
        """Read the body later, when an attribute of it is used."""
        self.source, self.unread = source, read
        for name in _OF_BODY:
            delattr(self, name)

    def __getattr__(self, name: str) -> Any:
        """Read the body, and return an attribute of it."""
        if name not in _OF_BODY:
            raise AttributeError(name)
        self.read()
        return object.__getattribute__(self, name)

    def read(self) -> None:
        """Read the body, unless that was done already; PtxError: it is damaged."""
        read, self.unread = self.unread, None
        if read is None:
            return
        self.registers, self.variables, self.body = {}, [], []
        self.branch_tables, self.prototypes = {}, {}
        try:
            read(self)
        except BaseException:
            self.leave(self.source, read)
            raise

    @property
    def signature(self) -> Signature:
        """Bytes of its results and of its parameters."""
        return signature_of(self.returns, self.params)


@dataclass(slots=True, eq=False)
class Ptx:
    """A parsed PTX module; `assembled` is its machine code by ptxas, if known."""

    foreign: Foreign
    version: str = ""
    target: str = ""
    room: int = 0  # the number of registers that its text may still declare
    files: dict[int, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    assembled: Assembled = field(default_factory=Assembled)
    #: Arrays of shared memory as their source declares them: bytes of an element, and extents.
    shapes: Mapping[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    prepared: dict[str, Any] = field(default_factory=dict)  # by kernel: data that launches share
    #: Kernel -> line -> whether its read of unwritten data there changes a result.
    judged: dict[str, dict[int, bool]] = field(default_factory=dict)
    #: Kernel -> number of launches examined for that.
    looks: Counter[str] = field(default_factory=Counter)

    def address_of(self, function: str) -> int:
        """The value of a pointer to a function."""
        return CODE_BASE + CODE_STEP * list(self.functions).index(function)

    def point_to_functions(self) -> None:
        """Write the addresses of functions into the initial values that contain them."""
        for variable in self.variables.values():
            init = bytearray(variable.init)
            for at, name in variable.symbols:
                if name in self.functions:
                    address = self.address_of(name) + int.from_bytes(init[at : at + 8], "little")
                    init[at : at + 8] = address.to_bytes(8, "little")
            self.variables[variable.name] = replace(variable, init=bytes(init))

    def located(self, loc: Loc, call: Loc) -> Loc:
        """A position in a called function; if it has none, the call's."""
        if not loc.line:
            return call
        if loc.called_from is None and self.foreign(self.files.get(loc.file, "")):
            return replace(loc, called_from=call.home)
        return loc

    def place(self, instr: Instr) -> tuple[str, int]:
        """Path and line to which a profiler assigns an instruction's work."""
        file, line = instr.loc.home
        found = self.assembled.place(instr.ptx_line, instr.op)
        if found is None and not file:  # the PTX has lost its positions
            found = self.assembled.near(instr.ptx_line)
        return found or (self.files.get(file, ""), line)

    def where(self, loc: Loc) -> str:
        """``file:line`` of a position for messages; for a header's, its caller's line first."""
        place = f"{self.files.get(loc.file, '?')}:{loc.line}"
        file, line = loc.home
        if (file, line) == (loc.file, loc.line):
            return place
        return f"{self.files.get(file, '?')}:{line} (in {place})"
