"""``cvt`` in all its rounding modes, and half-precision and 8-bit formats.

float16 is NumPy's; bfloat16 is the upper half of a float32. Both are computed in
float64, where sums and products of two of their numbers are exact or end in a sticky
last bit (`exact.to_odd`), and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ptxemu.ops.exact import canonical, directed, flushed, rounded32
from ptxemu.ptx.instructions import SIZES, Instr
from ptxemu.state.context import Context, Registers, Run
from ptxemu.state.lanes import Mask
from ptxemu.state.values import (
    F32,
    F64,
    MASK,
    SIGNED,
    UNSIGNED,
    Array,
    Value,
    boxed,
    double,
    resize,
    signed,
    single,
    unsigned,
)

F16 = np.dtype(np.float16)
_FLOATS = ("f16", "bf16", "f32", "f64")
_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def odd32(x: Array) -> Array:
    """float64 -> float32, rounded to odd: a second rounding is then right."""
    near = x.astype(F32)
    gap = x - near.astype(F64)
    even = (near.view(np.uint32) & 1) == 0
    step = np.nextafter(near, np.where(gap > 0, F32.type(np.inf), F32.type(-np.inf)))
    return np.where((gap != 0) & even & np.isfinite(near), step, near)


def to_bf16(x: Array, mode: str = "rn") -> Array:
    """float64 (or float32) -> bfloat16 bits as uint16."""
    single_odd = odd32(x) if x.dtype == F64 else x
    bits = np.ascontiguousarray(single_odd).view(np.uint32)
    half = np.uint32(0) if mode == "rz" else (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)
    out = ((bits + half) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FFF), out)


def to_f16(x: Array, mode: str = "rn") -> Array:
    """float64 (or float32) -> float16 bits as uint16, NaN canonical."""
    near = x.astype(F16)
    if mode != "rn":
        gap = x.astype(F64) - near.astype(F64)
        near = directed(near, np.where(np.isfinite(near), np.sign(gap), 0), mode)
        if mode == "rz":  # a number that is too large becomes the largest
            big = np.isinf(near) & np.isfinite(x)
            near = np.where(big, np.copysign(F16.type(65504), near), near)
    return canonical(np.array(near)).view(np.uint16)


def unpack(value: Array, kind: str) -> Array:
    """uint16 bits of a half format as float64."""
    if kind.startswith("bf16"):
        return (value.astype(np.uint32) << 16).view(F32).astype(F64)
    return value.view(F16).astype(F64)


def pack(x: Array, kind: str, mode: str = "rn") -> Array:
    """float64 -> uint16 bits of a half format."""
    return to_bf16(x, mode) if kind.startswith("bf16") else to_f16(x, mode)


def _read(value: Value, size: int, kind: str) -> Array:
    """A source register of `size` bytes as numbers of `kind`."""
    width = SIZES[kind]
    if kind == "f64":
        return double(value)
    if kind == "f32":
        return single(value)
    bits = unsigned(value, size)
    if size != width:
        bits = bits.astype(UNSIGNED[width])
    if kind in ("f16", "bf16"):
        return unpack(bits, kind)
    return bits.view(SIGNED[width]) if kind[0] == "s" else bits


def _integer(kind: str) -> Any:
    return (SIGNED if kind[0] == "s" else UNSIGNED)[SIZES[kind]]


def _limits(kind: str) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    info = np.iinfo(_integer(kind))
    return int(info.min), int(info.max)


def _to_integer(x: Array, kind: str, source: str) -> Array:
    """Clamp to the type; NaN as the manual says."""
    bits, target = 8 * SIZES[kind], _integer(kind)
    low, top = _limits(kind)
    wide = x.astype(F64)
    below, above, lost = wide <= low, wide >= float(top), np.isnan(wide)
    plain = np.where(below | above | lost, 0.0, wide)
    out = plain.astype(target)
    out = np.where(below, target.type(low), np.where(above, target.type(top), out))
    special = 0 if source != "f64" and bits < 64 else (1 << (bits - 1))
    nan = np.array(special, np.uint64).astype(UNSIGNED[SIZES[kind]]).view(target)
    return np.where(lost, nan, out)


def _integers(
    to: str, source: str, size: int, out_size: int, sat: bool
) -> Callable[[Value], Value]:
    width, goal = SIZES[source], SIZES[to]

    def convert(value: Value) -> Value:
        x = resize(value, size, width, False) if size != width else value
        if sat:
            wide = _read(x, width, source).astype(np.int64)
            low, top = _limits(to)
            if source == "u64":
                wide = np.minimum(unsigned(x, 8), np.uint64(2**63 - 1)).astype(np.int64)
            clipped = np.clip(wide, low, min(top, 2**63 - 1)).astype(SIGNED[8])
            narrow = boxed(clipped.astype(UNSIGNED[goal]))
        else:
            narrow = resize(x, width, goal, source[0] == "s")
        return resize(narrow, goal, out_size, to[0] == "s") if out_size != goal else narrow

    return convert


def _cvt(instr: Instr, ctx: Context) -> Run:
    if instr.parts[1] == "pack":
        return _cvt_pack(instr, ctx)
    to, source = instr.parts[-2], instr.parts[-1]
    if to.endswith("x2") or source.endswith("x2"):
        return _pairs(instr, ctx)
    size = ctx.size(instr.operands[1], SIZES[source])
    out_size = max(ctx.size(instr.operands[0], SIZES[to]), SIZES[to])
    a = ctx.slot(instr.operands[1], SIZES[source], source)
    sat = "sat" in instr.parts
    if to == "tf32":
        # Round to nearest, ties away: add half of the last kept place to the bits.
        away = "rna" in instr.parts

        def tf32(R: Registers, M: Mask) -> Value:
            bits = unsigned(R[a], 4)
            half = np.uint32(0x1000) if away else np.uint32(0x0FFF) + ((bits >> 13) & 1)
            out = (bits + half) & np.uint32(0xFFFFE000)
            return np.where(np.isnan(bits.view(F32)), np.uint32(0x7FFFFFFF), out)

        return tf32
    if to not in _FLOATS and source not in _FLOATS:
        convert = _integers(to, source, size, out_size, sat)
        return lambda R, M: convert(R[a])
    ftz = "ftz" in instr.parts
    whole = next((_INTEGRAL[p] for p in instr.parts if p in _INTEGRAL), None)
    mode = next((p for p in instr.parts if p in ("rn", "rz", "rm", "rp")), "rn")
    relu = "relu" in instr.parts

    def run(R: Registers, M: Mask) -> Value:
        x = _read(R[a], size, source)
        if ftz and source == "f32":
            x = flushed(x)
        if whole is not None:
            x = whole(x)
        if to not in _FLOATS:
            out = _to_integer(x, to, source)
            if out_size != out.itemsize:
                out = out.astype(SIGNED[out_size] if to[0] == "s" else UNSIGNED[out_size])
            return boxed(out)
        if relu:
            x = np.maximum(x, x.dtype.type(0))
        if sat:
            x = np.where(np.isnan(x), x.dtype.type(0), np.clip(x, 0, 1).astype(x.dtype))
        return _to_float(x, to, mode, ftz)

    return run


def _to_float(x: Array, to: str, mode: str, ftz: bool) -> Array:
    if to in ("f16", "bf16"):
        return pack(x if x.dtype in (F32, F64) else x.astype(F64), to, mode)
    if to == "f64":
        return x.astype(F64)
    if x.dtype.kind in "iu" and x.itemsize == 8:
        near = x.astype(F32)  # correctly rounded by the CPU
        if mode == "rn":
            return near
        wide = near.astype(F64)
        inside = np.abs(wide) < 2.0**63
        back = np.where(inside, wide, 0).astype(np.int64)
        gap = np.where(inside, np.sign((x.astype(np.int64) - back).astype(F64)), -1)
        return directed(near, gap, mode)
    wide = x.astype(F64)
    out = wide.astype(F32) if mode == "rn" else rounded32(wide, np.zeros_like(wide), mode)
    out = canonical(np.array(out))
    return flushed(out) if ftz else out


def _cvt_pack(instr: Instr, ctx: Context) -> Run:
    """``cvt.pack.sat.s8.s32.b32 d, a, b, c``: c shifted up, a and b clamped below it."""
    to, source = instr.parts[3], instr.parts[4]
    width = SIZES[to]
    bits = 8 * width
    slots = [ctx.slot(operand, 4) for operand in instr.operands[1:]]
    low, top = _limits(to)
    get = signed if source[0] == "s" else unsigned

    def run(R: Registers, M: Mask) -> Value:
        x, y = (
            (np.clip(get(R[slot], 4).astype(np.int64), low, top) & MASK[width]).astype(np.uint32)
            for slot in slots[:2]
        )
        out = (x << np.uint32(bits)) | y
        if len(slots) > 2:
            out = out | (unsigned(R[slots[2]], 4) << np.uint32(2 * bits))
        return boxed(out)

    return run


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = {"cvt": _cvt}


# --- Conversions of 8-bit floats, which come in pairs: e4m3 without infinities, and e5m2 ---
# The formats are those of the OCP 8-bit Floating Point Specification 1.0; conversions to them
# saturate (``.satfinite``), as the manual requires.

#: Pair -> digits after the point, exponent bias, and the code of the greatest number.
_FORMATS = {"e4m3x2": (3, 7, 0x7E), "e5m2x2": (2, 15, 0x7B)}
_NAN = 0x7F
FLOAT8 = tuple(_FORMATS)


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


def _pairs(instr: Instr, ctx: Context) -> Run:
    """``cvt`` to a pair from two float32 (the first is its upper half), or from a pair."""
    to, source = instr.parts[-2:]
    if source == "f32":
        known = to in ("f16x2", "bf16x2", *FLOAT8)
    else:
        known = {to, source} in ({"f16x2", pair} for pair in FLOAT8)
    if not known:
        raise ctx.unsupported(instr)
    size, out = (UNSIGNED[2 if kind in FLOAT8 else 4] for kind in (source, to))
    slots = ctx.sources(instr, 2 if source == "f32" else 1, size.itemsize, "f32")
    mode, relu = "rz" if "rz" in instr.parts else "rn", "relu" in instr.parts

    def halves(R: Registers) -> list[Array]:
        if source == "f32":
            return [single(R[slot]) for slot in slots]
        word, bits = unsigned(R[slots[0]], size.itemsize), 4 * size.itemsize
        codes = [word >> size.type(bits), word & size.type((1 << bits) - 1)]
        return [
            numbers_of(source)[code]
            if source in FLOAT8
            else unpack(code.astype(UNSIGNED[2]), "f16")
            for code in codes
        ]

    def run(R: Registers, M: Mask) -> Value:
        found = []
        for x in halves(R):
            x = np.where(x <= 0, x.dtype.type(0), x) if relu else x
            code = encoded(x.astype(F64), to) if to in FLOAT8 else pack(x, to, mode)
            found.append(code.astype(out))
        high, low = found
        return np.asarray(high << out.type(4 * out.itemsize) | low)

    return run
