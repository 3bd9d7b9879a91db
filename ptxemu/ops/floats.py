"""Floating-point instructions for float32, float64, and for float16 and bfloat16 with their pairs.

Addition, subtraction, multiplication, division, square root and fused multiply-add
round once, in every rounding mode, as the chip does. ``.approx`` functions are computed
in float64 and rounded: within the error that the PTX manual states for each of them,
though not always the chip's own last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from ptxemu.ops.conversions import pack, unpack
from ptxemu.ops.exact import (
    canonical,
    directed,
    flushed,
    fma32_wide,
    fma64,
    rounded32,
    to_odd,
    two_product,
    two_sum,
)
from ptxemu.ptx.instructions import SIZES, Instr
from ptxemu.state.context import Context, Registers, Run
from ptxemu.state.lanes import Mask
from ptxemu.state.values import F32, F64, UNSIGNED, Array, Value, double, single, unsigned

_MODES = ("rn", "rz", "rm", "rp")


def _mode(instr: Instr) -> str:
    return next((part for part in instr.parts if part in _MODES), "rn")


def saturated(x: Array) -> Array:
    """To [0, 1]; NaN becomes 0."""
    one = x.dtype.type
    return np.where(np.isnan(x), one(0), np.clip(x, one(0), one(1)))


def _finish(instr: Instr) -> Callable[[Array], Array]:
    ftz, sat = "ftz" in instr.parts, "sat" in instr.parts

    def finish(out: Array) -> Array:
        if ftz:
            out = flushed(out)
        return saturated(out) if sat else canonical(out)

    return finish


def getter(kind: str, ftz: bool) -> Callable[[Value], Array]:
    """A function that reads a register as numbers of float32 or float64."""
    if kind == "f64":
        return double
    return (lambda value: flushed(single(value))) if ftz else single


def wide(R: Registers, slot: int, cache: list[tuple[Any, Any]]) -> Array:
    """A float32 register as float64, converted once for all its readers."""
    value = R[slot]
    known = cache[slot]
    if known[0] is value:
        return known[1]  # type: ignore[no-any-return]
    if isinstance(value, np.ndarray) and value.dtype == F64:
        return value
    result = single(value).astype(F64)
    cache[slot] = (value, result)
    return result


def _lanewise(instr: Instr, ctx: Context, count: int, function: Callable[..., Array]) -> Run:
    """A function of the first source operands' numbers, finished as the instruction says."""
    kind = instr.parts[-1]
    slots = ctx.sources(instr, count, SIZES[kind], kind)
    finish, get = _finish(instr), getter(kind, "ftz" in instr.parts)
    return lambda R, M: finish(function(*(get(R[slot]) for slot in slots)))


def _fma(instr: Instr, ctx: Context) -> Run:
    kind, mode = instr.parts[-1], _mode(instr)
    if kind == "f64":
        if mode != "rn":
            raise ctx.unsupported(instr, f"rounding {mode}")
        return _lanewise(instr, ctx, 3, fma64)
    rt = ctx.rt
    if mode == "rn" and "ftz" not in instr.parts and "sat" not in instr.parts:
        a, b, c = ctx.sources(instr, 3, 4, kind)

        def fast(R: Registers, M: Mask) -> Value:
            cache = rt.wide
            return fma32_wide(wide(R, a, cache), wide(R, b, cache), wide(R, c, cache))

        return fast

    def slow(*operands: Array) -> Array:
        x, y, z = (operand.astype(F64) for operand in operands)
        return fma32_wide(x, y, z).astype(F32) if mode == "rn" else _narrow_sum(x * y, z, mode)

    return _lanewise(instr, ctx, 3, slow)


def _narrow_sum(x: Array, y: Array, mode: str) -> Array:
    """The sum of float64 numbers, rounded to float32 in any mode."""
    total, rest = two_sum(x, y)
    return rounded32(total, np.where(np.isfinite(total), rest, 0), mode)


def _sum(x: Array, y: Array, mode: str) -> Array:
    if x.dtype == F32:
        return _narrow_sum(x.astype(F64), y.astype(F64), mode)
    total, rest = two_sum(x, y)
    return directed(total, np.where(np.isfinite(total), np.sign(rest), 0), mode)


def _times(x: Array, y: Array, mode: str) -> Array:
    if x.dtype == F32:
        product = x.astype(F64) * y.astype(F64)
        return rounded32(product, np.zeros_like(product), mode)
    product, rest = two_product(x, y)
    return directed(product, np.where(np.isfinite(product), np.sign(rest), 0), mode)


