"""Arithmetic of float16, bfloat16 and their packed pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.emulator.ops.arithmetic import combine
from workbench.emulator.ops.conversions import pack, unpack
from workbench.emulator.ops.exact import to_odd, two_sum
from workbench.emulator.ops.floats import compare
from workbench.emulator.ptx.instructions import SIZES, Instr, Operand, Pair
from workbench.emulator.state.context import Context, Registers, Run, put, writes_itself
from workbench.emulator.state.integers import flags
from workbench.emulator.state.lanes import Mask
from workbench.emulator.state.values import F64, UNSIGNED, Array, Value, unsigned

KINDS = ("f16", "f16x2", "bf16", "bf16x2")
_LEAST = {"f16": 2.0**-14, "bf16": 2.0**-126}


def _split(value: Value, kind: str) -> Array:
    """A register as float64 numbers, its halves along the last axis."""
    bits = np.ascontiguousarray(unsigned(value, SIZES[kind]))
    halves = bits.view(np.uint16).reshape(*bits.shape, SIZES[kind] // 2)
    return unpack(halves, kind)


def _join(x: Array, kind: str) -> Array:
    bits = np.ascontiguousarray(pack(x, kind))
    return bits.view(UNSIGNED[SIZES[kind]])[..., 0]


def _flush(x: Array, kind: str) -> Array:
    small = np.abs(x) < _LEAST[kind.removesuffix("x2")]
    return np.where(small, np.copysign(0.0, x), x)


def _extreme(x: Array, y: Array, *, largest: bool, nan: bool) -> Array:
    first = np.where(x == y, np.signbit(x) > np.signbit(y), x < y)
    out = np.where(first ^ largest, x, y)
    lost = np.isnan(x) | np.isnan(y)
    return np.where(lost, np.nan if nan else np.where(np.isnan(x), y, x), out)


def _fma(x: Array, y: Array, z: Array) -> Array:
    total, rest = two_sum(x * y, z)
    return to_odd(total, np.where(np.isfinite(total), rest, 0))


def _arithmetic(instr: Instr, ctx: Context) -> Run:
    kind, op = instr.parts[-1], instr.op
    size = SIZES[kind]
    slots = [ctx.slot(operand, size) for operand in instr.operands[1:]]
    ftz, sat, relu = "ftz" in instr.parts, "sat" in instr.parts, "relu" in instr.parts
    nan = "NaN" in instr.parts
    table: dict[str, Callable[..., Array]] = {
        "add": lambda x, y: to_odd(*two_sum(x, y)),
        "sub": lambda x, y: to_odd(*two_sum(x, -y)),
        "mul": np.multiply,
        "fma": _fma,
        "min": lambda x, y: _extreme(x, y, largest=False, nan=nan),
        "max": lambda x, y: _extreme(x, y, largest=True, nan=nan),
        "ex2": np.exp2,
        "tanh": np.tanh,
    }
    function = table[op]

    def run(R: Registers, M: Mask) -> Value:
        values = [_split(R[slot], kind) for slot in slots]
        if ftz:
            values = [_flush(value, kind) for value in values]
        out = np.asarray(function(*np.broadcast_arrays(*values)), F64)
        if sat:
            out = np.where(np.isnan(out), 0.0, np.clip(out, 0, 1))
        if relu:
            out = np.where(np.isnan(out), out, np.maximum(out, 0))
        if ftz:
            out = _flush(out, kind)
        return _join(out, kind)

    return run


def _sign(instr: Instr, ctx: Context) -> Run:
    size = SIZES[instr.parts[-1]]
    a = ctx.slot(instr.operands[1], size)
    word = UNSIGNED[size].type
    sign = word(0x8000 if size == 2 else 0x80008000)
    if instr.op == "neg":
        return lambda R, M: unsigned(R[a], size) ^ sign
    return lambda R, M: unsigned(R[a], size) & ~sign


def _setp(instr: Instr, ctx: Context) -> Run:
    kind, how = instr.parts[-1], instr.parts[1]
    size = SIZES[kind]
    a, b = ctx.slot(instr.operands[1], size), ctx.slot(instr.operands[2], size)
    if not kind.endswith("x2"):

        def test(R: Registers, M: Mask) -> Value:
            return flags(compare(how, _split(R[a], kind)[..., 0], _split(R[b], kind)[..., 0]))

        return combine(instr, ctx, test)
    target: Operand = instr.operands[0]
    if not isinstance(target, Pair):
        raise ctx.unsupported(instr)
    p, q = ctx.target(target.first), ctx.target(target.second)

    @writes_itself
    def both(R: Registers, M: Mask) -> None:
        result = compare(how, *np.broadcast_arrays(_split(R[a], kind), _split(R[b], kind)))
        put(R, M, p, flags(result[..., 0]), 0)
        put(R, M, q, flags(result[..., 1]), 0)

    return both


def _set(instr: Instr, ctx: Context) -> Run:
    to, kind, how = instr.parts[-2], instr.parts[-1], instr.parts[1]
    size = SIZES[kind]
    a, b = ctx.slot(instr.operands[1], size), ctx.slot(instr.operands[2], size)

    def run(R: Registers, M: Mask) -> Value:
        result = compare(how, *np.broadcast_arrays(_split(R[a], kind), _split(R[b], kind)))
        if to in KINDS:
            return _join(result.astype(F64), to)
        return np.where(result[..., 0], np.uint32(0xFFFFFFFF), np.uint32(0))

    return run


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = {
    **dict.fromkeys(("add", "sub", "mul", "fma", "min", "max", "ex2", "tanh"), _arithmetic),
    "neg": _sign, "abs": _sign, "setp": _setp, "set": _set,
}  # fmt: skip
