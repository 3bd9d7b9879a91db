"""Check the operands of each instruction; refuse, with their line, those that ptxas refuses.

The table has only some opcodes; the builders of the others check their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ptxemu.errors import PtxError
from ptxemu.ptx.instructions import SIZES, Addr, Imm, Instr, Operand, Pair, Reg, Sym, Vec, atoms

REJECTED = "ptxas would reject it. Check the inline assembly, or what generated this PTX."
#: Opcode -> the least and the most operands that it takes.
_COUNTS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("add", "sub", "mul", "mul24", "div", "rem", "and", "or", "xor", "shl", "shr",
                     "addc", "subc", "copysign", "bmsk", "match", "redux"), (3, 3)),
    **dict.fromkeys(("min", "max"), (3, 4)),
    **dict.fromkeys(("mad", "mad24", "madc", "fma", "sad", "dp4a", "dp2a", "bfe", "prmt", "shf",
                     "selp", "slct"), (4, 4)),
    "bfi": (5, 5), "lop3": (5, 7), "setp": (3, 4), "set": (3, 4),
    **dict.fromkeys(("neg", "abs", "not", "cnot", "popc", "clz", "brev", "bfind", "sqrt", "rcp",
                     "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "testp", "mov", "cvta",
                     "isspacep"), (2, 2)),
    "cvt": (2, 4), "ld": (2, 3), "ldu": (2, 2), "st": (2, 3), "atom": (3, 5), "red": (2, 4),
    "bra": (1, 1), "brx": (2, 2), "ret": (0, 0), "exit": (0, 0), "vote": (2, 3), "shfl": (4, 5),
    "activemask": (1, 1), "ldmatrix": (2, 2), "mma": (4, 8),
}  # fmt: skip
#: The place of the address operand.
_ADDRESS = {"ld": 1, "ldu": 1, "st": 0, "atom": 1, "red": 0, "ldmatrix": 1}
#: Opcodes whose registers are all as wide as their type says.
_EVEN = frozenset(
    ("add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "neg", "abs", "not",
     "fma", "mad", "sad", "addc", "subc", "madc", "sqrt", "rcp", "rsqrt", "sin", "cos", "lg2",
     "ex2", "tanh", "copysign", "mov")
)  # fmt: skip
_PREDICATES = ("setp", "testp", "isspacep")  # whose results are predicates


def check_shapes(
    kernel: str,
    instrs: Iterator[Instr],
    registers: Mapping[str, str],
    where: Callable[[Instr], str],
) -> None:
    """Raise for the first instruction whose operands do not fit its opcode.

    Raises:
        PtxError: names the instruction and its error.
    """
    for instr in instrs:
        wrong = _wrong(instr, registers)
        if wrong:
            raise PtxError(
                f"{where(instr)}: kernel {kernel}: `{instr.text}` is not valid PTX: {wrong}",
                REJECTED,
            )


def _wrong(instr: Instr, registers: Mapping[str, str]) -> str:
    guard = instr.guard
    if guard is not None and registers.get(guard.name) != "pred":
        return f"its guard {guard.name} is not a predicate"
    if instr.parts in (("mbarrier",), ("wgmma",)):
        return "its operation is missing"
    bounds = _COUNTS.get(instr.op)
    if bounds is None or "async" in instr.parts:
        return ""
    count = len(instr.operands)
    if not bounds[0] <= count <= bounds[1]:
        return f"it has {count} operands, and {instr.op} takes {bounds[0]}"
    place = _ADDRESS.get(instr.op)
    for index, operand in enumerate(instr.operands):
        if isinstance(operand, Addr) != (index == place):
            return f"operand {index + 1} is {'not ' if index == place else ''}an address"
    if instr.op in ("bra", "brx"):
        return "" if isinstance(instr.operands[-1], Sym) else "it has no label"
    if place != 0 and instr.operands and not _writable(instr.operands[0]):
        return "its result is not a register"
    return _registers(instr, registers)


def _writable(operand: Operand) -> bool:
    return all(isinstance(each, Reg) and not each.negated for each in atoms(operand))


def _registers(instr: Instr, registers: Mapping[str, str]) -> str:
    """Check that predicates are in their places, and that widths fit the type."""
    size = SIZES.get(instr.parts[-1], 0) if instr.op in _EVEN else 0
    doubled = (0, 3) if "wide" in instr.parts else ()
    for index, operand in enumerate(instr.operands):
        for second, each in _pieces(operand):
            if isinstance(each, Imm) and _must(instr, index, second) and each.width:
                return f"operand {index + 1} is not a predicate"
            if not isinstance(each, Reg) or each.name not in registers:
                continue
            kind = registers[each.name]
            if (kind == "pred") != _must(instr, index, second):
                return f"{plain(each.name)} is {'' if kind == 'pred' else 'not '}a predicate"
            wanted = size * (2 if index in doubled else 1)
            if size and kind != "pred" and not isinstance(operand, Vec) and SIZES[kind] != wanted:
                return f"{plain(each.name)} has {8 * SIZES[kind]} bits, not {8 * wanted}"
    return ""


def _pieces(operand: Operand) -> Iterator[tuple[bool, Operand]]:
    """The registers and numbers of an operand; True for those after ``|``."""
    if isinstance(operand, Reg | Imm):
        yield False, operand
    elif isinstance(operand, Pair):
        yield from ((False, each) for each in atoms(operand.first))
        yield from ((True, each) for each in atoms(operand.second))
    else:
        for each in atoms(operand):
            yield False, each.base if isinstance(each, Addr) and each.base is not None else each


def _must(instr: Instr, index: int, second: bool) -> bool:
    """Test whether a register at this place must be a predicate."""
    op = instr.op
    if op == "vote":
        return index == 1 or (index == 0 and "ballot" not in instr.parts)
    if second or instr.parts[-1] == "pred" or (index == 0 and op in _PREDICATES):
        return True
    return op in ("selp", "setp", "set") and index == 3


def plain(name: str) -> str:
    """A register's own name, without the function from which it was inlined."""
    return name.rpartition(":")[2].partition("@")[0]
