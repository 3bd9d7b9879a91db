"""Pairs of 16-bit integers, and extremes that stop at zero: Hopper's dynamic programming (DPX).

The PTX manual, at ``add``, ``min`` and ``max``: of ``u16x2`` and ``s16x2`` both halves of a word
are done for themselves; ``relu`` makes what is below zero zero. ``nvcc`` writes ``relu`` behind
the type, the manual before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import Context, Registers, Run
from ptxemu.state.integers import boxed
from ptxemu.state.lanes import Mask
from ptxemu.state.values import Array, Value, unsigned

PAIRS = ("u16x2", "s16x2")
_DONE: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
_VIEWS: dict[str, np.dtype[Any]] = {
    "u16x2": np.dtype("u2"), "s16x2": np.dtype("i2"), "s32": np.dtype("i4"),
}  # fmt: skip


def applies(instr: Instr) -> bool:
    """Is the instruction one of these?

    `add` of one word is none: it is in `ptxemu.ops.arithmetic`.
    """
    if instr.op not in _DONE:
        return False
    kinds = set(instr.parts[-2:])
    return not kinds.isdisjoint(PAIRS) or ("relu" in kinds and "s32" in instr.parts)


def build(instr: Instr, ctx: Context) -> Run:
    """``add``, ``min`` and ``max`` of pairs, and with ``relu``.

    Raises:
        KeyError: there is no such type.
        ValueError: a modifier that the manual does not know there.
    """
    relu = "relu" in instr.parts
    kind = next(part for part in reversed(instr.parts) if part != "relu")
    view, function = _VIEWS[kind], _DONE[instr.op]
    if len(instr.parts) != 2 + relu or (relu and (instr.op == "add" or kind[0] == "u")):
        raise ValueError(instr.text)
    a, b = (ctx.slot(operand, 4) for operand in instr.operands[1:3])

    def run(R: Registers, M: Mask) -> Value:
        x, y = np.broadcast_arrays(unsigned(R[a], 4), unsigned(R[b], 4))
        found = function(np.ascontiguousarray(x).view(view), np.ascontiguousarray(y).view(view))
        return boxed((np.maximum(found, 0) if relu else found).astype(view).view("u4"))

    return run
