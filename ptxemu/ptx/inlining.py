"""Device functions are inlined before anything runs: one flat body per kernel.

A recursive function has one body instead, and a frame for each call; a call through a pointer
compares it with one possible function after another. A call passes its arguments through ``.param``
variables; each (variable, offset) becomes a pseudo-register, so a call is a handful of moves and
costs nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ptxemu.errors import PtxError, Unsupported
from ptxemu.ptx.instructions import (
    SIZES,
    Addr,
    Function,
    Imm,
    Instr,
    Label,
    Loc,
    Operand,
    Pair,
    Ptx,
    Reg,
    Signature,
    Sym,
    Variable,
    Vec,
    atoms,
    layout,
    reached,
)
from ptxemu.ptx.shapes import REJECTED

# --- Recursion: a recursive function has one body, and a frame for each call ---------------
# Where PTX is inlined, a recursive function cannot be. Its body occurs once in the flat kernel. A
# call saves the caller's registers in local memory, stores the number of the return place after
# them, and jumps; ``ret`` is a ``brx`` by that number. Frames hold the registers that may be needed
# after the call: those that occur both before and after it; a loop around it counts as both.

Body = Sequence[Instr | Label]
#: Bytes of all frames of a thread.
STACK_BYTES = 8192
#: The variable that holds the frames, and the register that points after the last of them.
FRAMES, POINTER = "#frames", "#stack"
_ALIGN = 16
#: Bytes at a frame's end, for the return place.
BEHIND = 8


def aligned(size: int) -> int:
    """Round up to the alignment of frames."""
    return -(-size // _ALIGN) * _ALIGN


def pointed_to(module: Ptx) -> list[Function]:
    """The functions whose addresses are taken."""
    names = {name for variable in module.variables.values() for _, name in variable.symbols}
    for function in module.functions.values():
        for item in function.body:
            if isinstance(item, Instr) and item.op != "call":
                pieces = (piece for operand in item.operands for piece in atoms(operand))
                names |= {piece.name for piece in pieces if isinstance(piece, Sym)}
    return [each for name, each in module.functions.items() if name in names and each.body]


def candidates(module: Ptx, signature: Signature | None) -> list[Function]:
    """Possible callees of a call through a pointer: pointed-to functions with the signature."""
    return [each for each in pointed_to(module) if each.signature == signature]


def _callees(module: Ptx, function: Function) -> set[str]:
    out: set[str] = set()
    for item in function.body:
        if not isinstance(item, Instr) or item.op != "call":
            continue
        names = [operand.name for operand in item.operands if isinstance(operand, Sym)]
        out |= {name for name in names if name in module.functions}
        for name in names:
            if name in function.prototypes:
                out |= {each.name for each in candidates(module, function.prototypes[name])}
    return out


def recursive(module: Ptx, entry: Function) -> set[str]:
    """Functions called by a kernel that can call themselves; PtxError: it calls too many."""
    calls: dict[str, set[str]] = {}
    left = [entry.name]
    while left:
        name = left.pop()
        if name not in calls:
            calls[name] = _callees(module, module.functions[name])
            left += calls[name]
        if len(calls) > _MOST_FUNCTIONS:
            raise PtxError(
                f"kernel {entry.name} calls more than {_MOST_FUNCTIONS:,} functions", _LESS
            )
    return {name for name in calls if name in reached(calls[name], calls.__getitem__)}


def _names(items: Iterable[Instr | Label], registers: Mapping[str, str]) -> set[str]:
    out: set[str] = set()
    for item in items:
        if isinstance(item, Label):
            continue
        operands = [*item.operands, *([item.guard] if item.guard is not None else [])]
        for operand in operands:
            for piece in atoms(operand):
                base = piece.base if isinstance(piece, Addr) else piece
                if isinstance(base, Reg) and base.name in registers:
                    out.add(base.name)
    return out - {POINTER}


def saved_registers(body: Body, at: int, registers: Mapping[str, str]) -> list[str]:
    """The registers that a call at a place in a body must preserve, the widest first."""
    labels = {item.name: index for index, item in enumerate(body) if isinstance(item, Label)}
    jumps = [
        (labels[operand.name], index)
        for index, item in enumerate(body)
        if isinstance(item, Instr) and item.op == "bra"
        for operand in item.operands
        if isinstance(operand, Sym) and operand.name in labels
    ]
    first = last = at
    if any(isinstance(item, Instr) and item.op == "brx" for item in body[:-1]):
        first, last = 0, len(body) - 1  # it may go anywhere
    grown = True
    while grown:
        around = [(low, high) for low, high in jumps if low <= last and high >= first]
        around = [(low, high) for low, high in around if low <= high]  # only loops
        wider = (min([first, *(low for low, _ in around)]), max([last, *(h for _, h in around)]))
        grown = wider != (first, last)
        first, last = wider
    before = _names(body[: last + 1], registers)
    after = _names(body[first:at] if first < at else (), registers)
    both = before & (after | _names(body[at + 1 :], registers))
    return sorted(both, key=lambda name: (-_width(registers[name]), name))


def _width(kind: str) -> int:
    return 4 if kind == "pred" else SIZES[kind]


def frame_moves(
    call: Instr, names: Sequence[str], registers: Mapping[str, str], bit: Reg
) -> tuple[int, list[Instr], list[Instr]]:
    """A frame's bytes, and the instructions that save registers in it and restore them.

    `bit` is a 32-bit register through which predicates are stored.
    """

    def made(opcode: str, *operands: Reg | Imm | Addr) -> Instr:
        return Instr(tuple(opcode.split(".")), operands, None, call.loc, call.ptx_line, call.text)

    at, places = 0, []
    for name in names:
        places.append((name, at))
        at += _width(registers[name])
    size = aligned(at + BEHIND)
    save, fetch = [], []
    for name, offset in places:
        kind, register = registers[name], Reg(name)
        there, back = Addr(Reg(POINTER), offset), Addr(Reg(POINTER), offset)
        if kind == "pred":
            save += [
                made("selp.b32", bit, Imm(1), Imm(0), register),
                made("st.local.b32", there, bit),
            ]
            fetch += [made("ld.local.b32", bit, back), made("setp.ne.b32", register, bit, Imm(0))]
        else:
            width = f"b{8 * SIZES[kind]}"
            save.append(made(f"st.local.{width}", there, register))
            fetch.append(made(f"ld.local.{width}", register, back))
    return size, save, fetch


def cleared_registers(
    like: Instr, names: Iterable[str], registers: Mapping[str, str]
) -> list[Instr]:
    """Moves of zero to registers, at the place of another instruction."""
    out = []
    for name in sorted(names):
        kind = registers[name]
        parts = ("mov", "pred" if kind == "pred" else f"b{8 * SIZES[kind]}")
        out.append(replace(like, parts=parts, operands=(Reg(name), Imm(0))))
    return out


#: The most functions that a kernel calls, their depth, and the instructions and registers when all
#: are inlined. nvcc: 20 functions in a module of CUB's kernels, and 21,660 instructions and
#: registers in the largest kernel of the ladders.
_MOST_FUNCTIONS, _MOST_DEPTH, _MOST_INLINED = 2048, 128, 1 << 19
_LESS = "Call fewer functions, or mark those that are called often `__noinline__`."
#: Functions in the device's own library: their opcode, and the types of its operands.
_TOLD = {
    "vprintf": (("printf", "b32"), ("b32", "b64", "b64")),
    "__assertfail": (("trap", "assert"), ("b64", "b64", "b32", "b64")),
    "malloc": (("malloc", "b64"), ("b64", "b64")),
    "free": (("free", "b64"), ("b64",)),
}


@dataclass(slots=True)
class FlatKernel:
    """A kernel without calls. `registers` maps a name to its PTX type."""

    name: str
    params: list[Variable]
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    body: list[Instr | Label] = field(default_factory=list)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    target: str = ""  # architecture, such as sm_90


class _Inlined:
    """A function inlined at one place of the kernel: its names' replacements there."""

    def __init__(
        self, function: Function, prefix: str = "", depth: int = 0, *, framed: bool = False
    ) -> None:
        self.function, self.prefix, self.depth = function, prefix, depth
        #: For a body with frames: its own variables' places in the frame.
        self.places, self.bytes = layout(
            v for v in function.variables if framed and v.space == "local"
        )
        self.locals = Reg(f"{prefix}locals")
        self.leave = f"{prefix}leave"  # its return label
        labels = {item.name for item in function.body if isinstance(item, Label)}
        self.symbols = {*labels, *(v.name for v in function.variables), *function.branch_tables}
        #: Variables that are pseudo-registers: those for a call's arguments, and its own.
        self.slots = {name for name, kind in function.registers.items() if kind == "param"}
        if depth:
            self.slots |= {v.name for v in (*function.params, *function.returns)}

    def of(self, operand: Operand) -> Operand:
        """An operand under its new names."""
        if isinstance(operand, Reg):
            known = operand.name in self.function.registers
            return replace(operand, name=self.prefix + operand.name) if known else operand
        if isinstance(operand, Sym):
            known = operand.name in self.symbols
            return replace(operand, name=self.prefix + operand.name) if known else operand
        if isinstance(operand, Vec):
            return Vec(tuple(self.of(item) for item in operand.items))
        if isinstance(operand, Pair):
            return Pair(self.of(operand.first), self.of(operand.second))
        if isinstance(operand, Addr) and isinstance(operand.base, Sym):
            at = self.places.get(operand.base.name)
            if at is not None:
                return Addr(self.locals, operand.offset + at)
        if isinstance(operand, Addr) and operand.base is not None:
            base = self.of(operand.base)
            assert isinstance(base, Reg | Sym)
            return replace(operand, base=base)
        return operand


