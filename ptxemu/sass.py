"""Machine code: a cubin's instructions, their source lines, and the accesses of PTX in it."""

from __future__ import annotations

import io
import math
import posixpath
import struct
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from ptxemu.callers import Foreign, shipped

# --- The bits of machine instructions that give their kind and their target ---
# An instruction is 128 bits since compute capability 7.0. These are read here: the opcode (the
# lowest nine; three more mark constant operands), the guard, the target of a branch, and the width
# and offset of an access. They were derived from Nsight Compute's names in 57,809 recorded
# instructions for 9.0, where each number has one name (except two kinds of barrier for errors), and
# compared with ``nvdisasm`` on some 2,000 each of 7.5, 8.0, 8.6, 8.9, 9.0, 10.0 and 12.0.

#: Bytes of an instruction.
SIZE = 16
_ALWAYS = 7  # the predicate that is true
_SPLIT_SINCE = 90

BSYNC, CALL, BRA, BRX, JMP, EXIT, RET = 0x141, 0x144, 0x147, 0x149, 0x14A, 0x14D, 0x150
CALL_AWAY = 0x143  # to an address, like `printf`'s
#: Opcodes that may run ahead of time, or only in part: weaker evidence of their block's executions.
_ARITHMETIC = {
    0x009: ("min", "max"), 0x020: ("mul",), 0x021: ("add", "sub"), 0x023: ("fma",),
    0x028: ("mul",), 0x029: ("add", "sub"), 0x02B: ("fma",), 0x031: ("fma",),
    0x108: ("ex2", "lg2", "sin", "cos", "rsqrt", "rcp", "sqrt", "tanh"), 0x109: ("popc",),
}  # fmt: skip
_ATOMICS = ("atom", "red")
_PRODUCTS = ("mma", "wgmma")
#: Machine opcode -> the PTX opcodes that each become exactly one such instruction.
_EFFECTS = {
    0x03B: ("ldmatrix",), 0x03C: _PRODUCTS, 0x037: _PRODUCTS, 0x03F: _PRODUCTS,
    0x180: ("ld",), 0x181: ("ld",), 0x183: ("ld",), 0x184: ("ld",),
    0x185: ("st",), 0x186: ("st",), 0x187: ("st",), 0x188: ("st",),
    0x18A: _ATOMICS, 0x18B: _ATOMICS, 0x18C: _ATOMICS, 0x18D: _ATOMICS, 0x18E: _ATOMICS,
    0x1A6: _ATOMICS, 0x1A8: _ATOMICS, 0x1A9: _ATOMICS,
    0x11D: ("bar", "barrier"), 0x189: ("shfl",), 0x006: ("vote",), 0x1A1: ("match",),
    0x1C4: ("redux",), 0x1AE: ("cp",), 0x1AF: ("cp",),
}  # fmt: skip
#: Opcodes of which a `wmma` access or product becomes several.
_FRAGMENTS = (0x037, 0x03B, 0x03C, 0x03F, 0x180, 0x181, 0x184, 0x185, 0x186, 0x188)
#: Opcodes that move data, and have a width.
_LOADS, _STORES = (0x180, 0x181, 0x183, 0x184), (0x185, 0x186, 0x187, 0x188)
_WIDTHS = (1, 1, 2, 2, 4, 8, 16)


class Sign(Enum):
    """The strength of an instruction as evidence of its PTX's executions."""

    EFFECT = 0  # it runs once for each PTX execution: an access, a barrier, a product
    ARITHMETIC = 1  # likewise, but it may be moved, or run in advance
    FRAGMENT = 2  # one of several from a `wmma`
    NONE = 3


@dataclass(frozen=True, slots=True)
class MachineInstr:
    """A machine instruction."""

    opcode: int  # the lowest nine bits
    guarded: bool  # whether it has a predicate
    conditional: bool  # whether the next instruction may follow; for those that end a block
    target: int  # number of the target instruction of a branch or call; -1: none
    apart: bool  # whether its target is only for warps whose lanes have diverged (``BRA.DIV``)
    width: int  # bytes per thread that an access moves; 0: none, or unknown
    offset: int  # bytes added to the address of an access
    ptx_line: int  # 1-based line of its PTX; 0: unknown
    file: str  # path of the source
    line: int  # 1-based line there; 0: unknown

    @property
    def ends(self) -> bool:
        """True if the next instruction need not follow it."""
        return self.opcode in (BRA, BRX, JMP, CALL, EXIT, RET)

    @property
    def moves(self) -> bool:
        """True for a load or a store."""
        return self.opcode in _LOADS or self.opcode in _STORES

    def sign(self, op: str) -> Sign:
        """Its strength as evidence for a PTX instruction with this opcode."""
        if op == "wmma":
            return Sign.FRAGMENT if self.opcode in _FRAGMENTS else Sign.NONE
        if op in _EFFECTS.get(self.opcode, ()):
            return Sign.EFFECT
        return Sign.ARITHMETIC if op in _ARITHMETIC.get(self.opcode, ()) else Sign.NONE


