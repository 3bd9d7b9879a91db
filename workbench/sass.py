"""SASS: a table of its opcodes, and a parser of its text.

Each opcode's purpose, its pipe and the waits that it can cause are data (``data/sass.toml``, with
its sources), one row per opcode. An opcode that is not listed counts as an integer operation.
``nvdisasm`` and ncu write the text: ``@!P0 LDG.E.128 R4, desc[UR6][R2.64+0x10]``. It names only the
first register of a group, so the width of an operand follows from the opcode's modifiers. Control
codes are not part of the text.

Registers are numbers: ``R0``-``R254`` from `GENERAL`, ``UR0``-``UR254`` from `UNIFORM`,
``P0``-``P6`` from `PREDICATE`, ``UP0``-``UP6`` from `UNIFORM_PREDICATE`. ``RZ`` and ``PT`` are
constants, not registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import tomli

from workbench.model import Record

Access = Literal["load", "store", "atomic", "copy", "bulk in", "bulk out", ""]
Flow = Literal["jump", "call", "end", "indirect", "label", "meet", ""]


class Opcode(Record, frozen=True):
    """One row; `data/sass.toml` says what the columns mean. `holds` are words from its states."""

    space: Literal["global", "shared", "local", "constant", ""] = ""
    access: Access = ""
    role: str | None = None
    pipe: str = ""
    unit: Literal["tensor half", "tensor int8", ""] = ""
    packed: int = 0
    flow: Flow = ""
    holds: str = ""
    result: bool = True


class _SassFile(Record, frozen=True):
    states: dict[str, str]
    queues: dict[str, str]
    widths: dict[str, int]
    shapes: dict[str, tuple[int, int, int]]
    registers: dict[str, tuple[int, int, int, int]]
    opcodes: dict[str, Opcode]


_TEXT = (Path(__file__).parent / "data/sass.toml").read_text(encoding="utf-8")
_TABLE = msgspec.convert(tomli.loads(_TEXT), _SassFile)
OPCODES: Mapping[str, Opcode] = _TABLE.opcodes
_UNLISTED = Opcode()


def those(condition: Callable[[Opcode], bool]) -> frozenset[str]:
    """The opcodes for which a property holds."""
    return frozenset(name for name, row in OPCODES.items() if condition(row))


#: Warp state (catalog id) -> the opcodes that can cause it.
HOLDING: Mapping[str, frozenset[str]] = {
    state: frozenset(name for name, row in OPCODES.items() if word in row.holds.split())
    for word, state in _TABLE.states.items()
}
#: Asynchronous copies into shared memory.
COPIES = those(lambda row: row.access in ("copy", "bulk in"))
#: Reads and writes of global memory by lanes; an atomic does both.
PRODUCTS = those(lambda row: row.pipe == "tensor")
GLOBAL_LOADS = those(lambda row: row.space == "global" and row.access in ("load", "copy"))
GLOBAL_STORES = those(lambda row: row.space == "global" and row.access == "store")
GLOBAL_ATOMICS = those(lambda row: row.space == "global" and row.access == "atomic")


def pipe(opcode: str) -> str:
    """The arithmetic pipe of an opcode: ``FMA``, ``tensor`` or ``ALU``."""
    known = OPCODES.get(opcode, _UNLISTED).pipe
    return known or ("uniform" if opcode[:1] == "U" else "ALU")


def queue_of(state: str, opcode: str) -> str:
    """The queue or pipe for which a throttled instruction waits; "": not a throttle."""
    if state == "math_pipe_throttle":
        return pipe(opcode)
    return _TABLE.queues.get(state, "")


@lru_cache(maxsize=32)
def fillers(state: str, name: str) -> frozenset[str]:
    """The opcodes that go through the queue (or pipe) of that name."""
    return HOLDING[state] if state in _TABLE.queues else those(lambda row: row.pipe == name)


def matrix_product(opcode: str) -> bool:
    """Test whether an opcode multiplies matrices."""
    return opcode.endswith("MMA")


GENERAL, UNIFORM, PREDICATE, UNIFORM_PREDICATE = 0, 256, 512, 528
_BASES = {"R": GENERAL, "UR": UNIFORM, "P": PREDICATE, "UP": UNIFORM_PREDICATE}

_NAME = re.compile(r"\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)((?:\.[A-Za-z0-9_]+)*)")
_LINE = re.compile(r"\s*(?:@!?(U?P)(\d|T)\s+)?([A-Z][A-Z0-9_]*)((?:\.\w+)*)\s*(.*?)\s*;?\s*$")
_REGISTER = re.compile(r"(?<![\w.])(UR|UP|R|P)(\d+)(\.64)?(?![\w])")
#: A plain register operand, to which an instruction may write.
_PLAIN = re.compile(r"(UR|UP|R|P)(\d+|Z|T)(?:\.(?:64|reuse|UPR|H\d_H\d))*$")
_TARGET = re.compile(r"\b0x([0-9a-f]+)\s*\)?$")
#: Opcodes whose text names an address.
_NAMING = frozenset({"jump", "call", "label"})
_TILE = re.compile(r"\.(\d+)x(\d+)x\d+")


class SassOp(NamedTuple):
    """One instruction. `opcode` is without modifiers, `name` with them.

    `guard` is the predicate register that decides whether it runs (None: it always does),
    `writes` and `reads` are register numbers, the guard among the latter; `target` is the
    address that it names, as written. `opcode` is empty if the text is not SASS.
    """

    opcode: str
    name: str
    guard: int | None
    writes: tuple[int, ...]
    reads: tuple[int, ...]
    target: int | None
    operands: str

    @property
    def flow(self) -> Flow:
        """Its effect on the flow of control."""
        return OPCODES.get(self.opcode, _UNLISTED).flow

    @property
    def conditional(self) -> bool:
        """True if it may not run (``@PT`` always runs, ``@!PT`` never)."""
        return self.guard is not None


NOTHING = SassOp("", "", None, (), (), None, "")


def register_name(number: int) -> str:
    """``R12``, ``UR4``, ``P0``, ``UP1``."""
    for letter, base in sorted(_BASES.items(), key=lambda item: -item[1]):
        if number >= base:
            return f"{letter}{number - base}"
    raise ValueError(number)


class _Mention(NamedTuple):
    """A register in an operand. `pair`: written as two; `address`: in brackets."""

    first: int
    letter: str
    pair: bool
    address: bool


class _Operand(NamedTuple):
    """`plain` is ``R`` or ``P`` for a bare register, which may be written."""

    plain: str
    mentions: tuple[_Mention, ...]


@lru_cache(maxsize=1 << 14)
def _operand(text: str) -> _Operand:
    """Parse an operand; cached, because kernels repeat the same few hundred."""
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
def parse(text: str) -> SassOp:
    """The operation of a line of SASS; `NOTHING` for other text."""
    match = _LINE.match(text)
    if match is None:
        return NOTHING
    kind, number, opcode, modifiers, rest = match.groups()
    row = OPCODES.get(opcode, _UNLISTED)
    guard = _BASES[kind] + int(number) if kind and number != "T" else None
    target = None
    if row.flow in _NAMING:
        found = _TARGET.search(rest)
        target = int(found.group(1), 16) if found else None
    operands = [_operand(operand.strip()) for operand in rest.split(",")] if rest else []
    count = _results(opcode, operands) if row.result else 0
    widths = _widths(opcode, modifiers, len(operands), count)
    # ``.E``: an address of 64 bits; the first address of LDGSTS is in shared memory.
    far = row.space == "global" and ".E" in modifiers
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
    return SassOp(opcode, opcode + modifiers, guard, tuple(writes), tuple(reads), target, rest)


def _results(opcode: str, operands: list[_Operand]) -> int:
    """Count the leading operands that are written."""
    kinds = [operand.plain for operand in operands]
    if not kinds or not kinds[0]:
        return 0
    behind = kinds[1] if len(kinds) > 1 else ""
    if "SETP" in opcode or opcode in ("PLOP3", "UPLOP3"):
        return 1 + bool(behind)
    if kinds[0] == "P":
        # A predicate, then the register: SHFL, ATOMG, LOP3, R2UR …
        return 1 + (behind == "R" and opcode not in ("R2P", "SYNCS"))
    if opcode in ("P2R", "UP2UR", "SEL", "USEL", "FSEL"):
        return 1
    # Carries are written to the predicates right after the result.
    count = 1
    while count < min(3, len(kinds)) and kinds[count] == "P":
        count += 1
    return count if count < len(kinds) else 1


def _widths(opcode: str, modifiers: str, operands: int, results: int) -> dict[int, int]:
    """Position -> number of registers, for the operands that take more than one."""
    row = OPCODES.get(opcode, _UNLISTED)
    if row.space:
        width = 4 if ".128" in modifiers else 2 if ".64" in modifiers else 1
        if opcode in ("LDSM", "STSM"):
            width = int(modifiers[-1]) if modifiers[-2:] in (".2", ".4") else 1
        return dict.fromkeys(range(operands), width) if width > 1 else {}
    if row.pipe == "FP64":
        return dict.fromkeys(range(operands), 2)
    if matrix_product(opcode):
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
    if ".TF32" in modifiers and f"{key}.TF32" in _TABLE.registers:
        key += ".TF32"
    result, a, b, c = _TABLE.registers.get(key, (4, 4, 2, 4))
    if opcode == "HMMA" and ".F32" not in modifiers:
        result = c = result // 2
    return {0: result, 1: a, 2: b, 3: c}


#: Modifiers that give an access's width or path.
_WIDTHS = frozenset({"8", "16", "64", "128", "U8", "S8", "U16", "S16", "M88", "2", "4", "BYPASS"})
_WORD = 4
#: Warpgroup products write MxNxK; each of the group's four warps executes the instruction.
_GROUP_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)\Z")
_WARPS_OF_A_GROUP = 4


@lru_cache(maxsize=1 << 14)
def shape(operation: SassOp) -> str:
    """The opcode with its amount of work: ``LDS.128``, ``HMMA.16816.F32``."""
    row = OPCODES.get(operation.opcode, _UNLISTED)
    if row.space and row.access != "atomic":
        parts = operation.name.split(".")[1:]
        return ".".join([operation.opcode, *(part for part in parts if part in _WIDTHS)])
    if matrix_product(operation.opcode) or operation.opcode in ("MUFU", "IDP"):
        return operation.name
    if operation.name.startswith(("IMAD.MOV", "IMAD.WIDE")):
        return ".".join(operation.name.split(".")[:2])
    return operation.opcode


@lru_cache(maxsize=1 << 14)
def role(operation: SassOp) -> str:
    """Return an instruction's purpose: ``shared load``, ``product``, ``integer`` or another."""
    if operation.name.startswith(("IMAD.MOV", "HFMA2.MMA")) and "RZ" in operation.operands:
        return "move"
    # A matrix product replaces products of numbers.
    if matrix_product(operation.opcode):
        return "product"
    row = OPCODES.get(operation.opcode, _UNLISTED)
    if row.role is not None:
        return row.role or "other"
    # An asynchronous copy replaces the store that filled shared memory.
    if operation.opcode in COPIES:
        return "shared store"
    if row.access == "atomic":
        return "atomic"
    if row.space:
        return "local memory" if row.space == "local" else f"{row.space} {row.access}"
    return "integer"


@lru_cache(maxsize=1 << 15)
def opcode_of(text: str) -> tuple[str, frozenset[str]]:
    """Opcode and modifiers of a line of SASS; "" for other text."""
    found = _NAME.match(text)
    return (found[1], frozenset(found[2].split("."))) if found else ("", frozenset())


def lane_width(modifiers: Iterable[str]) -> int:
    """Bytes of a lane's access, by the opcode's modifiers: 16 for ``LDG.E.128``."""
    return next((_TABLE.widths[part] for part in modifiers if part in _TABLE.widths), _WORD)


def product_operations(modifiers: Iterable[str]) -> float:
    """Compute the operations of a warp's matrix product from its shape; 0 if unknown.

    ``HMMA.16816.F32`` multiplies 16×16 by 16×8: 2·16·8·16.
    """
    operations = 0.0
    for modifier in modifiers:
        group = _GROUP_SHAPE.match(modifier)
        if modifier in _TABLE.shapes:
            m, n, k = _TABLE.shapes[modifier]
            operations = 2.0 * m * n * k
        elif group:
            m, n, k = map(int, group.groups())
            operations = 2.0 * m * n * k / _WARPS_OF_A_GROUP
    return operations
