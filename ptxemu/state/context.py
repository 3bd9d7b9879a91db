"""The context of compiled instructions: register slots, memory, and counters.

Every instruction becomes a closure ``run(R, M) -> Value`` over the register list ``R`` and the
active `Mask` ``M``. Operands are slots of it: registers, literals, special registers, addresses.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from ptxemu.errors import Fault, Kind, PtxError, Unsupported
from ptxemu.ptx.flow import ControlFlow, makers, varying, walk
from ptxemu.ptx.inlining import FlatKernel
from ptxemu.ptx.instructions import SIZES, Addr, Imm, Instr, Operand, Pair, Ptx, Reg, Sym
from ptxemu.state.lanes import WARP, Lanes, Mask, select
from ptxemu.state.spaces import RESERVED, GlobalMemory, Reach, element
from ptxemu.state.values import MASK, Array, Bools, Value
from ptxemu.texture import Texture

Registers = list[Any]
Run = Callable[[Registers, Mask], Any]


def writes_itself(run: Run) -> Run:
    """Mark a closure that writes its results (or has none) instead of returning one."""
    run.writes_itself = True  # type: ignore[attr-defined]
    return run


def then(run: Run, act: Callable[[Mask], object]) -> Run:
    """The same closure, followed by an action for its lanes."""

    def both(R: Registers, M: Mask) -> object:
        value = run(R, M)
        act(M)
        return value

    return writes_itself(both) if hasattr(run, "writes_itself") else both


class CodeSite:
    """One instruction's place in the program, with its counters over all lanes and batches.

    `on`: lanes with a true guard; `taken`: warps that took a branch; `meets`: warps meeting in a
    loop by ptxas; `calls`: warps in a routine's rare path; `spins`: iterations of an atomic.
    """

    COUNTS = (
        "on", "requests", "shared_requests", "sectors", "ideal", "tags", "bytes", "wavefronts",
        "wideal", "taken", "divergent", "meets", "calls", "spins",
    )  # fmt: skip
    ALL = (*COUNTS, "ways")
    __slots__ = (*COUNTS, "instr", "joined", "space", "store", "ways", "width")

    def __init__(self, instr: Instr) -> None:
        self.instr = instr
        self.space, self.store, self.width, self.joined = "", False, 0, False  # joined by ptxas
        self.reset()

    def reset(self) -> None:
        """Set all counters to zero."""
        self.on = self.requests = self.shared_requests = self.sectors = self.ideal = 0
        self.tags = self.bytes = self.wavefronts = self.wideal = self.taken = 0
        self.divergent = self.meets = self.calls = self.spins = self.ways = 0

    def charge_spread(self, cost: tuple[int, ...]) -> None:
        """Add the cost of a request to global or local memory: a `GlobalCost`."""
        self.requests += cost[0]
        self.sectors += cost[1]
        self.ideal += cost[2]
        self.tags += cost[3]
        self.bytes += cost[4]

    def charge_shared(self, cost: tuple[int, ...]) -> None:
        """Add the cost of a request to shared memory: a `SharedCost`."""
        self.shared_requests += cost[0]
        self.wavefronts += cost[1]
        self.wideal += cost[2]
        self.ways = max(self.ways, cost[3])
        self.spins += sum(cost[4:])

    def counts(self) -> list[int]:
        """The counters as a list, `ways` last."""
        return [getattr(self, name) for name in self.ALL]

    def counting(self, counts: list[int]) -> CodeSite:
        """The same place with other counters, in the form of `counts`."""
        out = CodeSite(self.instr)
        out.space, out.store = self.space, self.store
        out.width, out.joined = self.width, self.joined
        for name, count in zip(self.ALL, counts, strict=True):
            if count:
                setattr(out, name, count)
        return out


class AccessWatcher(Protocol):
    """Receives shared-memory accesses, to find races and uninitialized reads."""

    def access(self, site: CodeSite, reach: Reach, kind: str) -> None:
        """An access of `site.width` bytes per lane.

        Its kind is load, store, atomic or copy (``cp.async``); after its threads' wait, a copy has
        completed. `settle` is called for a plain store.
        """

    def settle(self, changed: Array, lost: Array) -> None:
        """Record the lanes of a plain store that changed memory, and those whose value was lost."""

    def barrier(self, mask: Mask) -> None:
        """All lanes of the mask have passed a barrier of their whole block."""

    def warp_barrier(self, mask: Mask) -> None:
        """The lanes of each warp in the mask have synchronized."""


class ApartError(Exception):
    """Lanes that an instruction needs are not here: they must arrive or end first.

    Attributes:
        instr: The instruction, which had no effect yet.
        wanted: The missing lanes, in the batch's shape.
    """

    def __init__(self, instr: Instr, wanted: Bools) -> None:
        super().__init__(instr.text)
        self.instr, self.wanted = instr, wanted


@dataclass(slots=True)
class Limits:
    """Limits at which a launch ends.

    Attributes:
        instructions: Lock-step instructions of one batch.
        seconds: The requested time limit.
        deadline: When that limit ends, by `time.monotonic`.
    """

    instructions: int = 4_000_000
    seconds: float = math.inf
    deadline: float = math.inf

    @classmethod
    def within(cls, seconds: float, instructions: int | None = None) -> Limits:
        """Limits whose time begins now; `instructions` None: the default."""
        begin = time.monotonic()
        return cls(instructions or cls().instructions, seconds, begin + seconds)


class Runtime:
    """State that the closures of a kernel share. `lanes` and the memories change per batch."""

    def begin(
        self, arena: GlobalMemory, shared_bytes: int, local_bytes: int, *, check: bool, origins: Any
    ) -> None:
        """Begin a launch, without state of the one before it."""
        self.arena = arena
        self.shared_limit = shared_bytes + RESERVED if shared_bytes else 0  # its deadline
        self.shared_bytes = -(-max(self.shared_limit, 1) // 16) * 16
        self.local_limit = local_bytes
        self.check = check  # watch shared memory for races and uninitialized reads
        self.local_bytes = -(-max(local_bytes, 1) // 16) * 16
        self.lanes: Lanes
        self.watcher: AccessWatcher | None = None
        self.lock: AbstractContextManager[Any] = nullcontext()
        self.wide: list[tuple[Any, Any]] = []
        self.registers: Registers = []  # the batch's
        self.alive: Callable[[], Mask]
        self.copies: Any = None  # `ops.asynccopy.Pipeline` of the batch
        self.flights: Any = None  # `ops.copies.Flights` of the batch
        self.cluster: Any = None  # `ops.cluster.ClusterBarrier` of the batch
        self.sums: Any = None  # `ops.wgmma.Sums` of the batch
        self.order: Any = None  # `faults.asynchrony.OrderWatcher`, if work is asynchronous
        self.stores: Any = None  # `faults.stores.StoreWatcher`, if all faults are sought
        self.meetings: Any = None  # `faults.polled.Meetings`, if blocks wait for others
        self.origins = origins  # `faults.origins.Origins`, to explain a wrong result
        self.finding: Fault | None = None  # raised at the end, unless a worse one is first
        #: Faults of the kernel by kind and line of PTX; None: the first fault ends it.
        self.found: dict[tuple[Kind, int], Fault] | None = None
        self.left: list[tuple[Instr, Mask]] = []  # branches by which lanes ended
        self.warnings: set[str] = set()  # code that runs, but is likely a mistake
        self.apart: dict[str, str] = {}  # by place: lanes that only their compiler orders
        self.fill = 0  # every byte of shared memory when a block starts
        self.presumes = False  # is it in unwritten registers as well?
        #: Reads of unwritten shared memory: the first one, or (`found`) all.
        self.undefined: dict[int, Fault] = {}
        self.doubts: set[str] = set()  # where a chip may give any value, perhaps on purpose
        #: Counts stores and atomics that changed memory, while `probing`.
        self.changes = 0
        self.clock = 0  # the readings of `%globaltimer` and `%clock` so far
        self.said, self.probing = 0, False  # `said`: number of bytes that the kernel has printed
        self.line: list[str] = []  # the printed part of a line that has not ended
        self.printed: list[tuple[int, str]] | None = None  # all output, by block, if collected
        #: Called when nothing can continue: may another writer still end the wait?
        self.host: Callable[[], bool] = bool
        self._views: dict[tuple[str, Any], Array] = {}
        self._memory: dict[str, Array] = {}

    def start(self, lanes: Lanes, slots: int) -> None:
        """Fresh shared and local memory for a batch."""
        self.lanes = lanes
        self.wide = [(None, None)] * slots
        self._views.clear()
        sizes = {"shared": lanes.B * self.shared_bytes,
                 "local": lanes.B * lanes.T * self.local_bytes}  # fmt: skip
        if self.origins is not None:
            self.origins.start(lanes, sizes)
        for space, size in sizes.items():
            memory = self._memory.get(space)
            if memory is None or len(memory) != size:
                memory = self._memory[space] = np.zeros(size, np.uint8)
            memory[:] = self.fill if space == "shared" else 0

    def suspend(self) -> dict[str, Any]:
        """Return the batch's whole state; another batch may start then."""
        held = dict(vars(self))
        self._views, self._memory = {}, {}
        if self.origins is not None:
            held["of origins"] = self.origins.suspend()
        return held

    def resume(self, held: dict[str, Any]) -> None:
        """Resume a batch that was suspended."""
        changes = self.changes
        if self.origins is not None:
            self.origins.resume(held.pop("of origins"))
        vars(self).update(held)
        self.changes = changes

    def memory(self, space: str, dtype: Any) -> Array:
        """Shared or local memory of the batch as elements of this type."""
        key = (space, dtype)
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = self._memory[space].view(dtype)
        return found


