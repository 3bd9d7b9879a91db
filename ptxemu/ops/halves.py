"""Arithmetic of float16, bfloat16 and their packed pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxemu.ops.conversions import pack, unpack
from ptxemu.ops.exact import to_odd, two_sum
from ptxemu.ops.floats import extreme, saturated
from ptxemu.ptx.instructions import SIZES, Instr
from ptxemu.state.context import Context, Registers, Run
from ptxemu.state.lanes import Mask
from ptxemu.state.values import F64, UNSIGNED, Array, Value, unsigned

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


def _fma(x: Array, y: Array, z: Array) -> Array:
    total, rest = two_sum(x * y, z)
    return to_odd(total, np.where(np.isfinite(total), rest, 0))


def function_of(op: str, *, nan: bool = False) -> Callable[..., Array]:
    """An operation on float64 numbers that are halves; its result is to be rounded once.

    With `nan`, ``min`` and ``max`` of NaN and a number are NaN.
    """
    table: dict[str, Callable[..., Array]] = {
        "add": lambda x, y: to_odd(*two_sum(x, y)),
        "sub": lambda x, y: to_odd(*two_sum(x, -y)),
        "mul": np.multiply,
        "fma": _fma,
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


def _sign(instr: Instr, ctx: Context) -> Run:
    size = SIZES[instr.parts[-1]]
    a = ctx.slot(instr.operands[1], size)
    word = UNSIGNED[size].type
    sign = word(0x8000 if size == 2 else 0x80008000)
    if instr.op == "neg":
        return lambda R, M: unsigned(R[a], size) ^ sign
    return lambda R, M: unsigned(R[a], size) & ~sign


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = {
    **dict.fromkeys(("add", "sub", "mul", "fma", "min", "max", "ex2", "tanh"), _arithmetic),
    "neg": _sign, "abs": _sign,
}  # fmt: skip
