"""Conversions of 8-bit floats, which come in pairs: e4m3 without infinities, and e5m2.

The formats are those of the OCP 8-bit Floating Point Specification 1.0; conversions to them
saturate (``.satfinite``), as the manual requires.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ptxemu.ops.conversions import to_f16, unpack
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import Context, Registers, Run
from ptxemu.state.lanes import Mask
from ptxemu.state.values import F64, UNSIGNED, Array, Value, single, unsigned

#: Pair -> digits behind the point, exponent bias, and the code of the greatest number.
_FORMATS = {"e4m3x2": (3, 7, 0x7E), "e5m2x2": (2, 15, 0x7B)}
_NAN = 0x7F
PAIRS = tuple(_FORMATS)


@lru_cache(maxsize=2)
def numbers_of(pair: str) -> Array:
    """The 256 numbers of a format, as float64."""
    digits, bias, top = _FORMATS[pair]
    code = np.arange(128)
    power, rest = code >> digits, code & ((1 << digits) - 1)
    size = np.ldexp(rest + (power > 0) * float(1 << digits), np.maximum(power, 1) - bias - digits)
    size[top + 1 :] = np.nan
    if pair == "e5m2x2":
        size[top + 1] = np.inf
    return np.concatenate([size, -size])


def encoded(x: Array, pair: str) -> Array:
    """float64 -> codes as uint16: to nearest, ties to even; beyond the greatest, the greatest."""
    known = numbers_of(pair)[: _FORMATS[pair][2] + 1]
    middles = (known[1:] + known[:-1]) / 2
    size = np.abs(x)
    code = np.searchsorted(middles, size)
    tie = (code < len(middles)) & (middles[np.minimum(code, len(middles) - 1)] == size)
    code = code + (tie & (code % 2 == 1)) + np.where(np.signbit(x), 0x80, 0)
    return np.where(np.isnan(x), _NAN, code).astype(np.uint16)


def convert(instr: Instr, ctx: Context) -> Run:
    """``cvt`` to a pair from two float32 or two halves, and from a pair to two halves."""
    to, source = instr.parts[-2:]
    relu = "relu" in instr.parts

    def positive(x: Array) -> Array:
        return np.where(x <= 0, 0.0, x) if relu else x

    if source in PAIRS:
        if to != "f16x2":
            raise ctx.unsupported(instr)
        (a,) = ctx.sources(instr, 1, 2)

        def widen(R: Registers, M: Mask) -> Value:
            codes = unsigned(R[a], 2)
            parts = (numbers_of(source)[(codes >> shift) & 0xFF] for shift in (0, 8))
            low, high = (to_f16(positive(part)).astype(np.uint32) for part in parts)
            return low | (high << np.uint32(16))

        return widen
    if source == "f32":
        high_slot, low_slot = ctx.sources(instr, 2, 4, "f32")

        def narrow(R: Registers, M: Mask) -> Value:
            high, low = (single(R[slot]).astype(F64) for slot in (high_slot, low_slot))
            return _pair(positive(high), positive(low), to)

        return narrow
    if source != "f16x2":
        raise ctx.unsupported(instr)
    (h,) = ctx.sources(instr, 1, 4)

    def halves(R: Registers, M: Mask) -> Value:
        bits = unsigned(R[h], 4)
        low, high = (
            unpack((bits >> np.uint32(shift)).astype(UNSIGNED[2]), "f16") for shift in (0, 16)
        )
        return _pair(positive(high), positive(low), to)

    return halves


def _pair(high: Array, low: Array, pair: str) -> Array:
    return (encoded(high, pair) << np.uint16(8)) | encoded(low, pair)
