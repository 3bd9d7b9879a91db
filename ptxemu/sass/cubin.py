"""A cubin as the machine instructions of its functions, each with the lines it comes from."""

from __future__ import annotations

import io
import posixpath
import struct
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from ptxemu.callers import Foreign, shipped
from ptxemu.sass.opcodes import SIZE, MachineInstr, Sign, decode

# --- Line tables of a cubin: address by address, which line an instruction comes from ---
# They are DWARF 2 programs (DWARF Debugging Information Format 2.0, section 6.2). ptxas writes two:
# ``.debug_line`` names lines of the source and ``.nv_debug_line_sass`` lines of the PTX, and adds
# extended opcodes of its own, which say what was inlined and are passed over here. There is no
# ``.debug_info`` from which readers of DWARF find the programs, so they are read one after another.

_VERSION = 2
_END_SEQUENCE, _SET_ADDRESS = 1, 2
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9


@dataclass(frozen=True, slots=True)
class Row:
    """From `address` of a function on, in bytes, instructions come from a line of a file."""

    address: int
    file: str
    line: int


@dataclass(slots=True)
class _LineProgram:
    """One program: its header, and what its opcodes say."""

    data: bytes
    start: int
    functions: Mapping[int, str]
    files: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Each row with its function."""
        data, at = self.data, self.start
        version, length, step, _, base, span, first = struct.unpack_from("<HIBBbBB", data, at + 4)
        if version != _VERSION:
            raise ValueError(f"a line table of DWARF {version}, not {_VERSION}")
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
        """The files that numbers mean, from 1 on."""
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
            _, at = _unsigned(self.data, at)  # when it was changed
            _, at = _unsigned(self.data, at)  # its size
            inside = folders[folder] if folder < len(folders) else ""
            files.append(posixpath.normpath(posixpath.join(inside, name)))
        return files


def line_table(data: bytes, functions: Mapping[int, str]) -> dict[str, list[Row]]:
    """The rows of each function, by address, one an address.

    Of several rows at an address the first counts, as in Nsight Compute: where a call was inlined
    it names the caller's line.

    Args:
        data: A section of line programs.
        functions: Offset of an address in it -> the function that begins there (its relocations).

    Raises:
        ValueError, IndexError, struct.error: this is no line table.
    """
    found: dict[str, dict[int, Row]] = {}
    at = 0
    while at + 4 <= len(data):
        for function, row in _LineProgram(data, at, functions).rows():
            found.setdefault(function, {}).setdefault(row.address, row)
        at += 4 + int.from_bytes(data[at : at + 4], "little")
    return {name: [rows[key] for key in sorted(rows)] for name, rows in found.items()}


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A number in LEB128, and where the next one begins."""
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

    Without ``-lineinfo`` there is no table that leads to PTX: then there are none.

    Raises:
        ValueError: this is no cubin, or a damaged one.
    """
    capability = int(arch.removeprefix("sm_").rstrip("af"))
    try:
        elf = ELFFile(io.BytesIO(cubin))
        source, ptx = _table(elf, _SOURCE), _table(elf, _PTX)
        out = {}
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
    except (ELFError, struct.error, IndexError) as error:
        raise ValueError(f"not a cubin: {error}") from error


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
    """For each instruction the row that it stands under."""
    starts = [row.address for row in rows]
    places = (bisect_right(starts, at) for at in range(0, size, SIZE))
    return [rows[place - 1] if place else _NOWHERE for place in places]


# --- What ptxas made of the accesses of PTX: on which line each stands, and how wide it is ---


class Assembled:
    """The machine code of a module, looked up by lines of its PTX; false where it is not known.

    Args:
        functions: `ptxemu.sass.cubin.functions_of` its cubin.
        foreign: Whether a path is that of a header which nobody edits.
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
        """Path and line at which a profiler finds what an instruction of PTX does.

        ptxas moves the line with the instruction, and gives one to what PTX leaves without. None
        where it says nothing, or names a toolkit's header: then PTX says whose the cost is.

        Args:
            ptx_line: Its line.
            op: Its opcode.
        """
        found = Counter((each.file, each.line) for each in self._of(ptx_line, op))
        if not found:
            return None
        ((place, _),) = found.most_common(1)
        return None if self._foreign(place[0]) or not place[1] else place

    def holds(self, ptx_line: int, op: str, distance: int) -> bool:
        """Does a load or store stand for another one so many bytes further as well?

        ptxas may give two accesses that it does not join the line of the first.
        """
        offsets = {each.offset for each in self._of(ptx_line, op) if each.moves}
        return any(offset + distance in offsets for offset in offsets)

    def width(self, ptx_line: int, op: str) -> int | None:
        """Bytes of a thread that a load or store moves on the machine.

        More than in PTX where ptxas joined it with its neighbours, fewer where somebody reads a
        part alone, 0 where another access has it along. None where code is not known, or copies
        of the instruction differ, as in a loop some of whose turns are joined.
        """
        if not self:
            return None
        widths = {each.width for each in self._of(ptx_line, op) if each.moves}
        return widths.pop() if len(widths) == 1 else None if widths else 0
