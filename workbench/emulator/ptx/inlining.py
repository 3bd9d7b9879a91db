"""Device functions are inlined before anything runs: one flat body per kernel.

A call passes its arguments through ``.param`` variables; each (variable, offset)
becomes a pseudo-register, so a call is a handful of moves and costs nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from workbench.emulator.ptx.instructions import (
    SIZES,
    Addr,
    Function,
    Imm,
    Instr,
    Label,
    Loc,
    Module,
    Operand,
    Pair,
    Reg,
    Sym,
    Variable,
    Vec,
)
from workbench.errors import KernelError

_MAX_DEPTH = 32
#: Functions that say something: the opcode they become, the types of its operands.
_TOLD = {
    "vprintf": (("printf", "b32"), ("b32", "b64", "b64")),
    "__assertfail": (("trap", "assert"), ("b64", "b64", "b32", "b64")),
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
    """A function in one place of the kernel: what its own names become there."""

    def __init__(self, function: Function, prefix: str = "", depth: int = 0) -> None:
        self.function, self.prefix, self.depth = function, prefix, depth
        self.leave = f"{prefix}leave"  # where it returns to
        labels = {item.name for item in function.body if isinstance(item, Label)}
        self.symbols = {*labels, *(v.name for v in function.variables), *function.branch_tables}
        #: Variables that are pseudo-registers: those that a call is made with, and its own.
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
        if isinstance(operand, Addr) and operand.base is not None:
            base = self.of(operand.base)
            assert isinstance(base, Reg | Sym)
            return replace(operand, base=base)
        return operand


class _Inliner:
    def __init__(self, module: Module, entry: Function) -> None:
        self.module = module
        self.flat = FlatKernel(entry.name, entry.params, target=module.target)
        self.calls = 0

    def slot(self, name: str, offset: int, kind: str) -> Reg:
        """The pseudo-register of a call's parameter."""
        unique = f"{name}+{offset}"
        width = SIZES[kind]
        self.flat.registers.setdefault(unique, f"b{max(8 * width, 16)}")
        return Reg(unique)

    def param_moves(self, instr: Instr, name: str, offset: int) -> list[Instr]:
        """``ld.param``/``st.param`` of a call's parameter as moves."""
        kind = instr.parts[-1]
        load = instr.op == "ld"
        value = instr.operands[0] if load else instr.operands[1]
        items = value.items if isinstance(value, Vec) else (value,)
        out = []
        move = ("mov", f"b{8 * max(SIZES[kind], 2)}")
        for index, item in enumerate(items):
            slot = self.slot(name, offset + index * SIZES[kind], kind)
            pair: tuple[Operand, Operand] = (item, slot) if load else (slot, item)
            out.append(replace(instr, parts=move, operands=pair))
        return out

    def expand(self, place: _Inlined, at: Loc | None = None) -> None:
        """Append a function's body; instructions without a line stand at the call's, `at`."""
        function, prefix = place.function, place.prefix
        if place.depth > _MAX_DEPTH:
            raise KernelError(
                f"kernel {self.flat.name}: device function {function.name} calls itself",
                "The emulator inlines device functions; it cannot run recursion.",
            )
        for name, kind in function.registers.items():
            if kind != "param":
                self.flat.registers[prefix + name] = kind
        for variable in function.variables:
            self.flat.variables.append(replace(variable, name=prefix + variable.name))
        for name, targets in function.branch_tables.items():
            self.flat.tables[prefix + name] = tuple(prefix + target for target in targets)
        for item in function.body:
            if isinstance(item, Label):
                self.flat.body.append(Label(prefix + item.name))
                continue
            operands = tuple(place.of(operand) for operand in item.operands)
            guard = item.guard
            if guard is not None:
                guard = Reg(prefix + guard.name, guard.negated)
            loc = item.loc if at is None else self.module.located(item.loc, at)
            self.emit(place, replace(item, operands=operands, guard=guard, loc=loc))

    def emit(self, place: _Inlined, instr: Instr) -> None:
        """One instruction: calls, returns and call parameters become moves and jumps."""
        if instr.op == "call":
            self.call(instr, place.depth)
            return
        if instr.op == "ret" and place.depth:
            instr = replace(instr, parts=("bra",), operands=(Sym(place.leave),))
        elif instr.op in ("ld", "st") and "param" in instr.parts[1:3]:
            at = 1 if instr.op == "ld" else 0
            where = instr.operands[at] if at < len(instr.operands) else None
            if not isinstance(where, Addr):  # refused where all instructions are looked at
                self.flat.body.append(instr)
                return
            plain = where.base.name.removeprefix(place.prefix) if where.base is not None else ""
            if plain in place.slots:
                self.flat.body += self.param_moves(instr, place.prefix + plain, where.offset)
                return
        self.flat.body.append(instr)

    def call(self, instr: Instr, depth: int) -> None:
        """Bind the arguments, expand the callee, bind the results."""
        operands = list(instr.operands)
        returns = operands.pop(0) if isinstance(operands[0], Vec) else Vec(())
        target = operands.pop(0)
        arguments = operands[0] if operands and isinstance(operands[0], Vec) else Vec(())
        assert isinstance(returns, Vec)
        where = self.module.where(instr.loc)
        name = target.name if isinstance(target, Sym) else ""
        if name in _TOLD:
            self.flat.body.append(self.told(instr, name, returns, arguments))
            return
        callee = self.module.functions.get(name)
        if callee is None or not callee.body:
            raise KernelError(
                f"{where}: the emulator cannot call {name or 'through a pointer'}: {instr.text}",
                "Device functions must be in the same file and called by name.",
            )
        self.calls += 1
        inner = f"{name}#{self.calls}:"
        place = _Inlined(callee, inner, depth + 1)
        self.bind(callee.params, arguments, inner, instr, into=True)
        self.expand(place, instr.loc)
        self.flat.body.append(Label(place.leave))
        self.bind(callee.returns, returns, inner, instr, into=False)

    def told(self, instr: Instr, name: str, returns: Vec, arguments: Vec) -> Instr:
        """A call of the device's own library that says something, as an instruction."""
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
        for variable, operand in zip(formal, actual.items, strict=True):
            inside = f"{inner}{variable.name}"
            outside = operand.name if isinstance(operand, Reg | Sym) else ""
            source, goal = (outside, inside) if into else (inside, outside)
            if isinstance(operand, Imm):
                kind = f"b{8 * variable.size}"
                moved = (self.slot(inside, 0, kind), operand)
                self.flat.body.append(replace(instr, parts=("mov", kind), operands=moved))
                continue
            for name, kind in list(self.flat.registers.items()):
                head, plus, offset = name.rpartition("+")
                if plus and head == source:
                    pair = (self.slot(goal, int(offset), kind), Reg(name))
                    self.flat.body.append(replace(instr, parts=("mov", kind), operands=pair))


def flatten(module: Module, kernel: str) -> FlatKernel:
    """The kernel's body with every device function inlined.

    Raises:
        KernelError: no such kernel, recursion, or a call that cannot be resolved.
    """
    entry = module.functions.get(kernel)
    if entry is None or not entry.entry:
        known = ", ".join(f.name for f in module.functions.values() if f.entry)
        raise KernelError(f"the PTX has no kernel {kernel!r}", f"It has: {known or 'none'}.")
    inliner = _Inliner(module, entry)
    inliner.expand(_Inlined(entry))
    return inliner.flat
