"""Quotients that leave the common path: ptxas makes a call where FCHK says so.

FCHK looks at exponents alone: it is true of zeros, subnormal numbers, infinities and NaN, of very
large divisors, of small dividends, and of quotients near the ends of the range. Its bounds were
read off an H200, by the cycles of quotients of all pairs of exponents. A warp calls if one lane
must.
"""

from __future__ import annotations

import numpy as np

from ptxemu.ops.floats import getter
from ptxemu.ops.warp import active
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import CodeSite, Context, Registers, Run
from ptxemu.state.lanes import WARP, Mask
from ptxemu.state.values import Array, Value


def calls(instr: Instr) -> bool:
    """Is it a quotient whose routine has a path for rare operands?"""
    return instr.op == "div" and instr.parts[-1] == "f32" and instr.parts[1] == "rn"


def counted(run: Run, instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """The same closure, which counts the warps that call: `CodeSite.calls`."""
    a, b = ctx.sources(instr, 2, 4, "f32")
    get = getter("f32", False)

    def divide(R: Registers, M: Mask) -> Value | None:
        rare = leaves(get(R[a]), get(R[b]))
        if rare.any():
            lanes = ctx.rt.lanes
            rows = np.broadcast_to(rare, lanes.shape).reshape(lanes.B, lanes.W, WARP)
            site.calls += int((rows & active(M, lanes)).any(axis=-1).sum())
        quotient: Value | None = run(R, M)
        return quotient

    return divide


def leaves(x: Array, y: Array) -> Array:
    """Whether quotients leave the common path.

    Args:
        x: Dividends, float32 of any shape.
        y: Divisors, of the same shape or one that goes with it.
    """
    of_x, of_y = _exponent(x), _exponent(y)
    scale = of_x - of_y
    odd = (of_x <= 24) | (of_x == 255) | (of_y <= 1) | (of_y >= 252)
    found: Array = odd | (scale >= 127) | (scale <= -125)
    return found


def _exponent(x: Array) -> Array:
    """The exponent as it is stored, 0 to 255."""
    bits: Array = np.ascontiguousarray(x).view(np.uint32) >> np.uint32(23)
    return (bits & np.uint32(255)).astype(np.int32)