class _CallSite(NamedTuple):
    """A call in a function: the operands that get its results, its arguments."""

    instr: Instr
    place: _Inlined
    returns: Vec
    arguments: Vec


class _Inliner:
    def __init__(self, module: Ptx, entry: Function) -> None:
        self.module = module
        self.flat = FlatKernel(entry.name, entry.params, target=module.target)
        self.calls = 0
        #: Variable for a call's argument -> place in it -> its register.
        self.slots: dict[str, dict[int, Reg]] = {}
        self.recursive = recursive(module, entry)
        #: For each function with frames: the labels to which it returns, by number.
        self.returns: dict[str, list[str]] = {}
        #: Calls of such functions by their instruction, and the label to which each returns.
        self.framed: dict[int, tuple[_CallSite, Function, str]] = {}

    def slot(self, name: str, offset: int, kind: str) -> Reg:
        """The pseudo-register of a call's parameter."""
        held = self.slots.setdefault(name, {}).setdefault(offset, Reg(f"{name}+{offset}"))
        self.flat.registers.setdefault(held.name, f"b{max(8 * SIZES[kind], 16)}")
        return held

    def param_moves(self, instr: Instr, name: str, offset: int) -> list[Instr]:
        """``ld.param``/``st.param`` of a call's parameter as moves."""
        kind = instr.parts[-1]
        load = instr.op == "ld"
        value = instr.operands[0] if load else instr.operands[1]
        items = value.items if isinstance(value, Vec) else (value,)
        out = []
        for index, item in enumerate(items):
            slot = self.slot(name, offset + index * SIZES[kind], kind)
            pair: tuple[Operand, Operand] = (item, slot) if load else (slot, item)
            out.append(self._move(instr, *pair, kind))
        return out

    def _move(self, like: Instr, target: Operand, source: Operand, kind: str) -> Instr:
        """A move of one type: registers may be wider, as for loads and stores."""
        size = max(SIZES[kind], 2)
        target_bytes, source_bytes = (
            SIZES[self.flat.registers[each.name]]
            if isinstance(each, Reg) and each.name in self.flat.registers
            else size
            for each in (target, source)
        )
        sign = "s" if kind[0] == "s" else "u"
        parts: tuple[str, ...] = ("mov", f"b{8 * size}")
        more: tuple[Operand, ...] = ()
        if source_bytes == target_bytes > size:  # only the lower part
            parts, more = ("bfe", f"{sign}{8 * source_bytes}"), (Imm(0), Imm(8 * size))
        elif source_bytes != target_bytes and size in (source_bytes, target_bytes):
            parts = ("cvt", f"{sign}{8 * target_bytes}", f"{sign}{8 * source_bytes}")
        return replace(like, parts=parts, operands=(target, source, *more))

    def expand(self, place: _Inlined, at: Loc | None = None) -> None:
        """Append a function's body; instructions without a line get the call's, `at`."""
        function, prefix, flat = place.function, place.prefix, self.flat
        size = sum(map(len, (flat.body, flat.registers, function.body, function.registers)))
        if size > _MOST_INLINED or place.depth > _MOST_DEPTH:
            raise PtxError(
                f"kernel {flat.name}: its calls to {function.name} and others produce more than "
                f"{_MOST_INLINED:,} instructions and registers, or are nested {_MOST_DEPTH} deep",
                _LESS,
            )
        for name, kind in function.registers.items():
            if kind != "param":
                self.flat.registers[prefix + name] = kind
        for variable in function.variables:
            if variable.name in place.places:
                continue
            self.flat.variables.append(replace(variable, name=prefix + variable.name))
        for name, targets in function.branch_tables.items():
            self.flat.tables[prefix + name] = tuple(prefix + target for target in targets)
        for item in function.body:
            if isinstance(item, Label):
                self.flat.body.append(Label(prefix + item.name))
                continue
            item = self.pointing(place, item)
            if prefix:
                guard = item.guard
                if guard is not None:
                    guard = Reg(prefix + guard.name, guard.negated)
                loc = item.loc if at is None else self.module.located(item.loc, at)
                operands = tuple(place.of(operand) for operand in item.operands)
                item = replace(item, operands=operands, guard=guard, loc=loc)
            self.emit(place, item)

    def pointing(self, place: _Inlined, instr: Instr) -> Instr:
        """An instruction that takes the address of a function or of data in a frame."""
        if instr.op == "call" or not any(isinstance(each, Sym) for each in instr.operands):
            return instr
        operands = tuple(
            Imm(self.module.address_of(operand.name))
            if isinstance(operand, Sym) and operand.name in self.module.functions
            else operand
            for operand in instr.operands
        )
        source = operands[-1] if operands else None
        if instr.op == "mov" and isinstance(source, Sym) and source.name in place.places:
            at = Imm(place.places[source.name] + source.offset)
            return replace(instr, parts=("add", "u64"), operands=(operands[0], place.locals, at))
        return replace(instr, operands=operands)

    def emit(self, place: _Inlined, instr: Instr) -> None:
        """One instruction: calls, returns and call parameters become moves and jumps."""
        if instr.op == "call":
            self.call(instr, place)
            return
        if instr.op == "ret" and place.depth:
            instr = replace(instr, parts=("bra",), operands=(Sym(place.leave),))
        elif instr.op in ("ld", "st") and "param" in instr.parts[1:3]:
            at = 1 if instr.op == "ld" else 0
            where = instr.operands[at] if at < len(instr.operands) else None
            if not isinstance(where, Addr):  # refused where all instructions are checked
                self.flat.body.append(instr)
                return
            plain = where.base.name.removeprefix(place.prefix) if where.base is not None else ""
            if plain in place.slots:
                self.flat.body += self.param_moves(instr, place.prefix + plain, where.offset)
                return
        self.flat.body.append(instr)

    def made(self, like: Instr, opcode: str, *operands: Operand, guard: Reg | None = None) -> None:
        """Append an instruction at the place of another."""
        parts = tuple(opcode.split("."))
        self.flat.body.append(replace(like, parts=parts, operands=operands, guard=guard))

    def call(self, instr: Instr, place: _Inlined) -> None:
        """A call by name or through a pointer; with a guard, a jump around it."""
        self.calls += 1
        past = f"call{self.calls}:past"
        if instr.guard is not None:
            guard = replace(instr.guard, negated=not instr.guard.negated)
            self.made(instr, "bra", Sym(past), guard=guard)
            instr = replace(instr, guard=None)
        operands: list[Operand | None] = [*instr.operands, None, None]
        first = operands[0]
        returns = first if isinstance(first, Vec) else None
        target, then, *_ = operands[returns is not None :]
        arguments = then if isinstance(then, Vec) else Vec(())
        site = _CallSite(instr, place, returns or Vec(()), arguments)
        if isinstance(target, Reg):
            names = [each.name for each in instr.operands[-1:] if isinstance(each, Sym)]
            signature = place.function.prototypes.get("".join(names))
            self.through(target, signature, site)
        elif isinstance(target, Sym):
            self.named(target.name, site)
        else:
            raise self.wrong(instr, "it names no function")
        self.flat.body.append(Label(past))

    def wrong(self, instr: Instr, what: str) -> PtxError:
        """The error for a call that ptxas would refuse."""
        where = self.module.where(instr.loc)
        return PtxError(
            f"{where}: kernel {self.flat.name}: `{instr.text}` is not valid PTX: {what}", REJECTED
        )

    def through(self, pointer: Reg, signature: Signature | None, call: _CallSite) -> None:
        """A call through a pointer: call the one of the possible functions that it points to."""
        instr = call.instr
        done, other = f"call{self.calls}:done", Reg(f"call{self.calls}:other")
        self.flat.registers[other.name] = "pred"
        for number, function in enumerate(candidates(self.module, signature)):
            following = f"{done}:{number}"
            address = Imm(self.module.address_of(function.name))
            self.made(instr, "setp.ne.u64", other, pointer, address)
            self.made(instr, "bra", Sym(following), guard=other)
            self.named(function.name, call)
            self.made(instr, "bra", Sym(done))
            self.flat.body.append(Label(following))
        self.made(instr, "trap.pointer")
        self.flat.body.append(Label(done))

    def named(self, name: str, call: _CallSite) -> None:
        """Bind the arguments, expand the callee or jump to it, bind the results."""
        instr = call.instr
        if name in _TOLD:
            self.flat.body.append(self.told(instr, name, call.returns, call.arguments))
            return
        callee = self.module.functions.get(name)
        if callee is None or not callee.body:
            raise Unsupported(
                f"{self.module.where(instr.loc)}: the emulator cannot call {name}: {instr.text}",
                "Device functions must be defined in the same file.",
            )
        if name in self.recursive:
            back = f"{name}#:return{len(self.returns.setdefault(name, []))}"
            self.returns[name].append(back)
            stands = replace(instr, operands=(Sym(name),))
            self.framed[id(stands)] = (call, callee, back)
            self.flat.body.append(stands)
            return
        self.calls += 1
        inner = f"{name}#{self.calls}:"
        place = _Inlined(callee, inner, call.place.depth + 1)
        self.bind(callee.params, call.arguments, inner, instr, into=True)
        self.expand(place, instr.loc)
        self.flat.body.append(Label(place.leave))
        self.bind(callee.returns, call.returns, inner, instr, into=False)

    def framed_bodies(self) -> None:
        """Append the bodies of functions with frames after the kernel's; then calls of them."""
        flat = self.flat
        if not self.returns:
            return
        flat.registers[POINTER] = "b64"
        flat.variables.append(Variable(FRAMES, "local", STACK_BYTES, _ALIGN))
        like = next(item for item in flat.body if isinstance(item, Instr))
        start = [replace(like, parts=("mov", "u64"), operands=(Reg(POINTER), Sym(FRAMES)))]
        end = replace(like, parts=("ret",), operands=(), guard=None)
        pieces: list[list[Instr | Label]] = [[*start, *flat.body, end]]
        places: dict[str, _Inlined] = {}
        while len(places) < len(self.returns):
            name = next(name for name in self.returns if name not in places)
            function = self.module.functions[name]
            place = places[name] = _Inlined(function, f"{name}#:", 1, framed=True)
            flat.body = [Label(f"{name}#:enter")]
            if place.places:
                flat.registers[place.locals.name] = "b64"
                self.made(like, "mov.u64", place.locals, Reg(POINTER))
                self.made(like, "add.u64", Reg(POINTER), Reg(POINTER), Imm(aligned(place.bytes)))
            self.expand(place)
            self.leave(place, like)
            pieces.append(flat.body)
        flat.body = []
        held: set[str] = set()
        for number, piece in enumerate(pieces):
            for at, item in enumerate(piece):
                if id(item) not in self.framed:
                    flat.body.append(item)
                    continue
                each = self.framed[id(item)]
                # The kernel's own registers are private.
                names = saved_registers(piece, at, flat.registers) if number else []
                self.enter(each, names, aligned(places[each[1].name].bytes))
                held.update(names)
        # Not every path has written what a frame holds.
        flat.body[1:1] = cleared_registers(start[0], held, flat.registers)
        for name, labels in self.returns.items():
            flat.tables[f"{name}#:returns"] = tuple(labels)

    def leave(self, place: _Inlined, like: Instr) -> None:
        """Jump back to the frame's return place."""
        number = Reg(f"{place.prefix}to")
        self.flat.registers[number.name] = "b32"
        self.flat.body.append(Label(place.leave))
        if place.places:
            self.made(like, "mov.u64", Reg(POINTER), place.locals)
        self.made(like, "ld.local.b32", number, Addr(Reg(POINTER), -BEHIND))
        self.made(like, "brx.idx", number, Sym(f"{place.prefix}returns"))

    def enter(self, framed: tuple[_CallSite, Function, str], names: list[str], more: int) -> None:
        """Save, jump, and continue after the call; `more` bytes are the callee's own."""
        call, callee, back = framed
        instr, inner = call.instr, f"{callee.name}#:"
        bit, full = Reg(f"{inner}bit"), Reg(f"{inner}full")
        self.flat.registers[bit.name], self.flat.registers[full.name] = "b32", "pred"
        results = {each.name for each in call.returns.items if isinstance(each, Reg | Sym)}
        names = [name for name in names if name.rpartition("+")[0] not in results]
        size, save, fetch = frame_moves(instr, names, self.flat.registers, bit)
        pointer, number = Reg(POINTER), self.returns[callee.name].index(back)
        self.made(instr, "setp.gt.u64", full, pointer, Sym(FRAMES, STACK_BYTES - size - more))
        self.made(instr, "trap.stack", guard=full)
        self.flat.body += save
        self.made(instr, "st.local.b32", Addr(pointer, size - BEHIND), Imm(number))
        self.made(instr, "add.u64", pointer, pointer, Imm(size))
        self.bind(callee.params, call.arguments, inner, instr, into=True)
        self.made(instr, "bra", Sym(f"{inner}enter"))
        self.flat.body.append(Label(back))
        self.made(instr, "sub.u64", pointer, pointer, Imm(size))
        self.bind(callee.returns, call.returns, inner, instr, into=False)
        self.flat.body += fetch

    def told(self, instr: Instr, name: str, returns: Vec, arguments: Vec) -> Instr:
        """A call of the device's own library as an instruction."""
        parts, kinds = _TOLD[name]
        operands = [
            self.slot(each.name, 0, kind) if isinstance(each, Reg | Sym) else each
            for each, kind in zip((*returns.items, *arguments.items), kinds, strict=False)
        ]
        return replace(instr, parts=parts, operands=tuple(operands))

    def bind(
        self, formal: list[Variable], actual: Vec, inner: str, instr: Instr, *, into: bool
    ) -> None:
        """Copy every pseudo-register of an argument to the callee's, or back."""
        if len(formal) != len(actual.items):
            raise self.wrong(instr, "the function takes or returns a different number of values")
        for variable, operand in zip(formal, actual.items, strict=True):
            inside = f"{inner}{variable.name}"
            outside = operand.name if isinstance(operand, Reg | Sym) else ""
            source, goal = (outside, inside) if into else (inside, outside)
            if isinstance(operand, Imm):
                kind = f"b{8 * variable.size}"
                moved = (self.slot(inside, 0, kind), operand)
                self.flat.body.append(replace(instr, parts=("mov", kind), operands=moved))
                continue
            for offset, held in self.slots.get(source, {}).items():
                kind = self.flat.registers[held.name]
                pair = (self.slot(goal, offset, kind), held)
                self.flat.body.append(replace(instr, parts=("mov", kind), operands=pair))


def entry_of(module: Ptx, kernel: str) -> Function:
    """A kernel by its name in the PTX; PtxError: unknown."""
    entry = module.functions.get(kernel)
    if entry is None or not entry.entry:
        known = ", ".join(f.name for f in module.functions.values() if f.entry)
        raise PtxError(f"the PTX has no kernel {kernel!r}", f"It has: {known or 'none'}.")
    return entry


def flatten(module: Ptx, kernel: str) -> FlatKernel:
    """The kernel's body with every device function inlined.

    Raises:
        PtxError: there is no such kernel.
        Unsupported: a call that cannot be resolved.
    """
    entry = entry_of(module, kernel)
    inliner = _Inliner(module, entry)
    inliner.expand(_Inlined(entry))
    inliner.framed_bodies()
    return inliner.flat
