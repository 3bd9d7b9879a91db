"""Comparisons of integers, floats and halves: ``setp``, ``set`` and ``testp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxemu.ops.floats import KINDS, getter, join, split
from ptxemu.ptx.instructions import SIZES, Instr, Pair
from ptxemu.state.context import Context, Registers, Run, writes_both
from ptxemu.state.lanes import Mask
from ptxemu.state.values import (
    COMPARISONS,
    F32,
    F64,
    MASK,
    TRUTH,
    UNSIGNED,
    Array,
    Value,
    boxed,
    compare,
    flags,
    invert,
    truth,
)

#: Comparisons by their names.
ORDERED: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
_FLOATS = {*ORDERED, *(f"{how}u" for how in ORDERED), "num", "nan"}


def compare_floats(how: str, x: Array, y: Array) -> Array:
    """Ordered comparisons, unordered ones (``…u``), ``num`` and ``nan``."""
    unordered = np.isnan(x) | np.isnan(y)
    if how == "nan":
        return unordered
    if how == "num":
        return ~unordered
    if how not in ORDERED:
        return ORDERED[how[:-1]](x, y) | unordered
    result = ORDERED[how](x, y)
    # NumPy's != is true for NaN; PTX's ordered ne is not.
    return result & ~unordered if how == "ne" else result


def _halves(instr: Instr, ctx: Context) -> Callable[[Registers], Array]:
    """The comparisons of a register's halves, along the last axis."""
    kind, how = instr.parts[-1], _how(instr, ctx)
    a, b = ctx.sources(instr, 2, SIZES[kind])

    def compared(R: Registers) -> Array:
        return compare_floats(how, *np.broadcast_arrays(split(R[a], kind), split(R[b], kind)))

    return compared


def _how(instr: Instr, ctx: Context) -> str:
    """The comparison, which must exist for the type: integers are never unordered."""
    how = instr.parts[1]
    if how not in (_FLOATS if instr.parts[-1].startswith(("f", "bf")) else COMPARISONS):
        raise ctx.unsupported(instr)
    return how


def _test(instr: Instr, ctx: Context) -> Run:
    kind, how = instr.parts[-1], _how(instr, ctx)
    size = SIZES[kind]
    if kind in KINDS:
        compared = _halves(instr, ctx)
        return lambda R, M: flags(compared(R)[..., 0])
    a, b = ctx.sources(instr, 2, size, kind)
    if kind in ("f32", "f64"):
        get = getter(kind, "ftz" in instr.parts)
        return lambda R, M: flags(compare_floats(how, get(R[a]), get(R[b])))
    is_signed = kind[0] == "s"
    return lambda R, M: compare(how, R[a], R[b], size, is_signed)


def _setp(instr: Instr, ctx: Context) -> Run:
    """A comparison, a boolean operator with a third operand, and ``p|q``."""
    target = instr.operands[0]
    if instr.parts[-1] in ("f16x2", "bf16x2"):
        if not isinstance(target, Pair):
            raise ctx.unsupported(instr)
        return writes_both(ctx, target, _per_half(_halves(instr, ctx)), 0)
    test = _test(instr, ctx)
    mix = next((TRUTH[p] for p in instr.parts[2:-1] if p in TRUTH), None)
    if mix is None and not isinstance(target, Pair):
        return test
    third = ctx.slot(instr.operands[3], 0) if mix else -1
    negated = getattr(instr.operands[3], "negated", False) if mix else False

    def full(R: Registers, M: Mask) -> tuple[Value, Value]:
        first = test(R, M)
        second = invert(first)
        if mix is not None:
            other = truth(invert(R[third]) if negated else R[third])
            first, second = (flags(mix(truth(each), other)) for each in (first, second))
        return first, second

    if isinstance(target, Pair):
        return writes_both(ctx, target, full, 0)
    return lambda R, M: full(R, M)[0]


def _per_half(compared: Callable[[Registers], Array]) -> Run:
    def halves(R: Registers, M: Mask) -> tuple[Value, Value]:
        result = compared(R)
        return flags(result[..., 0]), flags(result[..., 1])

    return halves


def _set(instr: Instr, ctx: Context) -> Run:
    """``set.cmp.dtype.stype``: all bits set, or 1.0."""
    to = instr.parts[-2]
    if to in KINDS:
        compared = _halves(instr, ctx)
        return lambda R, M: join(compared(R).astype(F64), to)
    test, word = _test(instr, ctx), UNSIGNED[SIZES[to]].type
    yes, no = word(0x3F800000 if to == "f32" else MASK[SIZES[to]]), word(0)
    return lambda R, M: boxed(np.where(truth(test(R, M)), yes, no))


def _testp(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    (a,) = ctx.sources(instr, 1, SIZES[kind], kind)
    get = getter(kind, False)
    least = np.finfo(F32 if kind == "f32" else F64).tiny
    tests: dict[str, Callable[[Array], Any]] = {
        "finite": np.isfinite, "infinite": np.isinf, "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan, "normal": lambda x: np.isfinite(x) & (np.abs(x) >= least),
        "subnormal": lambda x: (np.abs(x) < least) & (x != 0),
    }  # fmt: skip
    test = tests[instr.parts[1]]
    return lambda R, M: flags(test(get(R[a])))


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = {
    "setp": _setp, "set": _set, "testp": _testp,
}  # fmt: skip