class Named(NamedTuple):
    """A variable in shared memory, under its user's name; `width` 0: its type is unknown."""

    name: str
    start: int
    size: int
    width: int = 0
    shape: tuple[int, ...] = (0,)
    dynamic: bool = False  # the launch gives its size

    def at(self, address: int) -> str:
        """``tile[1][3]``: the element at an address, which may be outside."""
        if address == self.start and not self.width and self.size <= _WORD:
            return self.name
        return element(self.name, address - self.start, self.width, self.shape)

    @property
    def extent(self) -> str:
        """Its size, in words: ``tile[18][18]``, or ``tile (1296 bytes)``."""
        if self.width and not self.dynamic:
            return self.name + "".join(f"[{extent}]" for extent in self.shape)
        return f"{self.name} ({self.size} byte{'s' * (self.size != 1)})"


@dataclass(frozen=True, slots=True)
class Placement:
    """The addresses of a launch's variables."""

    symbols: dict[str, tuple[str, int]]  # name -> state space and address in it
    variables: tuple[Named, ...]  # those in shared memory
    param_base: int  # the address of the kernel's arguments


class Bound(NamedTuple):
    """A texture of a launch: its array, and the array's start in global memory."""

    texture: Texture
    name: str
    start: int


#: Largest size in bytes of a variable that is not an array: a number, an mbarrier.
_WORD = 8
#: Opcodes whose results are not shared-memory addresses known before the kernel runs.
_UNTRACED = frozenset(("ld", "ldu", "atom", "shfl", "setp", "tex"))