def decode(
    code: bytes, number: int, capability: int, ptx_line: int, file: str, line: int
) -> MachineInstr:
    """One instruction of a function, with its lines; `capability` is 90 for 9.0."""
    word = int.from_bytes(code[SIZE * number : SIZE * (number + 1)], "little")
    opcode, guard = word & 0x1FF, (word >> 12) & 15
    target, apart, conditional = -1, False, guard != _ALWAYS
    if opcode in (BRA, CALL):
        # In units of four bytes; since 9.0 its lowest eight bits are elsewhere.
        ahead = _as_signed((word >> 34) & ((1 << 48) - 1), 48)
        if capability >= _SPLIT_SINCE:
            ahead = ahead << 8 | (word >> 16) & 0xFF
        target = number + 1 + ahead // 4
        way = (word >> 82) & 0x3FF  # a second predicate, uniform ones, and .DIV
        apart = opcode == BRA and bool(way & 0x200)
        conditional = conditional or (opcode == BRA and way != _ALWAYS << 5)
    width = offset = 0
    if opcode in _LOADS or opcode in _STORES:
        kind = (word >> 73) & 7
        width = _WIDTHS[kind] if kind < len(_WIDTHS) else 0
        offset = _as_signed((word >> 40) & ((1 << 24) - 1), 24)
    return MachineInstr(
        opcode, guard != _ALWAYS, conditional, target, apart, width, offset, ptx_line, file, line
    )


def _as_signed(value: int, bits: int) -> int:
    return value - (1 << bits if value >> (bits - 1) else 0)


#: The number of instructions that show whether a function has its own lines.
_ENTRY = 8


def calls_ptx(code: Sequence[MachineInstr], number: int) -> bool:
    """True if an instruction calls a function in the same code that is PTX, like `pow`.

    The routine that ptxas adds for a quotient has one line for all its instructions.
    """
    at = code[number].target
    inside = code[number].opcode == CALL and 0 <= at < len(code)
    return inside and len({each.ptx_line for each in code[at : at + _ENTRY]}) > 1


def routines_of(code: Sequence[MachineInstr]) -> dict[int, tuple[float, bool]]:
    """Line of PTX -> instructions of the routine that it calls, and whether it has one path."""
    found: dict[int, tuple[float, bool]] = {}
    for number, each in enumerate(code):
        if each.opcode not in (CALL, CALL_AWAY) or calls_ptx(code, number):
            continue
        inside = code[each.target :] if 0 <= each.target < len(code) else ()
        length = next((at + 1 for at, one in enumerate(inside) if one.opcode == RET), math.inf)
        straight = length < math.inf and all(one.opcode != BRA for one in inside[: int(length)])
        found[each.ptx_line] = length, straight
    return found


# --- Line tables of a cubin: the source line of the instruction at each address -------
# They are DWARF 2 programs (DWARF Debugging Information Format 2.0, section 6.2). ptxas writes two:
# ``.debug_line`` names lines of the source and ``.nv_debug_line_sass`` lines of the PTX, and adds
# its own extended opcodes, which describe inlining and are skipped here. There is no
# ``.debug_info`` by which DWARF readers find the programs, so they are read one after another.

_VERSION = 2
_END_SEQUENCE, _SET_ADDRESS = 1, 2
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9


@dataclass(frozen=True, slots=True)
class Row:
    """From byte `address` of a function on, instructions come from this line of a file."""

    address: int
    file: str
    line: int


