"""The bits of machine instructions that say what one is and where it goes.

An instruction is 128 bits since compute capability 7.0. Of these are read here: the opcode (the
lowest nine; three more say which operands are constants), the guard, the target of a branch, and
width and offset of an access. They were read off what Nsight Compute names in 57,809 recorded
instructions for 9.0, where each number stands for one name (but two kinds of barrier for errors),
and held against ``nvdisasm`` on some 2,000 of each of 7.5, 8.0, 8.6, 8.9, 9.0, 10.0 and 12.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

#: Bytes of an instruction.
SIZE = 16
_ALWAYS = 7  # the predicate that is true
_SPLIT_SINCE = 90

BSYNC, CALL, BRA, BRX, JMP, EXIT, RET = 0x141, 0x144, 0x147, 0x149, 0x14A, 0x14D, 0x150
#: What may be done ahead of time, or only in part, and says less of how often its block ran.
_ARITHMETIC = {
    0x009: ("min", "max"), 0x020: ("mul",), 0x021: ("add", "sub"), 0x023: ("fma",),
    0x028: ("mul",), 0x029: ("add", "sub"), 0x02B: ("fma",), 0x031: ("fma",),
    0x108: ("ex2", "lg2", "sin", "cos", "rsqrt", "rcp", "sqrt", "tanh"), 0x109: ("popc",),
}  # fmt: skip
_ATOMICS = ("atom", "red")
_PRODUCTS = ("mma", "wgmma")
#: Machine opcode -> the opcodes of PTX that become one of it and no more.
_EFFECTS = {
    0x03B: ("ldmatrix",), 0x03C: _PRODUCTS, 0x037: _PRODUCTS, 0x03F: _PRODUCTS,
    0x180: ("ld",), 0x181: ("ld",), 0x183: ("ld",), 0x184: ("ld",),
    0x185: ("st",), 0x186: ("st",), 0x187: ("st",), 0x188: ("st",),
    0x18A: _ATOMICS, 0x18B: _ATOMICS, 0x18C: _ATOMICS, 0x18D: _ATOMICS, 0x18E: _ATOMICS,
    0x1A6: _ATOMICS, 0x1A8: _ATOMICS, 0x1A9: _ATOMICS,
    0x11D: ("bar", "barrier"), 0x189: ("shfl",), 0x006: ("vote",), 0x1A1: ("match",),
    0x1C4: ("redux",), 0x1AE: ("cp",), 0x1AF: ("cp",),
}  # fmt: skip
#: What a `wmma` access or product becomes several of.
_FRAGMENTS = (0x03B, 0x03C, 0x181, 0x184, 0x186, 0x188)
#: Those that move data, and have a width.
_LOADS, _STORES = (0x180, 0x181, 0x183, 0x184), (0x185, 0x186, 0x187, 0x188)
_WIDTHS = (1, 1, 2, 2, 4, 8, 16)


class Sign(Enum):
    """How much an instruction says of how often the PTX that it was made of ran."""

    EFFECT = 0  # it is made once each time: an access, a barrier, a product
    ARITHMETIC = 1  # likewise, but it may be moved, or made in advance
    FRAGMENT = 2  # one of several that a `wmma` becomes
    NONE = 3


@dataclass(frozen=True, slots=True)
class MachineInstr:
    """A machine instruction.

    Attributes:
        opcode: The lowest nine bits.
        guarded: Whether a predicate decides on it.
        conditional: Whether it may go on behind itself; of those that end a block.
        target: Number of the instruction to which a branch or call goes; -1: none.
        apart: Whether its target is only for warps whose lanes have parted (``BRA.DIV``).
        width: Bytes of a thread that an access moves; 0: none, or not known.
        offset: Bytes that are added to the address of an access.
        ptx_line: 1-based line of the PTX that it comes from; 0: unknown.
        file: Path of the source.
        line: 1-based line there; 0: unknown.
    """

    opcode: int
    guarded: bool
    conditional: bool
    target: int
    apart: bool
    width: int
    offset: int
    ptx_line: int
    file: str
    line: int

    @property
    def ends(self) -> bool:
        """Whether nothing that stands behind it must follow."""
        return self.opcode in (BRA, BRX, JMP, CALL, EXIT, RET)

    @property
    def moves(self) -> bool:
        """Whether it is a load or a store."""
        return self.opcode in _LOADS or self.opcode in _STORES

    def sign(self, op: str) -> Sign:
        """What it says of an instruction of PTX with this opcode."""
        if op == "wmma":
            return Sign.FRAGMENT if self.opcode in _FRAGMENTS else Sign.NONE
        if op in _EFFECTS.get(self.opcode, ()):
            return Sign.EFFECT
        return Sign.ARITHMETIC if op in _ARITHMETIC.get(self.opcode, ()) else Sign.NONE


def decode(
    code: bytes, number: int, capability: int, ptx_line: int, file: str, line: int
) -> MachineInstr:
    """One instruction of a function.

    Args:
        code: The function's machine code.
        number: Which instruction of it.
        capability: Compute capability that it was made for, 90 for 9.0.
        ptx_line: As `MachineInstr` has it, and the other two.
        file: Likewise.
        line: Likewise.
    """
    word = int.from_bytes(code[SIZE * number : SIZE * (number + 1)], "little")
    opcode, guard = word & 0x1FF, (word >> 12) & 15
    target, apart, conditional = -1, False, guard != _ALWAYS
    if opcode in (BRA, CALL):
        # In units of four bytes; since 9.0 its lowest eight bits stand elsewhere.
        ahead = _signed((word >> 34) & ((1 << 48) - 1), 48)
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
        offset = _signed((word >> 40) & ((1 << 24) - 1), 24)
    return MachineInstr(
        opcode, guard != _ALWAYS, conditional, target, apart, width, offset, ptx_line, file, line
    )


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits if value >> (bits - 1) else 0)
