"""Which PTX instructions become part of the instructions that use them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from workbench.emulator.ptx.blocks import BasicBlock
from workbench.emulator.ptx.flow import arguments, makers, results, walk
from workbench.emulator.ptx.instructions import Imm, Instr, Operand, Reg

ADDS = ("add", "sub")
LOGIC = ("and", "or", "xor")
WORDS = ("s32", "u32", "b32")
WIDE = ("s64", "u64", "b64")
FLOATS = ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2")


class Names:
    """Who makes and who uses each register of a kernel."""

    def __init__(self, blocks: Sequence[BasicBlock]) -> None:
        self.uses: Counter[str] = Counter()
        self.users: dict[str, list[Instr]] = defaultdict(list)
        self.makers = makers(blocks)
        for _, instr in walk(blocks):
            for name in arguments(instr):
                self.uses[name] += 1
                self.users[name].append(instr)


def literal(instr: Instr) -> bool:
    """Is one of the arguments a literal?"""
    return any(isinstance(operand, Imm) for operand in instr.operands[1:])


def folded(blocks: Sequence[BasicBlock], names: Names, bounds: bool) -> set[int]:
    """Instructions that all of their users take with them, by ``id``.

    A product or shift goes into each addition of it (IMAD, LEA; FFMA where neither is told to
    round), an addition or logic operation with one user into a three-operand one (IADD3,
    LOP3, which takes complements as well); no user takes more than one, and what took one is no
    third operand of another.

    Args:
        blocks: The kernel's.
        names: Of these blocks.
        bounds: Whether an addition goes into a minimum or maximum of it, as it does since
            compute capability 9.0 (VIADDMNMX).
    """
    taken: set[int] = set()
    out = {id(instr) for _, instr in walk(blocks) if complement(instr, names)}
    for kinds in (("mul", "shl", "shr"), ("cvt",), ADDS, LOGIC):
        for _, instr in walk(blocks):
            if instr.op not in kinds or instr.guard is not None or id(instr) in taken:
                continue
            users = _takers(instr, names, bounds)
            if users and not any(id(user) in taken for user in users):
                out.add(id(instr))
                if instr.op != "cvt":
                    taken.update(id(user) for user in users)
    return out


def _takers(instr: Instr, names: Names, bounds: bool) -> list[Instr]:
    """The users that can take an instruction with them; none if one cannot."""
    made = results(instr)
    if len(made) != 1 or len(names.makers[made[0]]) != 1:
        return []
    users = _beyond(names.users[made[0]], names) if instr.op in LOGIC else names.users[made[0]]
    if not users or names.uses[made[0]] != len(users):
        return []
    if instr.op in ("mul", "shl", "shr"):
        return users if _product(instr) and all(_adds(instr, user) for user in users) else []
    if len(users) > 1:
        return []
    kind, user = instr.parts[-1], users[0]
    if instr.op == "cvt":
        wider = kind in ("s32", "u32") and instr.parts[-2] in WIDE
        fits = wider and user.op in ("mul", "add", "shl", "mad")
    elif kind not in WORDS:
        fits = False
    elif instr.op in ADDS and user.op in ("min", "max"):
        fits = bounds and user.parts[-1] in WORDS
    elif instr.op in ADDS:
        fits = user.op in ADDS and user.parts[-1] in WORDS and "cc" not in user.parts
        fits &= not (literal(instr) or counting(instr, names) or counting(user, names))
    else:
        fits = user.op in LOGIC or (user.op == "setp" and _zero(user.operands[-1]))
    return users if fits else []


def _beyond(users: list[Instr], names: Names) -> list[Instr]:
    """The users, that of a complement which only logic uses in its place."""
    if len(users) != 1 or not complement(users[0], names):
        return users
    return names.users[results(users[0])[0]]


def complement(instr: Instr, names: Names) -> bool:
    """Is it a ``not`` that only logic operations use?"""
    if instr.op != "not" or instr.parts[-1] == "pred" or instr.guard is not None:
        return False
    users = names.users[results(instr)[0]]
    return bool(users) and all(user.op in LOGIC for user in users)


def counting(instr: Instr, names: Names) -> bool:
    """Does an addition add a literal or nothing, by a predicate?

    ptxas adds it and moves the sum back under the predicate: such an addition is for itself.
    """
    for operand in instr.operands[1:] if instr.op == "add" else ():
        makers = names.makers[operand.name] if isinstance(operand, Reg) else []
        if len(makers) == 1 and makers[0].op == "selp" and names.uses[results(makers[0])[0]] == 1:
            chosen = makers[0].operands[1:3]
            if all(isinstance(each, Imm) for each in chosen) and any(map(_zero, chosen)):
                return True
    return False


def _product(instr: Instr) -> bool:
    """Is it a product, or a shift by a literal, that an addition can do with it?"""
    op, kind = instr.op, instr.parts[-1]
    if kind in FLOATS:
        return op == "mul" and not _rounds(instr)
    if op == "mul":
        return instr.parts[1] in ("wide", "lo") and kind not in WIDE
    return isinstance(instr.operands[2], Imm) and (op == "shl" or kind == "u32")


def _adds(instr: Instr, user: Instr) -> bool:
    """Does a user add the product to something in a register?"""
    if instr.parts[-1] in FLOATS:
        fits = user.op in ADDS and user.parts[-1] == instr.parts[-1] and not _rounds(user)
        return fits and not (literal(instr) and literal(user))
    wide = instr.parts[1] == "wide" or instr.parts[-1] in WIDE
    if user.parts[-1] not in (("s64", "u64") if wide else ("s32", "u32")) or literal(user):
        return False
    if user.op != "sub":
        return user.op == "add"
    # Of a product by a literal that is subtracted, IMAD takes the literal's negative.
    product = Reg(results(instr)[0])
    return user.operands[2] == product != user.operands[1] and literal(instr)


def _rounds(instr: Instr) -> bool:
    """Is an operation on floats told to round? Then it is done for itself."""
    return not {"rn", "rz", "rm", "rp", "sat"}.isdisjoint(instr.parts)


def _zero(operand: Operand) -> bool:
    return isinstance(operand, Imm) and operand.bits == 0
