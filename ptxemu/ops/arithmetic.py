"""Integer and logic instructions, with and without the carry flag, and those of pairs (DPX)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxemu.ptx.instructions import SIZES, Instr
from ptxemu.state.context import Context, Registers, Run, put, writes_itself
from ptxemu.state.lanes import Mask
from ptxemu.state.values import (
    MASK,
    TRUTH,
    UNSIGNED,
    Affine,
    Array,
    Base,
    Binary,
    Value,
    add,
    boxed,
    flags,
    high,
    invert,
    multiply,
    negate,
    scale,
    signed,
    truth,
    unsigned,
    widen,
)


def _binary(
    function: Binary, size: int, is_signed: bool, second: int = 0
) -> Callable[[Value, Value], Value]:
    """A function of register values; the other operand has `second` bytes, if given."""
    get = signed if is_signed else unsigned
    other, width = (unsigned, second) if second else (get, size)

    def apply(x: Value, y: Value) -> Value:
        # Values that depend on the thread alone are worth caching: blocks repeat them.
        if type(y) is int and type(x) is Affine and x.base.arr.shape[0] == 1:
            key = (function, x.off, y, is_signed)
            found = x.base.memo.get(key)
            if found is None:
                found = x.base.remember(key, boxed(function(get(x, size), other(y, width))))
            return found  # type: ignore[no-any-return]
        return boxed(function(get(x, size), other(y, width)))

    return apply


def _quotient(x: Array, y: Array) -> Array:
    """Division towards zero; by zero all bits are set, as on the chip."""
    zero = y == 0
    safe = np.where(zero, y.dtype.type(1), y)
    if x.dtype.kind == "u":
        return np.where(zero, ~y.dtype.type(0), x // safe)
    with np.errstate(over="ignore"):
        magnitude = np.abs(x).view(f"u{x.itemsize}") // np.abs(safe).view(f"u{x.itemsize}")
        result = magnitude.view(x.dtype)
        result = np.where((x < 0) ^ (safe < 0), -result, result)
    return np.asarray(np.where(zero, y.dtype.type(-1), result))


def _remainder(x: Array, y: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.where(y == 0, x, x - _quotient(x, y) * y)


def _shift_left(x: Array, y: Array) -> Array:
    bits = 8 * x.itemsize
    amount = np.minimum(y, bits - 1).astype(x.dtype)
    return np.asarray(np.where(y >= bits, x.dtype.type(0), np.left_shift(x, amount)))


def _shift_right(x: Array, y: Array) -> Array:
    bits = 8 * x.itemsize
    amount = np.minimum(y, bits - 1).astype(x.dtype)
    gone = x.dtype.type(0) if x.dtype.kind == "u" else x >> x.dtype.type(bits - 1)
    return np.asarray(np.where(y >= bits, gone, np.right_shift(x, amount)))


def _saturating(sign: int) -> Binary:
    def function(x: Array, y: Array) -> Array:
        total = x.astype(np.int64) + sign * y.astype(np.int64)
        info = np.iinfo(x.dtype)
        return np.asarray(np.clip(total, info.min, info.max).astype(x.dtype))

    return function


#: Functions of two operands, read by the sign of the type.
_TWO: dict[str, Binary] = {
    "min": np.minimum, "max": np.maximum, "div": _quotient, "rem": _remainder,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_SATURATED = {"add": _saturating(1), "sub": _saturating(-1)}
#: Functions of one operand and its bytes.
_ONE: dict[str, Callable[[Value, int], Value]] = {
    "neg": negate,
    "not": lambda x, size: add(negate(x, size), MASK[size], size),
    "abs": lambda x, size: boxed(np.abs(signed(x, size))),
    "cnot": lambda x, size: boxed((unsigned(x, size) == 0).astype(UNSIGNED[size])),
}


def _two(instr: Instr, ctx: Context) -> Run:
    kind, op = instr.parts[-1], instr.op
    if kind == "pred":
        return _logic(instr, ctx)
    size = SIZES[kind]
    a, b = ctx.sources(instr, 2, size)
    if op == "add" and "sat" not in instr.parts:
        return lambda R, M: add(R[a], R[b], size)
    if op == "sub" and "sat" not in instr.parts:
        return lambda R, M: add(R[a], negate(R[b], size), size)
    apply = _binary(_SATURATED.get(op) or _TWO[op], size, kind[0] == "s")
    return lambda R, M: apply(R[a], R[b])


def _logic(instr: Instr, ctx: Context) -> Run:
    a, b = ctx.sources(instr, 2, 0)
    na, nb = (getattr(operand, "negated", False) for operand in instr.operands[1:3])
    on_truth = TRUTH[instr.op]

    def run(R: Registers, M: Mask) -> Value:
        x, y = R[a], R[b]
        return flags(on_truth(truth(invert(x) if na else x), truth(invert(y) if nb else y)))

    return run


def _one(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    if kind == "pred":
        (a,) = ctx.sources(instr, 1, 0)
        return lambda R, M: invert(R[a])
    size, function = SIZES[kind], _ONE[instr.op]
    (a,) = ctx.sources(instr, 1, size)
    return lambda R, M: function(R[a], size)


def _shift(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    size = SIZES[kind]
    a, b = ctx.slot(instr.operands[1], size), ctx.slot(instr.operands[2], 4)
    if instr.op == "shr":
        shift = _binary(_shift_right, size, kind[0] == "s", 4)
        return lambda R, M: shift(R[a], R[b])

    def left(R: Registers, M: Mask) -> Value:
        amount = R[b]
        if type(amount) is int:
            return scale(R[a], 1 << amount, size) if amount < 8 * size else 0
        return boxed(_shift_left(unsigned(R[a], size), unsigned(amount, 4)))

    return left


def _product(instr: Instr, ctx: Context) -> Run:
    """``mul``, ``mad`` and their 24-bit forms."""
    kind = instr.parts[-1]
    size, is_signed = SIZES[kind], kind[0] == "s"
    mode = instr.parts[1]
    a, b = ctx.sources(instr, 2, size)
    get = signed if is_signed else unsigned
    out = 2 * size if mode == "wide" else size
    products: dict[str, Callable[[Value, Value], Value]] = {
        "lo": lambda x, y: multiply(x, y, size),
        "hi": lambda x, y: boxed(high(get(x, size), get(y, size))),
        "wide": lambda x, y: multiply(widen(x, size, is_signed), widen(y, size, is_signed), out),
    }
    product = products[mode]
    if instr.op in ("mul24", "mad24"):
        if mode != "lo":
            raise ctx.unsupported(instr)
        # The lowest 24 bits of each.
        product = lambda x, y: multiply(_low24(x, is_signed), _low24(y, is_signed), size)  # noqa: E731
    if instr.op in ("mul", "mul24"):
        return lambda R, M: product(R[a], R[b])
    if "sat" in instr.parts or "cc" in instr.parts:
        raise ctx.unsupported(instr)
    c = ctx.slot(instr.operands[3], out)
    return lambda R, M: add(product(R[a], R[b]), R[c], out)


def _low24(x: Value, is_signed: bool) -> Value:
    bits = unsigned(x, 4) << np.uint32(8)
    return boxed(bits.view(np.int32) >> np.int32(8) if is_signed else bits >> np.uint32(8))


def _select(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    size = SIZES[kind]
    a, b = ctx.sources(instr, 2, size, kind)
    p = ctx.slot(instr.operands[3], 0)

    def run(R: Registers, M: Mask) -> Value:
        chosen = R[p]
        if type(chosen) is int:
            return R[a] if chosen else R[b]  # type: ignore[no-any-return]
        x, y = unsigned(R[a], size), unsigned(R[b], size)
        return Affine(Base(np.where(chosen, x, y)), 0)

    return run


# --- the carry flag

#: Name of each lane's hidden register that ``.cc`` writes; no PTX name has parentheses.
_FLAG = "(carry)"


def with_carry(instr: Instr, ctx: Context) -> Run:
    """``add``, ``sub`` and ``mad`` with carry, of 32 and 64 bits."""
    kind = instr.parts[-1]
    size = SIZES[kind]
    operation = instr.op.rstrip("c")
    target, flag = ctx.target(instr.operands[0]), ctx.register(_FLAG)
    slots = ctx.sources(instr, 3, size)
    reads, writes = instr.op.endswith("c"), "cc" in instr.parts
    upper = "hi" in instr.parts
    get = signed if kind[0] == "s" else unsigned
    takes = np.uint32(operation == "sub")  # x - y - borrow is x + ~y + (1 - borrow)

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        known: Value = R[flag] if reads and R[flag] is not None else 0
        carry = (unsigned(known, 4) ^ takes).astype(UNSIGNED[size])
        first, *others = (get(R[slot], size) for slot in slots)
        if operation == "mad":
            first = high(first, others.pop(0)) if upper else first * others.pop(0)
        x, y = first.view(UNSIGNED[size]), others[0].view(UNSIGNED[size])
        part = x + (~y if takes else y)
        total = part + carry
        put(R, M, target, boxed(total), size)
        if writes:
            out = ((part < x) | (total < part)).astype(np.uint32) ^ takes
            put(R, M, flag, boxed(out), 4)

    return many


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = {
    **dict.fromkeys(("add", "sub", *_TWO), _two), **dict.fromkeys(_ONE, _one),
    **dict.fromkeys(("mul", "mad", "mul24", "mad24"), _product),
    "shl": _shift, "shr": _shift, "selp": _select,
}  # fmt: skip


# Pairs of 16-bit integers, and extremes that stop at zero: Hopper's dynamic programming (DPX).
# The PTX manual, at ``add``, ``min`` and ``max``: for ``u16x2`` and ``s16x2`` each half of a word
# is computed separately; ``relu`` turns negative results into zero. ``nvcc`` writes ``relu`` after
# the type, the manual before it.

DPX_PAIRS = ("u16x2", "s16x2")
_DONE: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
_VIEWS: dict[str, np.dtype[Any]] = {
    "u16x2": np.dtype("u2"), "s16x2": np.dtype("i2"), "s32": np.dtype("i4"),
}  # fmt: skip


def is_dpx(instr: Instr) -> bool:
    """True if the instruction is one of these.

    A one-word `add` is not: it is in `ptxemu.ops.arithmetic`.
    """
    if instr.op not in _DONE:
        return False
    kinds = set(instr.parts[-2:])
    return not kinds.isdisjoint(DPX_PAIRS) or ("relu" in kinds and "s32" in instr.parts)


def dpx(instr: Instr, ctx: Context) -> Run:
    """``add``, ``min`` and ``max`` of pairs, and with ``relu``.

    Raises:
        KeyError: there is no such type.
        ValueError: a modifier that the manual does not allow there.
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