def _over(x: Array, y: Array, mode: str) -> Array:
    q = x / y
    wide_q = q.astype(F64)
    # x - q*y has the sign of the error, times y's.
    if x.dtype == F32:
        gap = x.astype(F64) - wide_q * y.astype(F64)
    else:
        product, rest = two_product(q, y)
        gap = (x - product) - rest
    return directed(q, np.where(np.isfinite(q), np.sign(gap) * np.sign(y), 0), mode)


def _root(x: Array, mode: str) -> Array:
    r = np.sqrt(x)
    square, rest = two_product(r.astype(F64), r.astype(F64))
    gap = (x.astype(F64) - square) - rest
    return directed(r, np.where(np.isfinite(r), np.sign(gap), 0), mode)


def extreme(x: Array, y: Array, *, largest: bool, nan: bool) -> Array:
    """IEEE minimumNumber/maximumNumber (or, with `nan`, NaN wins); -0 < +0."""
    choose = np.signbit(x) > np.signbit(y)
    first = np.where(x == y, choose, x < y)
    out = np.where(first ^ largest, x, y)
    lost = np.isnan(x) | np.isnan(y)
    if lost.any():
        other = np.where(np.isnan(x), y, x)
        out = np.where(lost, x.dtype.type(np.nan) if nan else other, out)
    return out


def _extremes(instr: Instr, ctx: Context) -> Run:
    """``min`` and ``max`` of two or three operands, or of their magnitudes."""
    choose = partial(extreme, largest=instr.op == "max", nan="NaN" in instr.parts)
    magnitude, xorsign = "abs" in instr.parts, "xorsign" in instr.parts

    def among(*operands: Array) -> Array:
        out = reduce(choose, map(np.abs, operands) if magnitude else operands)
        if xorsign:
            sign = reduce(np.logical_xor, map(np.signbit, operands))
            out = np.copysign(out, np.where(sign, out.dtype.type(-1), out.dtype.type(1)))
        return out

    return _lanewise(instr, ctx, len(instr.operands) - 1, among)


_PLAIN: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
}  # fmt: skip
_DIRECTED: dict[str, Callable[[Array, Array, str], Array]] = {
    "add": _sum, "sub": lambda x, y, mode: _sum(x, -y, mode), "mul": _times, "div": _over,
}  # fmt: skip


def _binary(instr: Instr, ctx: Context) -> Run:
    kind, mode = instr.parts[-1], _mode(instr)
    if mode != "rn":
        exact = _DIRECTED[instr.op]

        def rounded(x: Array, y: Array) -> Array:
            x, y = np.broadcast_arrays(x, y)
            return exact(x, y, mode)

        return _lanewise(instr, ctx, 2, rounded)
    a, b = ctx.sources(instr, 2, SIZES[kind], kind)
    function, finish, get = _PLAIN[instr.op], _finish(instr), getter(kind, "ftz" in instr.parts)
    return lambda R, M: finish(function(get(R[a]), get(R[b])))


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "rcp": lambda x: 1.0 / x, "rsqrt": lambda x: 1.0 / np.sqrt(x), "sin": np.sin, "cos": np.cos,
    "lg2": np.log2, "ex2": np.exp2, "tanh": np.tanh,
}  # fmt: skip
_UPPER = np.uint64(0xFFFFFFFF00000000)


def _sign(instr: Instr, ctx: Context) -> Run:
    """``abs`` and ``neg``, which are the same for NaN."""
    kind = instr.parts[-1]
    size = SIZES[kind]
    (a,) = ctx.sources(instr, 1, size, kind)
    word, number = UNSIGNED[size].type, F32 if size == 4 else F64
    sign, ftz = 1 << (8 * size - 1), "ftz" in instr.parts

    def bits(R: Registers, M: Mask) -> Value:
        x = unsigned(R[a], size)
        out = (x & word(sign - 1) if instr.op == "abs" else x ^ word(sign)).view(number)
        return flushed(out) if ftz else out

    return bits


def _unary(instr: Instr, ctx: Context) -> Run:
    kind, op, mode = instr.parts[-1], instr.op, _mode(instr)
    if op == "sqrt":
        return _lanewise(instr, ctx, 1, np.sqrt if mode == "rn" else lambda x: _root(x, mode))
    if op == "rcp" and "approx" not in instr.parts:
        return _lanewise(
            instr, ctx, 1,
            lambda x: np.ones_like(x) / x if mode == "rn" else _over(np.ones_like(x), x, mode),
        )  # fmt: skip
    approximate = _FUNCTIONS[op]
    if kind == "f64":
        # rcp/rsqrt.approx.ftz.f64 read the upper 32 bits only.
        (a,) = ctx.sources(instr, 1, 8, kind)

        def top(R: Registers, M: Mask) -> Value:
            x = (unsigned(R[a], 8) & _UPPER).view(F64)
            return (np.asarray(approximate(x)).view(np.uint64) & _UPPER).view(F64)

        return top
    return _lanewise(instr, ctx, 1, lambda x: approximate(x.astype(F64)).astype(F32))


