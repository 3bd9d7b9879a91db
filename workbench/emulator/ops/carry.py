"""Extended-precision integers: instructions that write or read the carry flag.

The flag is a hidden register of each lane, written by ``.cc`` and read by ``addc``,
``subc`` and ``madc``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.emulator.ptx.instructions import SIZES, Instr
from workbench.emulator.state.context import Context, Registers, Run, put, writes_itself
from workbench.emulator.state.integers import boxed, high
from workbench.emulator.state.lanes import Mask
from workbench.emulator.state.values import UNSIGNED, Array, Value, signed, unsigned

#: Name of the hidden register; no PTX name has parentheses.
FLAG = "(carry)"


def uses_flag(instr: Instr) -> bool:
    """Does the instruction read or write the carry flag?"""
    return "cc" in instr.parts or instr.op in ("addc", "subc", "madc")


def _add(x: Array, y: Array, carry: Array) -> tuple[Array, Array]:
    first = x + y
    total = first + carry
    return total, ((first < x) | (total < first)).astype(np.uint32)


def _subtract(x: Array, y: Array, borrow: Array) -> tuple[Array, Array]:
    first = x - y
    total = first - borrow
    return total, ((x < y) | (first < borrow)).astype(np.uint32)


def build(instr: Instr, ctx: Context) -> Run:
    """``add``, ``sub`` and ``mad`` with carry, of 32 and 64 bits."""
    kind = instr.parts[-1]
    size = SIZES[kind]
    operation = instr.op.rstrip("c") if instr.op != "sub" else "sub"
    target = ctx.target(instr.operands[0])
    flag = ctx.register(FLAG)
    slots = [ctx.slot(operand, size) for operand in instr.operands[1:]]
    reads, writes = instr.op in ("addc", "subc", "madc"), "cc" in instr.parts
    upper = "hi" in instr.parts
    get = signed if kind[0] == "s" else unsigned
    word = UNSIGNED[size].type
    combine: Callable[[Array, Array, Array], tuple[Array, Array]] = (
        _subtract if operation == "sub" else _add
    )

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        known: Value = R[flag]
        carry = (
            unsigned(known, 4).astype(UNSIGNED[size])
            if reads and known is not None
            else np.array([[word(0)]])
        )
        if operation == "mad":
            x, y = get(R[slots[0]], size), get(R[slots[1]], size)
            first = high(x, y).view(UNSIGNED[size]) if upper else (x * y).view(UNSIGNED[size])
            second = unsigned(R[slots[2]], size)
        else:
            first, second = (unsigned(R[slot], size) for slot in slots[:2])
        total, out = combine(first, second, carry)
        put(R, M, target, boxed(total), size)
        if writes:
            put(R, M, flag, boxed(out), 4)

    return many
