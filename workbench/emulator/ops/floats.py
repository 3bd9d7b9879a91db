"""Floating-point instructions of float32 and float64.

Addition, subtraction, multiplication, division, square root and fused multiply-add
round once, in every rounding mode, as the chip does. ``.approx`` functions are computed
in float64 and rounded: within the error that the PTX manual states for each of them,
though not always the chip's own last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.emulator.ops.exact import (
    canonical,
    directed,
    flushed,
    fma32_wide,
    fma64,
    rounded32,
    two_product,
    two_sum,
)
from workbench.emulator.ptx.instructions import SIZES, Instr
from workbench.emulator.state.context import Context, Registers, Run
from workbench.emulator.state.lanes import Mask
from workbench.emulator.state.values import F32, F64, Array, Value, double, single, unsigned

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
    """What reads a register as numbers of float32 or float64."""
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


def _fma(instr: Instr, ctx: Context) -> Run:
    kind, mode = instr.parts[-1], _mode(instr)
    size = SIZES[kind]
    a, b, c = ctx.sources(instr, 3, size, kind)
    finish = _finish(instr)
    ftz = "ftz" in instr.parts
    get = getter(kind, ftz)
    if kind == "f64":
        if mode != "rn":
            raise ctx.unsupported(instr, f"rounding {mode}")
        return lambda R, M: finish(fma64(get(R[a]), get(R[b]), get(R[c])))
    rt = ctx.rt
    if mode == "rn" and not ftz and "sat" not in instr.parts:

        def fast(R: Registers, M: Mask) -> Value:
            cache = rt.wide
            return fma32_wide(wide(R, a, cache), wide(R, b, cache), wide(R, c, cache))

        return fast

    def slow(R: Registers, M: Mask) -> Value:
        x, y, z = (get(R[s]).astype(F64) for s in (a, b, c))
        if mode == "rn":
            return finish(fma32_wide(x, y, z).astype(F32))
        total, rest = two_sum(x * y, z)
        return finish(rounded32(total, np.where(np.isfinite(total), rest, 0), mode))

    return slow


def _sum(x: Array, y: Array, mode: str) -> Array:
    if x.dtype == F32:
        total, rest = two_sum(x.astype(F64), y.astype(F64))
        return rounded32(total, np.where(np.isfinite(total), rest, 0), mode)
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


def _binary(instr: Instr, ctx: Context) -> Run:
    kind, mode, op = instr.parts[-1], _mode(instr), instr.op
    size = SIZES[kind]
    a, b = ctx.sources(instr, 2, size, kind)
    finish = _finish(instr)
    get = getter(kind, "ftz" in instr.parts)
    if op in ("min", "max"):
        third = ctx.slot(instr.operands[3], size, kind) if len(instr.operands) > 3 else -1
        largest, nan = op == "max", "NaN" in instr.parts
        magnitude = "abs" in instr.parts

        def least(R: Registers, M: Mask) -> Value:
            x, y = get(R[a]), get(R[b])
            if magnitude:
                x, y = np.abs(x), np.abs(y)
            out = extreme(x, y, largest=largest, nan=nan)
            if third >= 0:
                z = get(R[third])
                out = extreme(out, z, largest=largest, nan=nan)
            return finish(out)

        return least
    plain: dict[str, Callable[[Array, Array], Array]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    }  # fmt: skip
    if mode == "rn":
        function = plain[op]
        return lambda R, M: finish(function(get(R[a]), get(R[b])))
    slow: dict[str, Callable[[Array, Array, str], Array]] = {
        "add": _sum, "sub": lambda x, y, m: _sum(x, -y, m), "mul": _times, "div": _over,
    }  # fmt: skip
    exact = slow[op]

    def rounded(R: Registers, M: Mask) -> Value:
        x, y = np.broadcast_arrays(get(R[a]), get(R[b]))
        return finish(exact(x, y, mode))

    return rounded


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "rcp": lambda x: 1.0 / x,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


def _unary(instr: Instr, ctx: Context) -> Run:
    kind, op = instr.parts[-1], instr.op
    size, mode = SIZES[kind], _mode(instr)
    a = ctx.slot(instr.operands[1], size, kind)
    ftz = "ftz" in instr.parts
    get, finish = getter(kind, ftz), _finish(instr)
    if op in ("abs", "neg"):
        sign = 1 << (8 * size - 1)
        word: Any = np.uint32 if size == 4 else np.uint64

        def bits(R: Registers, M: Mask) -> Value:
            x = unsigned(R[a], size)
            out = x & word(sign - 1) if op == "abs" else x ^ word(sign)
            out = out.view(F32 if size == 4 else F64)
            return flushed(out) if ftz else out

        return bits
    if op == "sqrt":
        return lambda R, M: finish(np.sqrt(get(R[a])) if mode == "rn" else _root(get(R[a]), mode))
    if op == "rcp" and "approx" not in instr.parts:

        def reciprocal(R: Registers, M: Mask) -> Value:
            x = get(R[a])
            one = np.ones_like(x)
            return finish(one / x if mode == "rn" else _over(one, x, mode))

        return reciprocal
    function = _FUNCTIONS.get(op)
    if function is None:
        raise ctx.unsupported(instr)
    approximate = function
    if kind == "f64":
        # rcp/rsqrt.approx.ftz.f64 look at the upper 32 bits only.
        upper = np.uint64(0xFFFFFFFF00000000)

        def top(R: Registers, M: Mask) -> Value:
            x = (unsigned(R[a], 8) & upper).view(F64)
            return (np.asarray(approximate(x)).view(np.uint64) & upper).view(F64)

        return top

    def narrow(R: Registers, M: Mask) -> Value:
        return finish(approximate(get(R[a]).astype(F64)).astype(F32))

    return narrow


def _copysign(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    a, b = ctx.sources(instr, 2, SIZES[kind], kind)
    get = getter(kind, False)
    # PTX: the result has the sign of the first source and the rest of the second.
    return lambda R, M: np.copysign(get(R[b]), get(R[a]))


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = {
    "fma": _fma, "mad": _fma, "add": _binary, "sub": _binary, "mul": _binary, "div": _binary,
    "min": _binary, "max": _binary, "abs": _unary, "neg": _unary, "sqrt": _unary,
    "rcp": _unary, "rsqrt": _unary, "sin": _unary, "cos": _unary, "lg2": _unary,
    "ex2": _unary, "tanh": _unary, "copysign": _copysign,
}  # fmt: skip