@dataclass(slots=True)
class _LineProgram:
    """One program: its header and its opcodes' rows."""

    data: bytes
    start: int
    functions: Mapping[int, str]
    files: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[tuple[str, Row]]:
        data, at = self.data, self.start
        version, length, step, _, base, span, first = struct.unpack_from("<HIBBbBB", data, at + 4)
        if version != _VERSION:
            raise ValueError(f"a DWARF {version} line table, not {_VERSION}")
        end = at + 4 + struct.unpack_from("<I", data, at)[0]
        operands = data[at + 15 : at + 15 + first - 1]
        self.files = self._names(at + 15 + first - 1)
        at += 10 + length
        function, address, file, line = "", 0, 1, 1
        while at < end:
            opcode = data[at]
            at += 1
            if opcode >= first:
                address += (opcode - first) // span * step
                line += base + (opcode - first) % span
                yield function, self._row(address, file, line)
            elif opcode == 0:
                size, at = _unsigned(data, at)
                if data[at] == _SET_ADDRESS:
                    function = self.functions.get(at + 1, "")
                    address = int.from_bytes(data[at + 1 : at + size], "little")
                elif data[at] == _END_SEQUENCE:
                    function, address, file, line = "", 0, 1, 1
                at += size
            elif opcode == _COPY:
                yield function, self._row(address, file, line)
            elif opcode == _ADVANCE_PC:
                more, at = _unsigned(data, at)
                address += more * step
            elif opcode == _ADVANCE_LINE:
                more, at = _signed(data, at)
                line += more
            elif opcode == _SET_FILE:
                file, at = _unsigned(data, at)
            elif opcode == _CONST_ADD_PC:
                address += (255 - first) // span * step
            elif opcode == _FIXED_ADVANCE_PC:
                address += int.from_bytes(data[at : at + 2], "little")
                at += 2
            else:
                for _ in range(operands[opcode - 1]):
                    _, at = _unsigned(data, at)

    def _row(self, address: int, file: int, line: int) -> Row:
        return Row(address, self.files[file] if file < len(self.files) else "", line)

    def _names(self, at: int) -> list[str]:
        """The files by their numbers, from 1."""
        folders, files = [""], [""]
        while self.data[at]:
            end = self.data.index(0, at)
            folders.append(self.data[at:end].decode("utf-8", "replace"))
            at = end + 1
        at += 1
        while self.data[at]:
            end = self.data.index(0, at)
            name = self.data[at:end].decode("utf-8", "replace")
            folder, at = _unsigned(self.data, end + 1)
            _, at = _unsigned(self.data, at)  # its time of change
            _, at = _unsigned(self.data, at)  # its size
            inside = folders[folder] if folder < len(folders) else ""
            files.append(posixpath.normpath(posixpath.join(inside, name)))
        return files


def line_table(data: bytes, functions: Mapping[int, str]) -> dict[str, list[Row]]:
    """The rows of each function, by address, one per address.

    Of several rows at an address the first counts, as in Nsight Compute: for an inlined call it
    names the caller's line. `functions`: offset of an address in the section of line programs ->
    the function that begins there (its relocations). Raises ValueError, IndexError, struct.error:
    this is not a line table.
    """
    found: dict[str, dict[int, Row]] = {}
    at = 0
    while at + 4 <= len(data):
        for function, row in _LineProgram(data, at, functions).rows():
            found.setdefault(function, {}).setdefault(row.address, row)
        at += 4 + int.from_bytes(data[at : at + 4], "little")
    return {name: [rows[key] for key in sorted(rows)] for name, rows in found.items()}


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A number in LEB128, and the start of the next one."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    start = at
    value, at = _unsigned(data, at)
    bits = 7 * (at - start)
    return value - (1 << bits if value >> (bits - 1) else 0), at


_SOURCE, _PTX = ".debug_line", ".nv_debug_line_sass"
_TEXT = ".text."
_NOWHERE = Row(0, "", 0)

#: Function -> its machine instructions, in their order.
Functions = dict[str, tuple[MachineInstr, ...]]


@lru_cache(maxsize=8)
def functions_of(cubin: bytes, arch: str) -> Functions:
    """The functions of a cubin for an architecture like ``sm_90a``.

    Without ``-lineinfo`` a cubin has no table of PTX lines, so no functions are found. Raises
    ValueError: this is not a cubin, or a damaged one.
    """
    capability, out = int(arch.removeprefix("sm_").rstrip("af")), {}
    with _elf_of(cubin) as elf:
        source, ptx = _table(elf, _SOURCE), _table(elf, _PTX)
        for section in elf.iter_sections():
            name = section.name.removeprefix(_TEXT)
            if name != section.name and name in ptx:
                code = section.data()
                lines = _spread(ptx[name], len(code))
                places = _spread(source.get(name, []), len(code))
                out[name] = tuple(
                    decode(code, number, capability, of.line, at.file, at.line)
                    for number, (of, at) in enumerate(zip(lines, places, strict=True))
                )
    return out


