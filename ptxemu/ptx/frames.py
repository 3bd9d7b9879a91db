"""Recursion: a function that can come to itself has one body, and a frame for each call.

Where PTX is inlined, a recursive function cannot be. Its body stands once in the flat kernel. A
call saves the caller's registers in local memory, leaves the number of the place to return to
behind them, and jumps; ``ret`` is a ``brx`` by that number. Frames hold what may be needed after
the call: registers that occur both before and after it, a loop around it counted as both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ptxemu.ptx.instructions import (
    SIZES,
    Addr,
    Function,
    Imm,
    Instr,
    Label,
    Module,
    Reg,
    Signature,
    Sym,
    Variable,
    atoms,
)

Body = Sequence[Instr | Label]
#: Bytes of all frames of a thread.
STACK_BYTES = 8192
#: The variable that holds the frames, and the register that points behind the last of them.
FRAMES, POINTER = "#frames", "#stack"
_ALIGN = 16
#: Bytes at a frame's end, for the place to return to.
BEHIND = 8


def aligned(size: int) -> int:
    """Rounded up to the alignment of frames."""
    return -(-size // _ALIGN) * _ALIGN


def pointed_to(module: Module) -> list[Function]:
    """The functions of which an address is taken."""
    names = {name for variable in module.variables.values() for _, name in variable.symbols}
    for function in module.functions.values():
        for item in function.body:
            if isinstance(item, Instr) and item.op != "call":
                pieces = (piece for operand in item.operands for piece in atoms(operand))
                names |= {piece.name for piece in pieces if isinstance(piece, Sym)}
    return [each for name, each in module.functions.items() if name in names and each.body]


def candidates(module: Module, signature: Signature | None) -> list[Function]:
    """What a call through a pointer may reach: pointed-to functions of the signature."""
    return [each for each in pointed_to(module) if each.signature == signature]


def _callees(module: Module, function: Function) -> set[str]:
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


def recursive(module: Module) -> set[str]:
    """The functions that can come to themselves."""
    calls = {name: _callees(module, each) for name, each in module.functions.items()}
    found = set()
    for name in calls:
        seen: set[str] = set()
        todo = list(calls[name])
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.add(one)
                todo += calls[one]
        if name in seen:
            found.add(name)
    return found


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


def saved(body: Body, at: int, registers: Mapping[str, str]) -> list[str]:
    """The registers that a call at a place of a body must find again, the widest first."""
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
        around = [(low, high) for low, high in around if low <= high]  # loops alone
        wider = (min([first, *(low for low, _ in around)]), max([last, *(h for _, h in around)]))
        grown = wider != (first, last)
        first, last = wider
    before = _names(body[: last + 1], registers)
    after = _names(body[first:at] if first < at else (), registers)
    both = before & (after | _names(body[at + 1 :], registers))
    return sorted(both, key=lambda name: (-_width(registers[name]), name))


def _width(kind: str) -> int:
    return 4 if kind == "pred" else SIZES[kind]


def moves(
    call: Instr, names: Sequence[str], registers: Mapping[str, str], bit: Reg
) -> tuple[int, list[Instr], list[Instr]]:
    """A frame's bytes, and the instructions that save registers in it and fetch them again.

    `bit` is a register of 32 bits by which predicates go to memory.
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


def cleared(like: Instr, names: Iterable[str], registers: Mapping[str, str]) -> list[Instr]:
    """Moves of zero to registers, at the place of another instruction."""
    out = []
    for name in sorted(names):
        kind = registers[name]
        parts = ("mov", "pred" if kind == "pred" else f"b{8 * SIZES[kind]}")
        out.append(replace(like, parts=parts, operands=(Reg(name), Imm(0))))
    return out


def variable() -> Variable:
    """The memory of a thread's frames."""
    return Variable(FRAMES, "local", STACK_BYTES, _ALIGN)
