"""Line tables of a cubin: address by address, which line an instruction comes from.

They are DWARF 2 programs (DWARF Debugging Information Format 2.0, section 6.2). ptxas writes two:
``.debug_line`` names lines of the source and ``.nv_debug_line_sass`` lines of the PTX, and adds
extended opcodes of its own, which say what was inlined and are passed over here. There is no
``.debug_info`` from which readers of DWARF find the programs, so they are read one after another.
"""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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
