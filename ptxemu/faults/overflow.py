"""An integer overflow in an index, seen in the registers of a thread whose access went wrong.

The address is followed back to where 32 bits were widened, and from there to the sums and products
that made them. These are computed again without a limit, from what the registers hold now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import product

import numpy as np

from ptxemu.ptx.instructions import Addr, Imm, Instr, Operand, Reg
from ptxemu.state.context import Context
from ptxemu.state.values import MASK, unsigned

#: 32-bit operations: how they are written, and their result without a limit.
_EXACT: dict[str, tuple[str, Callable[..., int]]] = {
    "add": ("{} + {}", lambda a, b: a + b),
    "sub": ("{} − {}", lambda a, b: a - b),
    "mul": ("{} × {}", lambda a, b: a * b),
    "mad": ("{} × {} + {}", lambda a, b, c: a * b + c),
    "shl": ("{} << {}", lambda a, b: a << (b & 63)),
    "or": ("{} + {}", lambda a, b: a + b),  # of disjoint bits, else it does not give its result
    "mov": ("{}", lambda a: a),
}
_FORMS = frozenset(("lo", "s32", "u32", "b32"))
#: 64-bit operations that an address passes through.
_WIDE = frozenset(("add", "sub", "mul", "mad", "shl", "or", "mov", "cvta"))
#: Numbers that may be read as signed or unsigned, and operations in a row, at most.
_UNSURE, _DEPTH = 4, 64


def overflow_of(ctx: Context, instr: Instr, row: int, thread: int) -> tuple[str, str, str] | None:
    """The first overflow of a thread's address: in numbers, its result, and ``file:line``."""
    lane = _Lane(ctx, row, thread)
    base = next((each.base for each in instr.operands if isinstance(each, Addr)), None)
    return next(filter(None, (lane.overflow(*each) for each in lane.widened(base))), None)


def _shown(number: int) -> str:
    return f"{number:,}".replace("-", "−")


class _Lane:
    """Registers of a thread, and what made them."""

    def __init__(self, ctx: Context, row: int, thread: int) -> None:
        self.ctx, self.lane = ctx, (row, thread)

    def widened(self, base: object) -> Iterator[tuple[Operand, bool]]:
        """32-bit numbers that an address was made from, and whether they are signed."""
        seen, left = set[str](), [base]
        while left:
            one = left.pop()
            if not isinstance(one, Reg) or one.name in seen:
                continue
            seen.add(one.name)
            for maker in self.ctx.makers.get(one.name, ()):
                kind, sources = maker.parts[-1], list(maker.operands[1:])
                if kind in ("s32", "u32") and (maker.op == "cvt" or "wide" in maker.parts):
                    yield from ((each, kind == "s32") for each in sources[:2])
                    left += sources[2:]
                elif maker.op in _WIDE:
                    left += sources

    def overflow(self, number: Operand, signed: bool) -> tuple[str, str, str] | None:
        """The first operation of a 32-bit number that left its range, if the number is wrong."""
        bits, ops, leaves = self._bits(number), dict[str, Instr](), dict[str, int]()
        if bits is None or not isinstance(number, Reg):
            return None
        self._trace(number.name, ops, leaves, _DEPTH)
        unsure = [name for name, value in leaves.items() if value >> 31]
        if not ops or len(unsure) > _UNSURE:
            return None
        low, exact = -(1 << 31) if signed else 0, dict[str, int]()
        for negative in product((not signed, signed), repeat=len(unsure)):
            below = [name for name, each in zip(unsure, negative, strict=True) if each]
            exact = _exact(ops, leaves, below)
            if exact[number.name] == _within(bits, low):
                return None
        for name, maker in ops.items():  # all are read as the index is
            got = _within(exact[name], low)
            if got != exact[name]:
                sources = [_shown(_value(each, exact)) for each in maker.operands[1:]]
                index = f"{_EXACT[maker.op][0].format(*sources)} = {_shown(exact[name])}"
                return index.replace("+ −", "− "), _shown(got), self.ctx.where(maker)
        return None

    def _trace(self, name: str, ops: dict[str, Instr], leaves: dict[str, int], left: int) -> None:
        """Find what made a register, in the order of the operations, and what is not known."""
        maker = self._maker(name) if left else None
        if maker is None:
            leaves[name] = self._bits(Reg(name)) or 0
            return
        for each in maker.operands[1:]:
            if isinstance(each, Reg) and each.name not in {*ops, *leaves}:
                self._trace(each.name, ops, leaves, left - 1)
        ops[name] = maker

    def _maker(self, name: str) -> Instr | None:
        """What made a register, if its operands still hold what it was made from."""
        makers = self.ctx.makers.get(name, ())
        maker = makers[0] if len(makers) == 1 else None
        if maker is None or maker.op not in _EXACT or not _FORMS.issuperset(maker.parts[1:]):
            return None
        sources = [self._bits(each) for each in maker.operands[1:]]
        if None in sources:
            return None
        made = _EXACT[maker.op][1](*sources) & MASK[4]
        return maker if made == self._bits(Reg(name)) else None

    def _bits(self, operand: Operand) -> int | None:
        if isinstance(operand, Imm):
            return operand.bits & MASK[4]
        slot = self.ctx.slots.get(operand.name) if isinstance(operand, Reg) else None
        value = None if slot is None else self.ctx.rt.registers[slot]
        if value is None:
            return None
        return int(np.broadcast_to(unsigned(value, 4), self.ctx.rt.lanes.shape)[self.lane])


def _exact(ops: dict[str, Instr], leaves: dict[str, int], below: Collection[str]) -> dict[str, int]:
    """Every register as it would be without a limit; those in `below` begin as negative numbers."""
    found = {name: value - (name in below) * (1 << 32) for name, value in leaves.items()}
    for name, maker in ops.items():
        found[name] = _EXACT[maker.op][1](*(_value(each, found) for each in maker.operands[1:]))
    return found


def _value(operand: Operand, exact: dict[str, int]) -> int:
    if isinstance(operand, Reg):
        return exact[operand.name]
    assert isinstance(operand, Imm)
    return _within(operand.bits, -(1 << 31))


def _within(value: int, low: int) -> int:
    """The number of the 32-bit range from `low` on that has the same bits."""
    return (value - low) % (1 << 32) + low
