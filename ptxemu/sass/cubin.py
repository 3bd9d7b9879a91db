"""A cubin as the machine instructions of its functions, each with the lines it comes from."""

from __future__ import annotations

import io
import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from ptxemu.sass.linetable import Row, line_table
from ptxemu.sass.opcodes import SIZE, MachineInstr, decode

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
