"""Integer, logic and comparison instructions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.emulator.ptx.instructions import SIZES, Instr, Pair, Reg
from workbench.emulator.state.context import Context, Registers, Run, put, writes_itself
from workbench.emulator.state.integers import (
    Binary,
    add,
    boxed,
    compare,
    flags,
    high,
    invert,
    multiply,
    negate,
    scale,
    widen,
)
from workbench.emulator.state.lanes import Mask
from workbench.emulator.state.values import (
    MASK,
    UNSIGNED,
    Affine,
    Array,
    Base,
    Value,
    signed,
    truth,
    unsigned,
)


def _binary(function: Binary, size: int, is_signed: bool) -> Callable[[Value, Value], Value]:
    get = signed if is_signed else unsigned

    def apply(x: Value, y: Value) -> Value:
        # What depends on the thread alone is worth remembering: blocks repeat it.
        if type(y) is int and type(x) is Affine and x.base.arr.shape[0] == 1:
            key = (function, x.off, y, is_signed)
            found = x.base.memo.get(key)
            if found is None:
                found = x.base.remember(key, boxed(function(get(x, size), get(y, size))))
            return found  # type: ignore[no-any-return]
        return boxed(function(get(x, size), get(y, size)))

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


_LOGIC: dict[str, Binary] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_TRUTH: dict[str, Binary] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _arithmetic(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    size, op = SIZES[kind], instr.op
    a = ctx.slot(instr.operands[1], size)
    b = ctx.slot(instr.operands[2], size)
    if op == "add" and "sat" not in instr.parts:
        return lambda R, M: add(R[a], R[b], size)
    if op == "sub" and "sat" not in instr.parts:
        return lambda R, M: add(R[a], negate(R[b], size), size)
    table: dict[str, Binary] = {"min": np.minimum, "max": np.maximum, "div": _quotient,
                                "rem": _remainder}  # fmt: skip
    if op in ("add", "sub"):
        table = {"add": _saturating(1), "sub": _saturating(-1)}
    apply = _binary(table[op], size, kind[0] == "s")
    return lambda R, M: apply(R[a], R[b])


def _saturating(sign: int) -> Binary:
    def function(x: Array, y: Array) -> Array:
        total = x.astype(np.int64) + sign * y.astype(np.int64)
        info = np.iinfo(x.dtype)
        return np.asarray(np.clip(total, info.min, info.max).astype(x.dtype))

    return function


def _logic(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    op = instr.op
    if kind == "pred":
        a = ctx.slot(instr.operands[1], 0)
        b = ctx.slot(instr.operands[2], 0)
        na, nb = _negated(instr, 1), _negated(instr, 2)
        on_truth = _TRUTH[op]

        def run(R: Registers, M: Mask) -> Value:
            x, y = R[a], R[b]
            x = invert(x) if na else x
            y = invert(y) if nb else y
            return flags(on_truth(truth(x), truth(y)))

        return run
    size = SIZES[kind]
    a, b = ctx.slot(instr.operands[1], size), ctx.slot(instr.operands[2], size)
    apply = _binary(_LOGIC[op], size, False)
    return lambda R, M: apply(R[a], R[b])


def _negated(instr: Instr, index: int) -> bool:
    operand = instr.operands[index]
    return isinstance(operand, Reg) and operand.negated


def _not(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    if kind == "pred":
        a = ctx.slot(instr.operands[1], 0)
        return lambda R, M: invert(R[a])
    size = SIZES[kind]
    a = ctx.slot(instr.operands[1], size)
    if instr.op == "neg":
        return lambda R, M: negate(R[a], size)
    if instr.op == "not":
        return lambda R, M: add(negate(R[a], size), MASK[size], size)
    if instr.op == "abs":
        return lambda R, M: boxed(np.abs(signed(R[a], size)))
    # cnot: 1 where zero
    return lambda R, M: boxed((unsigned(R[a], size) == 0).astype(UNSIGNED[size]))


def _shift(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    size = SIZES[kind]
    a, b = ctx.slot(instr.operands[1], size), ctx.slot(instr.operands[2], 4)
    if instr.op == "shl":

        def left(R: Registers, M: Mask) -> Value:
            amount = R[b]
            if type(amount) is int:
                return scale(R[a], 1 << amount, size) if amount < 8 * size else 0
            return boxed(_shift_left(unsigned(R[a], size), unsigned(amount, 4)))

        return left
    is_signed = kind[0] == "s"
    get = signed if is_signed else unsigned

    def right(R: Registers, M: Mask) -> Value:
        x, amount = R[a], R[b]
        if type(x) is Affine and type(amount) is int and x.base.arr.shape[0] == 1:
            key = ("shr", x.off, amount, is_signed)
            found = x.base.memo.get(key)
            if found is None:
                result = boxed(_shift_right(get(x, size), unsigned(amount, 4)))
                found = x.base.remember(key, result)
            return found  # type: ignore[no-any-return]
        return boxed(_shift_right(get(x, size), unsigned(amount, 4)))

    return right


def _product(instr: Instr, ctx: Context) -> Run:
    """``mul``, ``mad`` and their 24-bit forms."""
    kind = instr.parts[-1]
    size, is_signed = SIZES[kind], kind[0] == "s"
    mode = instr.parts[1]
    a, b = ctx.slot(instr.operands[1], size), ctx.slot(instr.operands[2], size)
    get = signed if is_signed else unsigned
    if mode == "lo":

        def product(x: Value, y: Value) -> Value:
            return multiply(x, y, size)

        out = size
    elif mode == "wide":

        def product(x: Value, y: Value) -> Value:
            return multiply(widen(x, size, is_signed), widen(y, size, is_signed), 2 * size)

        out = 2 * size
    elif mode == "hi":

        def product(x: Value, y: Value) -> Value:
            return boxed(high(get(x, size), get(y, size)))

        out = size
    else:
        raise ctx.unsupported(instr)
    if instr.op in ("mul24", "mad24"):
        if mode != "lo":
            raise ctx.unsupported(instr)
        whole = product

        def product(x: Value, y: Value) -> Value:  # the lowest 24 bits of each
            return whole(_low24(x, is_signed), _low24(y, is_signed))

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
    """``selp``."""
    kind = instr.parts[-1]
    size = SIZES[kind]
    a = ctx.slot(instr.operands[1], size, kind)
    b = ctx.slot(instr.operands[2], size, kind)
    p = ctx.slot(instr.operands[3], 0)

    def run(R: Registers, M: Mask) -> Value:
        chosen = R[p]
        if type(chosen) is int:
            return R[a] if chosen else R[b]  # type: ignore[no-any-return]
        x, y = unsigned(R[a], size), unsigned(R[b], size)
        return Affine(Base(np.where(chosen, x, y)), 0)

    return run


def _setp(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    size, is_signed = SIZES[kind], kind[0] == "s"
    how = instr.parts[1]
    a, b = ctx.slot(instr.operands[1], size), ctx.slot(instr.operands[2], size)
    return combine(
        instr,
        ctx,
        lambda R, M: compare(how, R[a], R[b], size, is_signed),
    )


def combine(instr: Instr, ctx: Context, test: Run) -> Run:
    """The rest of ``setp``: a boolean operator with a third operand, and ``p|q``."""
    target = instr.operands[0]
    third: int | None = None
    negated = False
    mix = next((p for p in instr.parts[2:-1] if p in _TRUTH), "")
    if mix:
        third = ctx.slot(instr.operands[3], 0)
        negated = _negated(instr, 3)
    if third is None and not isinstance(target, Pair):
        return test

    def full(R: Registers, M: Mask) -> tuple[Value, Value]:
        first = test(R, M)
        second = invert(first)
        if third is not None:
            other = truth(invert(R[third]) if negated else R[third])
            first = flags(_TRUTH[mix](truth(first), other))
            second = flags(_TRUTH[mix](truth(second), other))
        return first, second

    if not isinstance(target, Pair):
        return lambda R, M: full(R, M)[0]
    p, q = ctx.target(target.first), ctx.target(target.second)

    @writes_itself
    def both(R: Registers, M: Mask) -> None:
        one, two = full(R, M)
        put(R, M, p, one, 0)
        put(R, M, q, two, 0)

    return both


def _set(instr: Instr, ctx: Context) -> Run:
    """``set.cmp.dtype.stype`` of integers: all bits set, or 1.0f."""
    to, kind = instr.parts[-2], instr.parts[-1]
    size, is_signed = SIZES[kind], kind[0] == "s"
    how = instr.parts[1]
    a, b = ctx.slot(instr.operands[1], size), ctx.slot(instr.operands[2], size)
    yes = 0x3F800000 if to == "f32" else 0xFFFFFFFF

    def run(R: Registers, M: Mask) -> Value:
        result = compare(how, R[a], R[b], size, is_signed)
        if type(result) is int:
            return yes if result else 0
        return Affine(Base(np.where(truth(result), np.uint32(yes), np.uint32(0))), 0)

    return run


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = {
    "add": _arithmetic, "sub": _arithmetic, "min": _arithmetic, "max": _arithmetic,
    "div": _arithmetic, "rem": _arithmetic, "and": _logic, "or": _logic, "xor": _logic,
    "not": _not, "neg": _not, "abs": _not, "cnot": _not, "shl": _shift, "shr": _shift,
    "mul": _product, "mad": _product, "mul24": _product, "mad24": _product, "selp": _select,
    "setp": _setp, "set": _set,
}  # fmt: skip