class Context:
    """Register slots and helpers for the builders of closures.

    `widths`: ``id(instruction)`` -> bytes per thread that its load or store moves.
    """

    def __init__(
        self,
        flat: FlatKernel,
        graph: ControlFlow,
        widths: dict[int, int],
        placement: Placement,
        module: Ptx,
        rt: Runtime,
    ) -> None:
        self.kernel, self.registers = flat.name, flat.registers
        self.widths, self.placement, self.module, self.rt = widths, placement, module, rt
        self.symbols = placement.symbols
        #: The launch's arguments, as bytes; its textures, by their handles; special registers
        #: that the driver sets: ``envreg1``.
        self.params, self.textures = b"", dict[int, Bound]()
        self.environment: dict[str, int] = {}
        #: The slots of registers by their names, of literals by their bits, and of parameters by
        #: the place of each, its bytes, those of the register, and whether it is signed.
        self.slots: dict[str | int | tuple[int, int, int, bool], int] = {}
        self.constants: dict[int, int] = {}  # slot -> bits
        self.specials: dict[int, str] = {}  # slot -> special register
        #: Registers that an instruction reads.
        self.read = {name for _, instr in walk(graph.blocks) for name in instr.reads}
        self.makers = makers(graph.blocks)
        #: Registers that may differ between the lanes of a warp.
        self.varying = varying(graph.blocks)

    @property
    def count(self) -> int:
        """Slots in use."""
        return len(self.slots)

    def where(self, instr: Instr) -> str:
        """``file:line`` of an instruction."""
        return self.module.where(instr.loc)

    def fault(self, instr: Instr, kind: Kind, what: str, hint: str) -> Fault:
        """The error for an instruction's fault."""
        file, line = instr.loc.home
        place = (self.module.files.get(file, ""), line) if line else None
        return Fault(f"{self.where(instr)}: {what}", hint, kind, place, instr.ptx_line)

    def told(self, instr: Instr, kind: Kind) -> bool:
        """True if `tell` has recorded this fault, or any fault if the first one ends the kernel."""
        rt = self.rt
        return rt.finding is not None if rt.found is None else (kind, instr.ptx_line) in rt.found

    def tell(self, instr: Instr, kind: Kind, what: str, hint: str, *, late: bool = False) -> None:
        """Collect a fault that a GPU survives, or raise it if the first fault ends the kernel.

        `late`: raise it at the end of the batch, since another fault may be its cause.
        """
        if self.rt.found is None and not late:
            raise self.fault(instr, kind, what, hint)
        if self.told(instr, kind):
            return
        fault = self.fault(instr, kind, what, hint)
        if self.rt.found is None:
            self.rt.finding = fault
        else:
            self.rt.found[kind, fault.line] = fault

    def unsupported(self, instr: Instr, what: str = "") -> Unsupported:
        """The error for an instruction that the emulator does not support."""
        return Unsupported(
            f"{self.where(instr)}: kernel {self.kernel}: the emulator does not support "
            f"`{instr.text}`{f' ({what})' if what else ''}",
            "`workbench docs ptxemu` lists what it supports; run it on a GPU.",
        )

    def size(self, operand: Operand, default: int = 0) -> int:
        """Bytes of a register; 0 for a predicate; `default` for anything else."""
        if isinstance(operand, Reg) and operand.name in self.registers:
            kind = self.registers[operand.name]
            return 0 if kind == "pred" else SIZES[kind]
        return default

    def constant(self, bits: int) -> int:
        """The slot of a literal."""
        slot = self.slots.setdefault(bits, self.count)
        self.constants[slot] = bits
        return slot

    def parameter(self, at: int, width: int, size: int, signed: bool) -> int:
        """The slot of a part of the kernel's parameters."""
        return self.slots.setdefault((at, width, size, signed), self.count)

    def given(self) -> Iterator[tuple[int, int]]:
        """Slots of literals and parameters, and the bits in them."""
        yield from self.constants.items()
        for key, slot in self.slots.items():
            if isinstance(key, tuple):
                at, width, size, signed = key
                raw = int.from_bytes(self.params[at : at + width], "little", signed=signed)
                yield slot, raw & ((1 << (8 * size)) - 1)

    def register(self, name: str) -> int:
        """The slot of a register."""
        slot = self.slots.setdefault(name, self.count)
        if name not in self.registers and name.startswith("%"):
            self.specials[slot] = name[1:]
        return slot

    def slot(self, operand: Operand, size: int, kind: str = "") -> int:
        """The slot of a source operand of `size` bytes (0: a predicate)."""
        if isinstance(operand, Reg):
            return self.register(operand.name)
        if isinstance(operand, Imm):
            return self.constant(literal(operand, size, kind))
        if isinstance(operand, Sym):
            if operand.name == "WARP_SZ":
                return self.constant(WARP + operand.offset)
            _, address = self._place(operand)
            return self.constant((address + operand.offset) & MASK[max(size, 1)])
        raise PtxError(f"kernel {self.kernel}: operand {operand} is not a value")

    def sources(self, instr: Instr, count: int, size: int, kind: str = "") -> list[int]:
        """The slots of the first source operands of an instruction, all of `size` bytes."""
        return [self.slot(operand, size, kind) for operand in instr.operands[1 : 1 + count]]

    def target(self, operand: Operand) -> int:
        """The slot of a result; -1 for ``_``."""
        if isinstance(operand, Reg):
            return -1 if operand.name == "_" else self.register(operand.name)
        raise PtxError(f"kernel {self.kernel}: operand {operand} is not a register")

    def address(self, operand: Operand) -> tuple[int, int, str]:
        """Slot, immediate offset and known space ("" if unknown) of an address operand."""
        if not isinstance(operand, Addr):
            raise PtxError(f"kernel {self.kernel}: operand {operand} is not an address")
        if isinstance(operand.base, Reg):
            return self.register(operand.base.name), operand.offset, ""
        if operand.base is None:
            return self.constant(0), operand.offset, ""
        space, address = self._place(operand.base)
        return self.constant(address), operand.offset, space

    def _place(self, name: Sym) -> tuple[str, int]:
        found = self.symbols.get(name.name)
        if found is None:
            raise PtxError(f"kernel {self.kernel}: unknown name {name.name} in the PTX")
        return found

    def home(self, operand: Operand) -> Named | None:
        """The shared-memory array from which an address is derived.

        None if it is unknown: there are several, or the address comes from memory.
        """
        if not isinstance(operand, Addr) or operand.base is None:
            return None
        found: set[tuple[int, bool]] = set()
        seen: set[tuple[str, bool]] = set()
        stack: list[tuple[Operand, bool]] = [(operand.base, False)]
        while stack:
            one, taken_off = stack.pop()
            if isinstance(one, Sym) and self.symbols.get(one.name, ("", 0))[0] == "shared":
                found.add((self.symbols[one.name][1], taken_off))
            if not isinstance(one, Reg) or (one.name, taken_off) in seen:
                continue
            seen.add((one.name, taken_off))
            for maker in self.makers.get(one.name, []):
                if maker.op == "mapa":
                    return None
                if maker.op in _UNTRACED:
                    continue  # an index
                for place, each in enumerate(maker.operands[1:]):
                    stack.append((each, taken_off != (maker.op == "sub" and place == 1)))
        if len(found) != 1 or next(iter(found))[1]:
            return None
        places = [each for each in self.placement.variables if (each[1], False) in found]
        return places[0] if len(places) == 1 else None

    def variable_at(self, space: str, address: int) -> str:
        """``As[0][3]``: an address in terms of the nearest variable below it."""
        known = self.placement.variables if space == "shared" else ()
        best = max((v for v in known if v.start <= address), key=lambda v: v.start, default=None)
        if best is None:
            return "in no variable"
        past = "" if address < best.start + best.size else ", past its end"
        return f"{best.at(address)}{past}"