@contextmanager
def _elf_of(cubin: bytes) -> Iterator[ELFFile]:
    """Open a cubin for the block; ValueError: this is not a cubin, or a damaged one."""
    try:
        yield ELFFile(io.BytesIO(cubin))
    except (ELFError, struct.error, IndexError) as error:
        raise ValueError(f"not a cubin: {error}") from error


def source_lines(cubin: bytes) -> dict[str, list[tuple[str, int]]]:
    """File and line for the code of each function, in its order; empty without a line table.

    Raises:
        ValueError: this is not a cubin, or a damaged one.
    """
    with _elf_of(cubin) as elf:
        found = _table(elf, _SOURCE)
    return {name: [(row.file, row.line) for row in rows] for name, rows in found.items()}


def _table(elf: ELFFile, name: str) -> dict[str, list[Row]]:
    section = elf.get_section_by_name(name)
    return {} if section is None else line_table(section.data(), dict(_begins(elf, name)))


def _begins(elf: ELFFile, name: str) -> Iterator[tuple[int, str]]:
    """Offsets in a section that hold a function's address, with its name."""
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection) and section.name.endswith(name):
            symbols = elf.get_section(section["sh_link"])
            assert isinstance(symbols, SymbolTableSection)
            for each in section.iter_relocations():
                yield each["r_offset"], symbols.get_symbol(each["r_info_sym"]).name


def _spread(rows: list[Row], size: int) -> list[Row]:
    """The row of each instruction."""
    starts = [row.address for row in rows]
    places = (bisect_right(starts, at) for at in range(0, size, SIZE))
    return [rows[place - 1] if place else _NOWHERE for place in places]


# --- ptxas's machine code for the accesses of PTX: the line and the width of each ---


class Assembled:
    """The machine code of a module, looked up by lines of its PTX; false if it is unknown.

    `foreign` tests whether a path is that of a header that users do not edit.
    """

    def __init__(self, functions: Functions | None = None, foreign: Foreign = shipped) -> None:
        self._foreign = foreign
        self.functions = functions or {}
        self._made: defaultdict[int, list[MachineInstr]] = defaultdict(list)
        for code in self.functions.values():
            for each in code:
                self._made[each.ptx_line].append(each)

    def __bool__(self) -> bool:
        return bool(self.functions)

    def _of(self, ptx_line: int, op: str) -> Iterator[MachineInstr]:
        for each in self._made.get(ptx_line, ()):
            if each.sign(op) in (Sign.EFFECT, Sign.FRAGMENT):
                yield each

    def place(self, ptx_line: int, op: str) -> tuple[str, int] | None:
        """Path and line to which a profiler assigns an opcode on a line of PTX.

        ptxas moves the line with the instruction, and gives one to instructions without a line in
        PTX. None if it gives none, or names a toolkit's header: then PTX decides.
        """
        found = Counter((each.file, each.line) for each in self._of(ptx_line, op))
        if not found:
            return None
        ((place, _),) = found.most_common(1)
        return None if self._foreign(place[0]) or not place[1] else place

    def near(self, ptx_line: int) -> tuple[str, int] | None:
        """Path and line of most instructions made from a line of PTX; None if there are none."""
        found = Counter((each.file, each.line) for each in self._made.get(ptx_line, ()))
        return found.most_common(1)[0][0] if found else None

    def holds(self, ptx_line: int, op: str, distance: int) -> bool:
        """Test whether a load or store also covers another one, this many bytes further.

        ptxas may give two accesses that it does not join the line of the first.
        """
        offsets = {each.offset for each in self._of(ptx_line, op) if each.moves}
        return any(offset + distance in offsets for offset in offsets)

    def width(self, ptx_line: int, op: str) -> int | None:
        """Bytes per thread that a load or store moves on the machine.

        More than in PTX if ptxas joined it with its neighbours, fewer if only a part is read, 0 if
        another access includes it. None if the code is unknown, or copies of the instruction
        differ, as in a loop in which some iterations are joined.
        """
        if not self:
            return None
        widths = {each.width for each in self._of(ptx_line, op) if each.moves}
        return widths.pop() if len(widths) == 1 else None if widths else 0
