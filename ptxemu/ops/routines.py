"""Routines that ptxas calls for rare operands: the instructions and operands that need one.

The common case is inline; a warp calls the routine if one of its lanes must. The conditions were
read from machine code that ptxas 13.0 made for 9.0. FCHK checks only exponents; its condition was
measured on an H200, from the cycles of quotients of all pairs of exponents.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxemu.ops.floats import getter
from ptxemu.ops.warp import active
from ptxemu.ptx.instructions import SIZES, Instr
from ptxemu.state.context import CodeSite, Context, Registers, Run
from ptxemu.state.lanes import WARP, Mask
from ptxemu.state.values import Array, Value

_U32 = np.uint32
_MAGNITUDE = _U32(0x7FFFFFFF)


def _bits(x: Array) -> Array:
    found: Array = np.ascontiguousarray(x).view(_U32)
    return found


def _high(x: Array) -> Array:
    """The upper words of float64."""
    found: Array = (np.ascontiguousarray(x).view(np.uint64) >> np.uint64(32)).astype(_U32)
    return found


def leaves_common_path(x: Array, y: Array) -> Array:
    """True for quotients of float32 that leave the common path, as FCHK decides."""
    of_x, of_y = _exponent(x), _exponent(y)
    scale = of_x - of_y
    odd = (of_x <= 24) | (of_x == 255) | (of_y <= 1) | (of_y >= 252)
    found: Array = odd | (scale >= 127) | (scale <= -125)
    return found


def _exponent(x: Array) -> Array:
    """The exponent as it is stored, 0 to 255."""
    bits: Array = _bits(x) >> _U32(23)
    return (bits & _U32(255)).astype(np.int32)


def _rare_quotient64(x: Array, y: Array) -> Array:
    # Upper words are compared as if they were float32: a NaN counts neither as a too small dividend
    # nor as a large enough quotient.
    quotient = _high(x / y) & _MAGNITUDE
    large = (quotient > 0x00100000) & (quotient <= 0x7F800000)
    large &= (_high(y) & _MAGNITUDE) < 0x7F800000
    found: Array = ((_high(x) & _MAGNITUDE) < 0x03600000) | ~large
    return found


#: (Opcode, type) -> the operands for which a routine is called. A float32 reciprocal square root
#: has no routine, nor have instructions with `.approx` or `.ftz`.
_RARE: dict[tuple[str, str], Callable[..., Array]] = {
    ("div", "f32"): leaves_common_path,
    ("rcp", "f32"): lambda x: ((_bits(x) + _U32(0x1800000)) & _U32(0x7F800000)) <= 0x1FFFFFF,
    ("sqrt", "f32"): lambda x: _bits(x) - _U32(0xD000000) > 0x727FFFFF,
    ("div", "f64"): _rare_quotient64,
    ("rcp", "f64"): lambda x: ((_high(x) + _U32(0x300402)) & _MAGNITUDE) < 0x400402,
    ("sqrt", "f64"): lambda x: _high(x) + _U32(0xFCB00000) >= 0x7CA00000,
    ("rsqrt", "f64"): lambda x: _high(x) + _U32(0xFFF00000) >= 0x7FE00000,
}
#: The routine whose length is known for its usual operands, although it has branches.
QUOTIENTS = "the slow path of float32 division"
_WORDS = {"div": "division", "rcp": "reciprocals", "sqrt": "roots", "rsqrt": "inverse roots"}


def has_routine(instr: Instr) -> bool:
    """Test whether the instruction has a routine for rare operands."""
    exact = "approx" not in instr.parts or instr.op == "rsqrt"
    return (instr.op, instr.parts[-1]) in _RARE and exact and "full" not in instr.parts


def always_called(instr: Instr) -> bool:
    """True if the instruction is only a call; for 64 bits compilers test for short values first."""
    whole = instr.op in ("div", "rem") and instr.parts[-1] in ("s64", "u64")
    return whole or instr.op == "printf"


def call_of(instr: Instr) -> str:
    """The routine of an instruction, in words."""
    if instr.op == "printf":
        return "printf"
    bits, kind = 8 * SIZES[instr.parts[-1]], instr.parts[-1][0]
    if kind != "f":
        return f"the division of {bits}-bit integers"
    return f"the slow path of float{bits} {_WORDS[instr.op]}"


def counting_calls(run: Run, instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """The same closure; it also counts the warps that call: `CodeSite.calls`."""
    kind = instr.parts[-1]
    test = _RARE[instr.op, kind]
    many = 2 if instr.op == "div" else 1
    slots = ctx.sources(instr, many, SIZES[kind], kind)
    get = getter(kind, False)

    def with_routine(R: Registers, M: Mask) -> Value | None:
        rare = test(*(get(R[slot]) for slot in slots))
        if rare.any():
            lanes = ctx.rt.lanes
            rows = np.broadcast_to(rare, lanes.shape).reshape(lanes.B, lanes.W, WARP)
            site.calls += int((rows & active(M, lanes)).any(axis=-1).sum())
        result: Value | None = run(R, M)
        return result

    return with_routine
