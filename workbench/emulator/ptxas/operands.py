"""What an instruction does to its operands for nothing: signs, halves, a base.

Read off ptxas 13.0: FADD and its like take ``-a``, ``|a|`` and, of 16 bits, either half of a
register; an access to shared memory adds a uniform register to its address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from workbench.emulator.ptx.blocks import BasicBlock
from workbench.emulator.ptx.flow import results, walk
from workbench.emulator.ptx.instructions import Addr, Imm, Instr, Operand, Reg, Sym, Vec
from workbench.emulator.ptxas.folding import FLOATS, WORDS, Names, literal

_HALVES = ("f16", "bf16", "f16x2", "bf16x2")
#: Instructions whose operands may have a sign.
_SIGNED = ("add", "sub", "mul", "fma", "min", "max", "setp", "cvt", "ex2", "lg2", "rcp", "rsqrt")
#: Instructions on 16 bits that take them from either half of a register.
_OF_HALVES = ("add", "sub", "mul", "fma", "neg", "abs", "setp")


def taken(blocks: Iterable[BasicBlock], names: Names, folded: set[int]) -> dict[int, float]:
    """Instructions that cost less than one because of who uses them: ``id`` -> what is left.

    Args:
        blocks: The kernel's.
        names: Of these blocks.
        folded: What goes into other instructions already, by ``id``.
    """
    out: dict[int, float] = {}
    for _, instr in walk(blocks):
        if instr.guard is not None:
            continue
        if instr.op == "mov" and isinstance(instr.operands[0], Vec):
            left = _halves(instr, names)
            if left is not None:
                out[id(instr)] = left
        elif instr.op == "mov" and isinstance(instr.operands[1], Vec):
            out.update(_rounded_pair(instr, names))
        elif _is_sign(instr, names) or _is_base(instr, names, folded):
            out[id(instr)] = 0.0
    return out


def _is_sign(instr: Instr, names: Names) -> bool:
    if instr.op not in ("neg", "abs") or instr.parts[-1] not in FLOATS:
        return False
    users = names.users[results(instr)[0]]
    return bool(users) and all(
        user.op in _SIGNED and instr.parts[-1] in user.parts and "rni" not in user.parts
        for user in users
    )


def _is_base(instr: Instr, names: Names, folded: set[int]) -> bool:
    """Does it add a variable of shared memory to addresses, and what it adds is no product?"""
    if instr.op != "add" or instr.parts[-1] not in WORDS:
        return False
    kinds = [_maker(operand, names) for operand in instr.operands[1:]]
    named = [_names_variable(maker, names) for maker in kinds]
    if sum(named) != 1:
        return False
    other = kinds[named.index(False)]
    if literal(instr) or (other is not None and id(other) in folded):
        return False  # an offset, or LEA or IMAD adds the base
    name = results(instr)[0]
    users = names.users[name]
    return (
        bool(users)
        and all(user.op in ("ld", "st", "atom", "red") and "shared" in user.parts for user in users)
        and sum(_bases(user, name) for user in users) == names.uses[name]
    )


def _names_variable(maker: Instr | None, names: Names) -> bool:
    """Is it the address of a variable, or that and a literal?"""
    if maker is not None and maker.op == "add" and isinstance(maker.operands[2], Imm):
        maker = _maker(maker.operands[1], names)
    return maker is not None and maker.op == "mov" and isinstance(maker.operands[1], Sym)


def _bases(user: Instr, name: str) -> int:
    return sum(isinstance(each, Addr) and each.base == Reg(name) for each in user.operands)


def _maker(operand: Operand, names: Names) -> Instr | None:
    makers = names.makers.get(operand.name, []) if isinstance(operand, Reg) else []
    return makers[0] if len(makers) == 1 else None


def _users(name: str, names: Names) -> Iterator[tuple[Instr, str]]:
    """Who uses a register in the end, and by what name, copies of 16 bits looked through."""
    for user in names.users[name]:
        if user.op == "mov" and user.parts[-1] in ("b16", "u16") and user.guard is None:
            yield from _users(results(user)[0], names)
        else:
            yield user, name


def _halves(instr: Instr, names: Names) -> float | None:
    """A word taken apart into halves: one instruction (PRMT) for an upper half used otherwise."""
    pieces = instr.operands[0]
    assert isinstance(pieces, Vec)
    if instr.parts[-1] != "b32" or len(pieces.items) != 2:
        return None
    upper = pieces.items[1]
    if not isinstance(upper, Reg):
        return 0.0
    taken_whole = all(
        (user.op in _OF_HALVES and user.parts[-1] in _HALVES)
        or (user.op == "cvt" and user.parts[-1] in _HALVES)
        for user, _ in _users(upper.name, names)
    )
    return 0.0 if taken_whole else 1.0


def _rounded_pair(instr: Instr, names: Names) -> dict[int, float]:
    """Two floats rounded to halves of one word: one instruction (F2FP), not three."""
    pieces = instr.operands[1]
    assert isinstance(pieces, Vec)
    makers = [_rounding(piece, names) for piece in pieces.items]
    if instr.parts[-1] != "b32" or len(makers) != 2 or None in makers:
        return {}
    return {id(maker): 0.0 for maker in makers if maker is not None}


def _rounding(piece: Operand, names: Names) -> Instr | None:
    """What rounds a float to 16 bits for this alone."""
    while isinstance(piece, Reg) and names.uses[piece.name] == 1:
        maker = _maker(piece, names)
        if maker is None or maker.guard is not None:
            return None
        if maker.op == "cvt":
            fits = maker.parts[-1] == "f32" and maker.parts[-2] in ("f16", "bf16")
            return maker if fits and "rn" in maker.parts else None
        if maker.op != "mov" or maker.parts[-1] not in ("b16", "u16"):
            return None
        piece = maker.operands[1]
    return None