def literal(operand: Imm, size: int, kind: str) -> int:
    """The bits of a literal in an instruction of this type."""
    if operand.width == 0 and kind in ("f32", "f64"):
        form = "<f" if kind == "f32" else "<d"
        return int.from_bytes(struct.pack(form, float(operand.bits)), "little")
    if operand.width == 8 and size == 4:
        number = struct.unpack("<d", operand.bits.to_bytes(8, "little"))[0]
        return int.from_bytes(struct.pack("<f", number), "little")
    return operand.bits & MASK[size] if size else int(bool(operand.bits))


def put(R: Registers, M: Mask, slot: int, value: Value, size: int) -> None:
    """Write one of several results of an instruction."""
    R[slot] = select(M, value, R[slot], size) if M.partial and slot >= 0 else value


def writes_both(ctx: Context, target: Operand, both: Run, size: int) -> Run:
    """A closure for ``d|p``, or only d, from one that returns both; d has `size` bytes."""
    pair = target if isinstance(target, Pair) else Pair(target, Reg("_"))
    d, p = ctx.target(pair.first), ctx.target(pair.second)

    @writes_itself
    def run(R: Registers, M: Mask) -> None:
        one, two = both(R, M)
        put(R, M, d, one, size)
        put(R, M, p, two, 0)

    return run
