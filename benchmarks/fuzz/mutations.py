"""Edits of PTX that ptxas mostly accepts: the slips that one makes in kernels, one at a time.

Each kind of edit names the statements that it can change, and changes one of them. Types are
kept, so that what is left is a program: with another bound, index, stride, order, without a
barrier or a statement.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

#: ``@%p1 opcode operands;`` as nvcc writes it, one statement a line.
_STATEMENT = re.compile(r"(\s*)(@!?%\w+\s+)?([a-z][\w.:]*)(\s+)([^;]*);\s*\Z")
_BETWEEN = re.compile(r",\s*(?![^{\[]*[}\]])")
_INTEGER = re.compile(r"(?<![\w%$.])-?\d+\b")
_FLOAT = re.compile(r"0[fd]([0-9A-F]+)")
_REGISTER = re.compile(r"%(r|rd|f|fd|rs|p|h)\d+\b")
_ARITHMETIC = {
    "add", "sub", "mul", "mad", "fma", "and", "or", "xor", "shl", "shr", "shf", "bfe", "bfi",
    "lop3", "prmt", "min", "max", "rem", "div", "selp", "mov", "shfl",
}  # fmt: skip
_ORDERED = {"sub", "setp", "selp", "shl", "shr", "div", "rem", "fma", "mad", "shf", "bfi", "bfe",
            "prmt"}  # fmt: skip
_SYNCHRONISING = re.compile(
    r"(bar|barrier|membar|fence|cp\.async\.(wait|commit)|mbarrier\.try_wait|bar\.warp)\b"
)
_COMPARISONS = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq",
                "lo": "ls", "ls": "lo", "hi": "hs", "hs": "hi"}  # fmt: skip
#: Opcode and modifiers -> what may stand instead.
_OPCODES = (
    (r"\badd\.(?!cc)", "sub."), (r"\bsub\.(?!cc)", "add."), (r"\bmin\.", "max."),
    (r"\bmax\.", "min."), (r"\band\.b", "or.b"), (r"\bor\.b", "xor.b"), (r"\bxor\.b", "and.b"),
    (r"\bshl\.b", "shr.u"), (r"\bshr\.u", "shr.s"), (r"\bshr\.s", "shr.u"),
    (r"\bdiv\.s", "rem.s"), (r"\brem\.s", "div.s"), (r"\brem\.u", "div.u"),
    (r"\bmul\.lo", "mul.hi"), (r"\bmul\.wide\.s", "mul.wide.u"), (r"\bmul\.wide\.u", "mul.wide.s"),
    (r"\.rn\.f32", ".rz.f32"), (r"\.bfly\.", ".down."), (r"\.down\.", ".up."), (r"\.up\.", ".idx."),
    (r"\bcvt\.s64\.s32", "cvt.u64.u32"), (r"\bcvt\.u64\.u32", "cvt.s64.s32"),
    (r"\bcvt\.rn\.", "cvt.rz."), (r"\bld\.global\.s8", "ld.global.u8"),
    (r"\bld\.shared\.s8", "ld.shared.u8"), (r"\batom\.(\w+)\.add\.u32", r"atom.\1.max.u32"),
    (r"\bred\.(\w+)\.add\.u32", r"red.\1.or.b32"), (r"\.ballot\.", ".any."),
    (r"\bex2\.", "lg2."), (r"\bneg\.", "abs."), (r"\bclz\.", "popc."),
)  # fmt: skip
_NOT_DROPPED = re.compile(r"(ret|bra|exit|brx|call|ld\.param|cvta|mov\.b64|\})")


class Edit(NamedTuple):
    """What was done: the kind, the line of the PTX (from 1), and the statement before and after."""

    kind: str
    line: int
    before: str
    after: str


class Statement(NamedTuple):
    """One statement of a kernel."""

    line: int
    indent: str
    guard: str
    opcode: str
    gap: str
    operands: tuple[str, ...]

    @property
    def base(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    def text(self) -> str:
        """The line."""
        operands = ", ".join(self.operands)
        return f"{self.indent}{self.guard}{self.opcode}{self.gap}{operands};"

    def with_operand(self, place: int, text: str) -> Statement:
        """The same with another operand."""
        operands = (*self.operands[:place], text, *self.operands[place + 1 :])
        return self._replace(operands=operands)


Change = Callable[[Statement, random.Random, "list[Statement]"], "Statement | None"]
Kind = tuple[Change, int]


def statements(ptx: str) -> list[Statement]:
    """The statements of all functions, in order; declarations and labels are left out."""
    out = []
    for number, line in enumerate(ptx.split("\n"), 1):
        found = _STATEMENT.fullmatch(line)
        if found and not found[3].startswith("."):
            operands = tuple(_BETWEEN.split(found[5]))
            out.append(Statement(number, found[1], found[2] or "", found[3], found[4], operands))
    return out


def _near(value: int, rng: random.Random) -> int:
    return rng.choice([value + 1, value - 1, 2 * value, value // 2, -value, 0, value + 4])


def _numbers(statement: Statement, first: int = 1) -> list[int]:
    """The operands from `first` on that are a whole number."""
    found = enumerate(statement.operands)
    return [at for at, text in found if at >= first and _INTEGER.fullmatch(text)]


def constant(one: Statement, rng: random.Random, _all: list[Statement]) -> Statement | None:
    """Another number in arithmetic, or another bit of a float."""
    if one.base not in _ARITHMETIC:
        return None
    floats = [at for at, text in enumerate(one.operands) if at and _FLOAT.fullmatch(text)]
    places = _numbers(one)
    if not places and not floats:
        return None
    at = rng.choice([*places, *floats])
    text = one.operands[at]
    if at in floats:
        digits = len(text) - 2
        bits = int(text[2:], 16) ^ 1 << rng.randrange(digits * 4)
        return one.with_operand(at, f"{text[:2]}{bits:0{digits}X}")
    return one.with_operand(at, str(_near(int(text), rng)))


def bound(one: Statement, rng: random.Random, _all: list[Statement]) -> Statement | None:
    """A comparison off by one, or one that takes its limit in or leaves it out."""
    if one.base != "setp":
        return None
    places = _numbers(one)
    if places and rng.random() < 0.5:
        value = int(one.operands[places[0]])
        return one.with_operand(places[0], str(value + rng.choice([-1, 1])))
    parts = one.opcode.split(".")
    parts[1] = _COMPARISONS.get(parts[1], parts[1])
    return one._replace(opcode=".".join(parts))


def stride(one: Statement, rng: random.Random, _all: list[Statement]) -> Statement | None:
    """Another factor of an index, or another offset of an address."""
    if one.base in ("mul", "mad", "shl") and (places := _numbers(one)):
        value = int(one.operands[places[0]])
        by = [value + 1, value - 1] if one.base == "shl" else [2 * value, value // 2, value + 4]
        return one.with_operand(places[0], str(rng.choice(by)))
    for at, text in enumerate(one.operands):
        if found := re.fullmatch(r"\[([^]+]+)\+(-?\d+)\]", text):
            offset = int(found[2]) + rng.choice([-16, -4, 4, 8, 16, 64, int(found[2])])
            return one.with_operand(at, f"[{found[1]}+{offset}]")
    return None


def barrier(one: Statement, rng: random.Random, _all: list[Statement]) -> Statement | None:
    """No barrier, fence or wait; or a wait for fewer copies."""
    if not _SYNCHRONISING.match(one.opcode):
        return None
    if "wait_group" in one.opcode and rng.random() < 0.5:
        return one.with_operand(0, str(int(one.operands[0]) + 1))
    return one._replace(opcode="", operands=())


def swap(one: Statement, rng: random.Random, _all: list[Statement]) -> Statement | None:
    """Two operands in the wrong order."""
    kinds = {at: _REGISTER.fullmatch(text) for at, text in enumerate(one.operands) if at}
    pairs = [
        (a, b) for a, x in kinds.items() for b, y in kinds.items()
        if a < b and x and y and x[1] == y[1] and x[0] != y[0]
    ]  # fmt: skip
    if one.base not in _ORDERED or not pairs:
        return None
    a, b = rng.choice(pairs)
    return one.with_operand(a, one.operands[b]).with_operand(b, one.operands[a])


def index(one: Statement, rng: random.Random, every: list[Statement]) -> Statement | None:
    """Another variable of the same type, one that was written shortly before."""
    found = [
        (at, each)
        for at, text in enumerate(one.operands)
        if at or one.base in ("st", "red")
        for each in _REGISTER.finditer(text)
    ]
    if not found or one.base in ("bra", "ret", "call"):
        return None
    at, which = rng.choice(found)
    kind = re.compile(rf"%{which[1]}\d+")
    place = every.index(one)
    others = {
        each.operands[0] for each in every[max(0, place - 60) : place]
        if each.operands and kind.fullmatch(each.operands[0])
    } - {which[0]}  # fmt: skip
    if not others:
        return None
    text = one.operands[at]
    other = rng.choice(sorted(others))
    return one.with_operand(at, text[: which.start()] + other + text[which.end() :])


def axis(one: Statement, rng: random.Random, _all: list[Statement]) -> Statement | None:
    """Another axis or extent of threads and blocks."""
    for at, text in enumerate(one.operands):
        if found := re.fullmatch(r"%(tid|ctaid|ntid|nctaid)\.([xyz])", text):
            other = rng.choice([a for a in "xyz" if a != found[2]])
            names = {"tid": "ctaid", "ctaid": "tid", "ntid": "nctaid", "nctaid": "ntid"}
            new = f"%{names[found[1]]}.{found[2]}" if rng.random() < 0.3 else f"%{found[1]}.{other}"
            return one.with_operand(at, new)
    return None


def guard(one: Statement, rng: random.Random, _all: list[Statement]) -> Statement | None:
    """A condition turned round, or none."""
    if not one.guard:
        return None
    if one.base != "bra" and rng.random() < 0.3:
        return one._replace(guard="")
    turned = one.guard.replace("@!", "@") if "@!" in one.guard else one.guard.replace("@", "@!")
    return one._replace(guard=turned)


def operation(one: Statement, rng: random.Random, _all: list[Statement]) -> Statement | None:
    """A related operation."""
    fits = [(old, new) for old, new in _OPCODES if re.search(old, one.opcode)]
    if not fits:
        return None
    old, new = rng.choice(fits)
    return one._replace(opcode=re.sub(old, new, one.opcode, count=1))


def dropped(one: Statement, _rng: random.Random, _all: list[Statement]) -> Statement | None:
    """No such statement."""
    if _NOT_DROPPED.match(one.opcode) or _SYNCHRONISING.match(one.opcode):
        return None
    return one._replace(opcode="", operands=())


def copy(one: Statement, rng: random.Random, _all: list[Statement]) -> Statement | None:
    """A ``cp.async`` elsewhere, of fewer bytes or none; a wait for fewer groups, or none."""
    if not one.opcode.startswith("cp.async"):
        return None
    if "wait" in one.opcode or "commit" in one.opcode or "mbarrier" in one.opcode:
        if "wait_group" in one.opcode and rng.random() < 0.7:
            return one.with_operand(0, str(int(one.operands[0]) + rng.choice([1, 1, 2])))
        return one._replace(opcode="", operands=())
    if rng.random() < 0.3:
        return one._replace(opcode="", operands=())
    if len(one.operands) == 3 and rng.random() < 0.3:
        return one._replace(operands=(*one.operands, str(int(one.operands[2]) // 2)))
    place = rng.choice([0, 0, 1])
    found = re.fullmatch(r"\[([^]+]+)(?:\+(-?\d+))?\]", one.operands[place])
    if found is None:
        return None
    offset = int(found[2] or 0) + int(one.operands[2]) * rng.choice([-1, 1, 2, 32, 64])
    return one.with_operand(place, f"[{found[1]}+{offset}]")


def atomic(one: Statement, rng: random.Random, _all: list[Statement]) -> Statement | None:
    """A plain store or load in place of an atomic, another operation, or none."""
    parts = one.opcode.split(".")
    if one.base not in ("atom", "red") or parts[-1] not in ("u32", "s32", "b32", "f32", "u64"):
        return None
    if rng.random() < 0.15:
        return one._replace(opcode="", operands=())
    space = next((part for part in parts if part in ("global", "shared")), "")
    where = f".{space}" if space else ""
    if rng.random() < 0.5 and "cas" not in parts:
        if one.base == "red":
            return one._replace(opcode=f"st{where}.{parts[-1]}")
        return one._replace(opcode=f"ld{where}.{parts[-1]}", operands=one.operands[:2])
    if "add" in parts and parts[-1] in ("u32", "s32"):
        return one._replace(opcode=one.opcode.replace("add", rng.choice(["min", "max"])))
    return None


#: Kind -> the edit and how often it is chosen.
KINDS: dict[str, Kind] = {
    "constant": (constant, 16), "bound": (bound, 16), "stride": (stride, 16),
    "barrier": (barrier, 24), "swap": (swap, 10), "index": (index, 12), "axis": (axis, 5),
    "guard": (guard, 8), "operation": (operation, 12), "dropped": (dropped, 6),
}  # fmt: skip
#: The same for mutants of copies and atomics.
IN_FLIGHT: dict[str, Kind] = {
    **KINDS,
    "copy": (copy, 60),
    "atomic": (atomic, 60),
    "barrier": (barrier, 60),
}


def mutate(ptx: str, rng: random.Random, kinds: Mapping[str, Kind] = KINDS) -> tuple[str, Edit]:
    """One edit of one statement, of the kinds that are given.

    Raises:
        ValueError: there is nothing to change.
    """
    every = statements(ptx)
    lines = ptx.split("\n")
    for name in _shuffled(rng, kinds):
        change = kinds[name][0]
        for _ in range(200):
            one = rng.choice(every)
            new = change(one, rng, every)
            if new is None or new == one:
                continue
            after = new.text() if new.opcode else ""
            lines[one.line - 1] = after
            before = " ".join(one.text().split())
            return "\n".join(lines), Edit(name, one.line, before, " ".join(after.split()))
    raise ValueError("no statement of this PTX can be changed")


def _shuffled(rng: random.Random, kinds: Mapping[str, Kind]) -> Iterable[str]:
    """All kinds, those with more weight mostly earlier."""
    keyed = {name: rng.random() ** (1 / weight) for name, (_, weight) in kinds.items()}
    return sorted(keyed, key=lambda name: -keyed[name])