def _copysign(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    a, b = ctx.sources(instr, 2, SIZES[kind], kind)
    get = getter(kind, False)
    # PTX: the result has the sign of the first source and the rest of the second.
    return lambda R, M: np.copysign(get(R[b]), get(R[a]))


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = {
    "fma": _fma, "mad": _fma, "min": _extremes, "max": _extremes, "abs": _sign, "neg": _sign,
    **dict.fromkeys(_PLAIN, _binary), **dict.fromkeys(("sqrt", *_FUNCTIONS), _unary),
    "copysign": _copysign,
}  # fmt: skip


# --- Arithmetic of float16, bfloat16 and their packed pairs ---

KINDS = ("f16", "f16x2", "bf16", "bf16x2")
_LEAST = {"f16": 2.0**-14, "bf16": 2.0**-126}


def split(value: Value, kind: str) -> Array:
    """A register as float64 numbers, its halves along the last axis."""
    bits = np.ascontiguousarray(unsigned(value, SIZES[kind]))
    halves = bits.view(np.uint16).reshape(*bits.shape, SIZES[kind] // 2)
    return unpack(halves, kind)


def join(x: Array, kind: str) -> Array:
    """float64 numbers, halves along the last axis, as the bits of registers."""
    bits = np.ascontiguousarray(pack(x, kind))
    return bits.view(UNSIGNED[SIZES[kind]])[..., 0]


def _flush(x: Array, kind: str) -> Array:
    small = np.abs(x) < _LEAST[kind.removesuffix("x2")]
    return np.where(small, np.copysign(0.0, x), x)


def _fma_rounded(x: Array, y: Array, z: Array) -> Array:
    total, rest = two_sum(x * y, z)
    return to_odd(total, np.where(np.isfinite(total), rest, 0))


def function_of(op: str, *, nan: bool = False) -> Callable[..., Array]:
    """An operation on float64 numbers that are halves; its result must be rounded once.

    With `nan`, ``min`` and ``max`` of NaN and a number are NaN.
    """
    table: dict[str, Callable[..., Array]] = {
        "add": lambda x, y: to_odd(*two_sum(x, y)),
        "sub": lambda x, y: to_odd(*two_sum(x, -y)),
        "mul": np.multiply,
        "fma": _fma_rounded,
        "min": lambda x, y: extreme(x, y, largest=False, nan=nan),
        "max": lambda x, y: extreme(x, y, largest=True, nan=nan),
        "ex2": np.exp2,
        "tanh": np.tanh,
    }
    return table[op]


def _arithmetic(instr: Instr, ctx: Context) -> Run:
    kind, op = instr.parts[-1], instr.op
    size = SIZES[kind]
    slots = [ctx.slot(operand, size) for operand in instr.operands[1:]]
    ftz, sat, relu = "ftz" in instr.parts, "sat" in instr.parts, "relu" in instr.parts
    function = function_of(op, nan="NaN" in instr.parts)

    def run(R: Registers, M: Mask) -> Value:
        values = [split(R[slot], kind) for slot in slots]
        if ftz:
            values = [_flush(value, kind) for value in values]
        out = np.asarray(function(*np.broadcast_arrays(*values)), F64)
        if sat:
            out = saturated(out)
        if relu:
            out = np.where(np.isnan(out), out, np.maximum(out, 0))
        if ftz:
            out = _flush(out, kind)
        return join(out, kind)

    return run


def _sign_of_halves(instr: Instr, ctx: Context) -> Run:
    size = SIZES[instr.parts[-1]]
    a = ctx.slot(instr.operands[1], size)
    word = UNSIGNED[size].type
    sign = word(0x8000 if size == 2 else 0x80008000)
    if instr.op == "neg":
        return lambda R, M: unsigned(R[a], size) ^ sign
    return lambda R, M: unsigned(R[a], size) & ~sign


HALVES: dict[str, Callable[[Instr, Context], Run]] = {
    **dict.fromkeys(("add", "sub", "mul", "fma", "min", "max", "ex2", "tanh"), _arithmetic),
    "neg": _sign_of_halves, "abs": _sign_of_halves,
}  # fmt: skip
