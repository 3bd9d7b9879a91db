"""Find an integer overflow in an index, from the registers of a thread with a faulty access.

The address is followed back to where 32 bits were widened, and from there to the sums and products
that made them. These are recomputed without a limit, from the registers' current values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import product

import numpy as np

from ptxemu.ptx.instructions import Addr, Imm, Instr, Operand, Reg
from ptxemu.state.context import Context
from ptxemu.state.values import MASK, unsigned

#: 32-bit operations: their notation, and their result without a limit.
_EXACT: dict[str, tuple[str, Callable[..., int]]] = {
    "add": ("{} + {}", lambda a, b: a + b),
    "sub": ("{} − {}", lambda a, b: a - b),
    "mul": ("{} × {}", lambda a, b: a * b),
    "mad": ("{} × {} + {}", lambda a, b, c: a * b + c),
    "shl": ("{} << {}", lambda a, b: a << (b & 63)),
    "or": ("{} + {}", lambda a, b: a + b),  # only for disjoint bits; otherwise its result differs
    "mov": ("{}", lambda a: a),
}
_FORMS = frozenset(("lo", "s32", "u32", "b32"))
#: 64-bit operations through which an address passes.
_WIDE = frozenset(("add", "sub", "mul", "mad", "shl", "or", "mov", "cvta"))
#: The most numbers with an unknown sign, and the most operations in a chain.
_UNSURE, _DEPTH = 4, 64
_SIGNED = -(1 << 31)  # the start of the range of signed numbers


def overflow_of(ctx: Context, instr: Instr, row: int, thread: int) -> tuple[str, str, str] | None:
    """The first overflow of a thread's address: in numbers, its result, and ``file:line``."""
    base = next((each.base for each in instr.operands if isinstance(each, Addr)), None)
    found = (_Number(ctx, row, thread, *each).overflow() for each in _widened(ctx, base))
    return next(filter(None, found), None)


def _widened(ctx: Context, base: object) -> Iterator[tuple[str, int]]:
    """The 32-bit registers from which an address was made, and the start of each one's range."""
    seen, left = set[str](), [base]
    while left:
        one = left.pop()
        if not isinstance(one, Reg) or one.name in seen:
            continue
        seen.add(one.name)
        for maker in ctx.makers.get(one.name, ()):
            kind, sources = maker.parts[-1], list(maker.operands[1:])
            if kind in ("s32", "u32") and (maker.op == "cvt" or "wide" in maker.parts):
                low = _SIGNED if kind == "s32" else 0
                yield from ((each.name, low) for each in sources[:2] if isinstance(each, Reg))
                left += sources[2:]
            elif maker.op in _WIDE:
                left += sources


class _Number:
    """A 32-bit register of a thread, with all registers from which it was made.

    `ops`: the operations that made registers, in order; `leaves`: registers made by unknown ones.
    """

    def __init__(self, ctx: Context, row: int, thread: int, name: str, low: int) -> None:
        self.ctx, self.lane, self.name, self.low = ctx, (row, thread), name, low
        self.ops, self.leaves = dict[str, Instr](), dict[str, int]()
        self._trace(name, _DEPTH)

    def overflow(self) -> tuple[str, str, str] | None:
        """The first operation that left the range, if the number is wrong."""
        unsure = [name for name, value in self.leaves.items() if value >> 31]
        if not self.ops or len(unsure) > _UNSURE:
            return None
        bits, exact = self._bits(Reg(self.name)) or 0, dict[str, int]()
        for below in product((self.low == 0, self.low != 0), repeat=len(unsure)):
            exact = self._exact([name for name, each in zip(unsure, below, strict=True) if each])
            if exact[self.name] == _within(bits, self.low):
                return None
        for name, maker in self.ops.items():  # all are read with the index's signedness
            got = _within(exact[name], self.low)
            if got != exact[name]:
                sources = (_shown(_value(each, exact)) for each in maker.operands[1:])
                index = f"{_EXACT[maker.op][0].format(*sources)} = {_shown(exact[name])}"
                return index.replace("+ −", "− "), _shown(got), self.ctx.where(maker)
        return None

    def _trace(self, name: str, left: int) -> None:
        maker = self._maker(name) if left else None
        if maker is None:
            self.leaves[name] = self._bits(Reg(name)) or 0
            return
        for each in maker.operands[1:]:
            if isinstance(each, Reg) and each.name not in {*self.ops, *self.leaves}:
                self._trace(each.name, left - 1)
        self.ops[name] = maker

    def _maker(self, name: str) -> Instr | None:
        """The instruction that made a register, if its operands still have their values."""
        makers = self.ctx.makers.get(name, ())
        maker = makers[0] if len(makers) == 1 else None
        if maker is None or maker.op not in _EXACT or not _FORMS.issuperset(maker.parts[1:]):
            return None
        sources = [self._bits(each) for each in maker.operands[1:]]
        if None in sources or _EXACT[maker.op][1](*sources) & MASK[4] != self._bits(Reg(name)):
            return None
        return maker

    def _bits(self, operand: Operand) -> int | None:
        if isinstance(operand, Imm):
            return operand.bits & MASK[4]
        slot = self.ctx.slots.get(operand.name) if isinstance(operand, Reg) else None
        value = None if slot is None else self.ctx.rt.registers[slot]
        if value is None:
            return None
        return int(np.broadcast_to(unsigned(value, 4), self.ctx.rt.lanes.shape)[self.lane])

    def _exact(self, below: Collection[str]) -> dict[str, int]:
        """Every register's value without a limit; the numbers of `below` are negative."""
        found = {name: value - (name in below) * (1 << 32) for name, value in self.leaves.items()}
        for name, maker in self.ops.items():
            found[name] = _EXACT[maker.op][1](*(_value(each, found) for each in maker.operands[1:]))
        return found


def _value(operand: Operand, exact: dict[str, int]) -> int:
    if isinstance(operand, Reg):
        return exact[operand.name]
    assert isinstance(operand, Imm)
    return _within(operand.bits, _SIGNED)


def _within(value: int, low: int) -> int:
    """The number in the 32-bit range that begins at `low` with the same bits."""
    return (value - low) % (1 << 32) + low


def _shown(number: int) -> str:
    return f"{number:,}".replace("-", "−")
