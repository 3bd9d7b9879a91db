"""Arithmetic that rounds once: fused multiply-adds and directed rounding.

A float32 product is exact in float64, but the sum that follows is rounded there and a
second time on the way back. The second rounding is wrong only if the float64 sum is on a tie of
float32 (or in its subnormal range) and was itself inexact; those lanes are rare, found by their low
bits, and repaired by rounding the float64 sum to odd (S. Boldo, G. Melquiond: Emulation of FMA and
correctly rounded sums: proved algorithms using rounding to odd, IEEE Trans. Computers 57(4), 2008).
The same paper's algorithm 5 gives the float64 operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ptxemu.state.values import F32, F64, Array

_LOW = np.int64(0x1FFFFFFF)  # float64 mantissa bits that float32 lacks
_TIE = np.int64(0x10000000)
_TINY = 2.0**-126  # least normal float32

#: Set by NumPy's error callback when a conversion to float32 was tiny and inexact.
_underflow = [False]


def note_underflow(kind: str, flag: int) -> None:
    """The callback for ``np.errstate(under="call")`` under which the machine runs."""
    _underflow[0] = True


def floating_state() -> Any:
    """NumPy's floating-point error handling while lanes run."""
    return np.errstate(all="ignore", under="call", call=note_underflow)


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """X + y = s + e exactly (Knuth)."""
    s = x + y
    v = s - x
    return s, (x - (s - v)) + (y - v)


def to_odd(s: Array, e: Array) -> Array:
    """A float64 sum with its error: round to odd instead of to nearest."""
    even = (s.view(np.int64) & 1) == 0
    nudge = (e != 0) & even & np.isfinite(s)
    return np.where(nudge, np.nextafter(s, np.where(e > 0, np.inf, -np.inf)), s)


def fma32_wide(a: Array, b: Array, c: Array) -> Array:
    """Fma of float32 numbers held as float64; the result is float32 in float64 again."""
    product: Array = np.multiply(a, b)
    return _narrowed(product, product + c, lambda: c).astype(F64)


def fma32_stacked(operands: list[tuple[Array, Array, Array]], shape: tuple[int, int]) -> Array:
    """`fma32_wide` of many operand triples at once; row i of the result is triple i's."""
    products = np.empty((len(operands), *shape))
    total = np.empty_like(products)
    for row, out, (a, b, c) in zip(products, total, operands, strict=True):
        np.multiply(a, b, out=row)
        np.add(row, c, out=out)
    addends = lambda: np.stack([np.broadcast_to(c, shape) for _, _, c in operands])  # noqa: E731
    np.copyto(total, _narrowed(products, total, addends))
    return total


def _narrowed(product: Array, total: Array, addend: Callable[[], Array]) -> Array:
    """The float64 sum of a product and an addend as float32, rounded once."""
    risky = np.equal(np.bitwise_and(total.view(np.int64), _LOW), _TIE)
    if risky.any():
        total = _repaired(product, addend(), total, risky)
    _underflow[0] = False
    out = total.astype(F32)
    if _underflow[0]:
        small = (np.abs(total) < 2 * _TINY) & (total != 0)
        out = _repaired(product, addend(), total, small).astype(F32)
    return out


def _repaired(product: Array, c: Array, total: Array, where: Array) -> Array:
    total = np.array(np.broadcast_to(total, where.shape))
    p = np.broadcast_to(product, where.shape)[where]
    s, e = two_sum(p, np.broadcast_to(c, where.shape)[where])
    total[where] = to_odd(s, e)
    return total


def _split(x: Array) -> tuple[Array, Array]:
    t = x * 134217729.0  # 2**27 + 1 (Dekker, Veltkamp)
    high = t - (t - x)
    return high, x - high


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """X * y = p + e exactly, away from overflow and underflow."""
    p = x * y
    xh, xl = _split(x)
    yh, yl = _split(y)
    return p, ((xh * yh - p) + xh * yl + xl * yh) + xl * yl


def _safe(x: Array) -> Array:
    """Exponents for which no step of the algorithms over- or underflows."""
    m = np.abs(x)
    return np.asarray((m == 0) | ((m > 2.0**-400) & (m < 2.0**400)))


def fma64(a: Array, b: Array, c: Array) -> Array:
    """Correctly rounded a * b + c in float64."""
    a, b, c = np.broadcast_arrays(a, b, c)
    uh, ul = two_product(a, b)
    th, tl = two_sum(c, ul)
    vh, vl = two_sum(uh, th)
    z = to_odd(*two_sum(tl, vl))
    out = np.array(vh + z)
    zero = (a == 0) | (b == 0)
    easy = _safe(a) & _safe(b) & _safe(c)
    # An exact zero product (or sum) must keep IEEE's signs; plain arithmetic does so.
    plain = zero | (easy & (out == 0))
    out[plain] = (a * b + c)[plain]
    hard = ~easy & ~plain
    for index in zip(*np.nonzero(hard), strict=True):
        out[index] = _fma_exact(float(a[index]), float(b[index]), float(c[index]))
    return out


def _fma_exact(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return math.nan if math.isnan(a * b) else a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a * b == 0 else 0.0
    try:
        return float(exact)  # int / int division of CPython rounds correctly
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def directed(nearest: Array, error_sign: Array, mode: str) -> Array:
    """From the nearest result and the sign of (exact - nearest) to another rounding.

    That is ``rz``, ``rm`` (towards -inf) or ``rp`` (towards +inf).
    """
    if mode in ("rn", "rni"):
        return nearest
    one = nearest.dtype.type
    down, up = one(-np.inf), one(np.inf)
    if mode == "rm":
        return np.where(error_sign < 0, np.nextafter(nearest, down), nearest)
    if mode == "rp":
        return np.where(error_sign > 0, np.nextafter(nearest, up), nearest)
    towards = np.where(nearest > 0, error_sign < 0, error_sign > 0)
    return np.where(towards, np.nextafter(nearest, one(0)), nearest)


def rounded32(value: Array, rest: Array, mode: str) -> Array:
    """float64 ``value + rest`` (rest below value's last place) -> float32 in any mode."""
    near = to_odd(value, rest).astype(F32)
    if mode == "rn":
        return near
    gap = value - near.astype(F64)
    sign = np.where(gap != 0, np.sign(gap), np.sign(rest))
    return directed(near, np.where(np.isfinite(value), sign, 0), mode)


def canonical(out: Array) -> Array:
    """NaN results as the GPU writes them: one bit pattern per type."""
    bad = np.isnan(out)
    if bad.any():
        if not out.flags.writeable or not out.flags.owndata:
            out = out.copy()
        if out.dtype == F32:
            out.view(np.uint32)[bad] = 0x7FFFFFFF
        elif out.dtype == F64:
            out.view(np.uint64)[bad] = 0xFFF8000000000000
        else:
            out.view(np.uint16)[bad] = 0x7FFF
    return out


def flushed(x: Array) -> Array:
    """Subnormal float32 numbers as zeros of the same sign (``.ftz``)."""
    small = (np.abs(x) < _TINY) & (x != 0)
    return np.where(small, np.copysign(x.dtype.type(0), x), x) if small.any() else x
