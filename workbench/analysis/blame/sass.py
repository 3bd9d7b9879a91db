"""SASS text to operations: what an instruction reads, writes, and where it branches to.

The text is what ``nvdisasm`` and ncu write: ``@!P0 LDG.E.128 R4, desc[UR6][R2.64+0x10]``. The
opcodes are those of NVIDIA's list (https://docs.nvidia.com/cuda/cuda-binary-utilities/
#instruction-set-reference); how wide an operand is follows from an opcode's modifiers, since
the text names the first register of a group alone. Control codes are not part of the text.

Registers are numbers: ``R0``-``R254`` from `GENERAL`, ``UR0``-``UR254`` from `UNIFORM`,
``P0``-``P6`` from `PREDICATE`, ``UP0``-``UP6`` from `UNIFORM_PREDICATE`. ``RZ`` and ``PT`` are
constants and no registers.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

GENERAL, UNIFORM, PREDICATE, UNIFORM_PREDICATE = 0, 256, 512, 528
_BASES = {"R": GENERAL, "UR": UNIFORM, "P": PREDICATE, "UP": UNIFORM_PREDICATE}

_LINE = re.compile(r"\s*(?:@!?(U?P)(\d|T)\s+)?([A-Z][A-Z0-9_]*)((?:\.\w+)*)\s*(.*?)\s*;?\s*$")
_REGISTER = re.compile(r"(?<![\w.])(UR|UP|R|P)(\d+)(\.64)?(?![\w])")
#: A plain register operand, which an instruction may write to.
_PLAIN = re.compile(r"(UR|UP|R|P)(\d+|Z|T)(?:\.(?:64|reuse|UPR|H\d_H\d))*$")
_TARGET = re.compile(r"\b0x([0-9a-f]+)\s*\)?$")
_TILE = re.compile(r"\.(\d+)x(\d+)x\d+")

_BRANCHES = frozenset({"BRA", "JMP", "CALL", "BSSY", "SSY", "PBK", "PCNT", "BRX", "JMX"})
#: Operations that have no result in a register: their first operand is read.
_WITHOUT_RESULT = frozenset(
    """
    BAR BRA BREAK BRX BSSY BSYNC CALL CCTL DEPBAR ERRBAR EXIT FENCE JMP JMX KILL
    LDGDEPBAR LDGSTS MEMBAR NANOSLEEP NOP PREEXIT RED RET ST STAS STG STL STS STSM SUST
    SURED UBLKCP UBLKRED UTMALDG UTMAREDG UTMASTG WARPGROUP WARPSYNC YIELD
    """.split()  # noqa: SIM905
)
_MEMORY = frozenset(
    """
    LD LDG LDGSTS ST STG ATOM ATOMG RED LDS STS LDSM STSM LDL STL ATOMS LDC ULDC
    """.split()  # noqa: SIM905
)
_GLOBAL = frozenset({"LD", "LDG", "ST", "STG", "ATOM", "ATOMG", "RED", "LDGSTS"})
_DOUBLE = frozenset({"DADD", "DFMA", "DMUL", "DSETP", "DMNMX"})
#: Registers of the operands (result, A, B, C) of a warp-wide product, by opcode and shape.
_PRODUCTS = {
    "HMMA.16816": (4, 4, 2, 4),
    "HMMA.1688": (4, 2, 1, 4),
    "HMMA.1688.TF32": (4, 4, 2, 4),
    "HMMA.1684": (4, 2, 1, 4),
    "HMMA.884": (8, 2, 2, 8),
    "IMMA.16832": (4, 4, 2, 4),
    "IMMA.16816": (4, 2, 1, 4),
    "IMMA.16864": (4, 4, 2, 4),
    "IMMA.8816": (2, 1, 1, 2),
    "DMMA.884": (4, 2, 2, 4),
}


class MachineOp(NamedTuple):
    """One instruction. `opcode` is without modifiers, `name` with them.

    `guard` is the predicate register that decides whether it runs (None: it always does),
    `writes` and `reads` are register numbers, the guard among the latter; `target` is the
    address that it names, as written. `opcode` is empty where the text is no SASS.
    """

    opcode: str
    name: str
    guard: int | None
    writes: tuple[int, ...]
    reads: tuple[int, ...]
    target: int | None
    operands: str

    @property
    def conditional(self) -> bool:
        """Whether it may not run (``@PT`` always runs, ``@!PT`` never)."""
        return self.guard is not None


NOTHING = MachineOp("", "", None, (), (), None, "")


def register_name(number: int) -> str:
    """``R12``, ``UR4``, ``P0``, ``UP1``."""
    for letter, base in sorted(_BASES.items(), key=lambda item: -item[1]):
        if number >= base:
            return f"{letter}{number - base}"
    raise ValueError(number)


def forget() -> None:
    """Drop what was parsed, so that a measurement begins afresh."""
    parse.cache_clear()
    _operand.cache_clear()


class _Mention(NamedTuple):
    """A register in an operand: `pair` is written as two, `address` stands in brackets."""

    first: int
    letter: str
    pair: bool
    address: bool


class _Operand(NamedTuple):
    """`plain` is ``R`` or ``P`` for a register alone, which may be written to."""

    plain: str
    mentions: tuple[_Mention, ...]


@lru_cache(maxsize=1 << 14)
def _operand(text: str) -> _Operand:
    """An operand; kernels write the same few hundred again and again."""
    if text in ("PR", "UPR"):
        base = PREDICATE if text == "PR" else UNIFORM_PREDICATE
        return _Operand("P", tuple(_Mention(base + n, "P", False, False) for n in range(7)))
    plain = ""
    if _PLAIN.match(text):
        plain = "P" if text.startswith(("P", "UP")) else "R"
    inside = text.find("[")
    described = text.startswith(("desc[", "gdesc["))
    return _Operand(
        plain,
        tuple(
            _Mention(
                first=_BASES[found.group(1)] + int(found.group(2)),
                letter=found.group(1),
                pair=bool(found.group(3)) or (described and found.group(1) == "UR"),
                address=0 <= inside < found.start(),
            )
            for found in _REGISTER.finditer(text)
        ),
    )


@lru_cache(maxsize=1 << 15)
def parse(text: str) -> MachineOp:
    """The operation of a line of SASS; `NOTHING` where the text is none."""
    match = _LINE.match(text)
    if match is None:
        return NOTHING
    kind, number, opcode, modifiers, rest = match.groups()
    guard = _BASES[kind] + int(number) if kind and number != "T" else None
    target = None
    if opcode in _BRANCHES:
        found = _TARGET.search(rest)
        target = int(found.group(1), 16) if found else None
    operands = [_operand(operand.strip()) for operand in rest.split(",")] if rest else []
    count = 0 if opcode in _WITHOUT_RESULT else _results(opcode, operands)
    widths = _widths(opcode, modifiers, len(operands), count)
    # ``.E``: an address of 64 bits; the first one of LDGSTS is in shared memory.
    far = opcode in _GLOBAL and ".E" in modifiers
    writes: list[int] = []
    reads: list[int] = [guard] if guard is not None else []
    for position, operand in enumerate(operands):
        into = writes if position < count else reads
        for first, letter, pair, address in operand.mentions:
            if letter in ("P", "UP"):
                into.append(first)
            elif address:
                wide = far and letter == "R" and not (opcode == "LDGSTS" and position == 0)
                reads.extend((first, first + 1) if pair or wide else (first,))
            else:
                into.extend(range(first, first + (2 if pair else widths.get(position, 1))))
    return MachineOp(opcode, opcode + modifiers, guard, tuple(writes), tuple(reads), target, rest)


def _results(opcode: str, operands: list[_Operand]) -> int:
    """How many of the leading operands are written to."""
    kinds = [operand.plain for operand in operands]
    if not kinds or not kinds[0]:
        return 0
    behind = kinds[1] if len(kinds) > 1 else ""
    if "SETP" in opcode or opcode in ("PLOP3", "UPLOP3"):
        return 1 + bool(behind)
    if kinds[0] == "P":
        # A predicate, and behind it the register: SHFL, ATOMG, LOP3, R2UR …
        return 1 + (behind == "R" and opcode not in ("R2P", "SYNCS"))
    if opcode in ("P2R", "UP2UR", "SEL", "USEL", "FSEL"):
        return 1
    # Carries go out into the predicates right behind the result.
    count = 1
    while count < min(3, len(kinds)) and kinds[count] == "P":
        count += 1
    return count if count < len(kinds) else 1


def _widths(opcode: str, modifiers: str, operands: int, results: int) -> dict[int, int]:
    """Position -> registers, for the operands that take more than one."""
    if opcode in _MEMORY:
        width = 4 if ".128" in modifiers else 2 if ".64" in modifiers else 1
        if opcode in ("LDSM", "STSM"):
            width = int(modifiers[-1]) if modifiers[-2:] in (".2", ".4") else 1
        return dict.fromkeys(range(operands), width) if width > 1 else {}
    if opcode in _DOUBLE:
        return dict.fromkeys(range(operands), 2)
    if opcode.endswith(("MMA", "GMMA")) and opcode != "HFMA2":
        return _product(opcode, modifiers)
    if opcode in ("IMAD", "UIMAD") and ".WIDE" in modifiers:
        return {0: 2, results + 2: 2}
    if opcode in ("CS2R", "I2F", "F2F", "F2I") and ".32" not in modifiers:
        wide = opcode == "CS2R" or ".F64" in modifiers or ".S64" in modifiers or ".U64" in modifiers
        return {0: 2} if wide else {}
    return {}


def _product(opcode: str, modifiers: str) -> dict[int, int]:
    tile = _TILE.search(modifiers)
    if tile is not None:
        # A warpgroup of 128 threads holds the 64 × n results.
        count = int(tile.group(1)) * int(tile.group(2)) // 128
        return {0: count if ".F32" in modifiers or "IGMMA" in opcode else max(1, count // 2)}
    key = f"{opcode}.{modifiers[1:].split('.')[0]}"
    if ".TF32" in modifiers and f"{key}.TF32" in _PRODUCTS:
        key += ".TF32"
    shape = list(_PRODUCTS.get(key, (4, 4, 2, 4)))
    if opcode == "HMMA" and ".F32" not in modifiers and shape[0] > 1:
        shape[0] = shape[3] = shape[0] // 2
    return dict(enumerate(shape))
