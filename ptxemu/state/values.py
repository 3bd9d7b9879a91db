"""The value of a register in all lanes of a batch at once.

A batch is (blocks, threads) lanes. A value is one of

* a Python int: the same bits in every lane;
* a NumPy array whose shape broadcasts to (blocks, threads): (1, threads) for a value
  that depends on the thread alone, (blocks, 1) for one that depends on the block alone;
* an `Affine`: such an array plus one int for all lanes. Loops move addresses by
  uniform steps, so their arrays, and the results computed from them (indices,
  sectors, conflicts), are reused from one iteration to the next.

Arrays are never written after they are made. Their dtype is free as long as its size is
the register's, with one exception: a 32-bit register may hold a float64 array, which
then holds float32 numbers exactly (fused multiply-adds keep their sums so).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

DTypes = dict[int, np.dtype[Any]]
UNSIGNED: DTypes = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8")}
SIGNED: DTypes = {1: np.dtype("i1"), 2: np.dtype("i2"), 4: np.dtype("i4"), 8: np.dtype("i8")}
MASK = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFF_FFFF, 8: 0xFFFF_FFFF_FFFF_FFFF}
F64 = np.dtype(np.float64)
F32 = np.dtype(np.float32)

#: The most derived values, and the most bytes of arrays, that a base caches; at either limit it
#: drops them all.
_MEMO = 256
_MEMO_BYTES = 4 << 20


class Base:
    """An integer array (uint32 or uint64) with all that was ever derived from it.

    `low` and `high` bound it as signed numbers. `memo` maps an operation to its
    result; a result must follow from the array alone, or from objects whose identity is part of the
    key and which the entry keeps alive.
    """

    __slots__ = ("_bounds", "_held", "arr", "memo")

    def __init__(self, arr: Array) -> None:
        self.arr = arr
        self.memo: dict[Any, Any] = {}
        self._bounds: tuple[int, int] | None = None
        self._held = 0

    @property
    def bounds(self) -> tuple[int, int]:
        """Least and greatest value, read as signed."""
        if self._bounds is None:
            flat = self.arr.view(SIGNED[self.arr.itemsize]).reshape(-1)
            self._bounds = int(np.minimum.reduce(flat)), int(np.maximum.reduce(flat))
        return self._bounds

    def remember(self, key: Any, value: Any) -> Any:
        """Keep a derived value."""
        if isinstance(value, Base):
            # Including values derived from it in turn.
            self._held += 3 * value.arr.nbytes
        elif not isinstance(value, tuple) or not isinstance(value[0], int):
            self._held += 2 * self.arr.nbytes
        if len(self.memo) >= _MEMO or self._held > _MEMO_BYTES:
            self.memo.clear()
            self._held = 0
        self.memo[key] = value
        return value


class Affine:
    """`base` plus `off` in every lane, modulo the register's width."""

    __slots__ = ("base", "off")

    def __init__(self, base: Base, off: int) -> None:
        self.base = base
        self.off = off

    def array(self) -> Array:
        """The sum as an unsigned array."""
        base = self.base
        if self.off == 0:
            return base.arr
        dtype = base.arr.dtype
        result: Array = base.arr + dtype.type(self.off & MASK[dtype.itemsize])
        return result


Value = int | Affine | Array


@lru_cache(maxsize=4096)
def uniform(bits: int, size: int) -> Array:
    """A (1, 1) unsigned array of these bits."""
    found = np.array([[bits & MASK[size]]], UNSIGNED[size])
    found.setflags(write=False)
    return found


_NAN32 = np.uint32(0x7FFFFFFF)


def narrow(wide: Array) -> Array:
    """float64 stand-ins -> float32, with the GPU's one NaN (0x7fffffff)."""
    with np.errstate(all="ignore"):
        out = wide.astype(F32)
    bad = np.isnan(out)
    if bad.any():
        out.view(np.uint32)[bad] = _NAN32
    return out


def unsigned(value: Value, size: int) -> Array:
    """The bits of a register of `size` bytes."""
    if type(value) is int:
        return uniform(value, size)
    if type(value) is Affine:
        return value.array()
    assert isinstance(value, np.ndarray)
    dtype = value.dtype
    if dtype is UNSIGNED[size]:
        return value
    if size == 4 and dtype == F64:
        return narrow(value).view(np.uint32)
    return value.view(UNSIGNED[size])


def signed(value: Value, size: int) -> Array:
    """The bits of a register, read as two's complement."""
    return unsigned(value, size).view(SIGNED[size])


def single(value: Value) -> Array:
    """A 32-bit register, read as float32."""
    if isinstance(value, np.ndarray):
        if value.dtype is F32:
            return value
        if value.dtype == F64:
            return narrow(value)
    return unsigned(value, 4).view(F32)


def double(value: Value) -> Array:
    """A 64-bit register, read as float64."""
    return unsigned(value, 8).view(F64)


def truth(value: Value) -> Array:
    """A predicate register as a bool array."""
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, int):
        raise TypeError("a predicate without a value")
    return np.array([[bool(value)]])


def to_signed(bits: int, size: int) -> int:
    """An int's lowest `size` bytes as two's complement."""
    bits &= MASK[size]
    return bits - (1 << (8 * size)) if bits >> (8 * size - 1) else bits


ZERO = {4: Base(np.zeros((1, 1), np.uint32)), 8: Base(np.zeros((1, 1), np.uint64))}


# --- Integer arithmetic on register values ---
# Addition, multiplication by a uniform value and widening keep a value's affine form
# (`ptxemu.state.values.Affine`); everything else works on the arrays. All
# arithmetic is modulo the register's width, as on the chip.

Binary = Callable[[Array, Array], Array]


def boxed(result: Array) -> Value:
    """An integer result as a register value: a single element becomes an int."""
    if result.size == 1:
        return int(result.view(UNSIGNED[result.itemsize]).item())
    return Affine(Base(result.view(UNSIGNED[result.itemsize])), 0)


def flags(result: Array) -> Value:
    """A predicate result: uniform if it has one element."""
    return int(result.item()) if result.size == 1 else result


def add(x: Value, y: Value, size: int) -> Value:
    """X + y modulo the width."""
    mask = MASK[size]
    if type(x) is int:
        if type(y) is int:
            return (x + y) & mask
        x, y = y, x
    if type(y) is int:
        if type(x) is Affine:
            return Affine(x.base, (x.off + y) & mask)
        return Affine(Base(unsigned(x, size)), y)
    if type(x) is Affine and type(y) is Affine:
        if x.base.arr.size < y.base.arr.size:
            x, y = y, x
        total = x.base.memo.get(("+", y.base))
        if total is None:
            total = x.base.remember(("+", y.base), Base(x.base.arr + y.base.arr))
        return Affine(total, (x.off + y.off) & mask)
    return boxed(unsigned(x, size) + unsigned(y, size))


def scale(x: Value, factor: int, size: int) -> Value:
    """X times a uniform value, modulo the width."""
    mask = MASK[size]
    factor &= mask
    if type(x) is int:
        return (x * factor) & mask
    if factor == 1:
        return x
    if factor == 0:
        return 0
    if type(x) is not Affine:
        x = Affine(Base(unsigned(x, size)), 0)
    product = x.base.memo.get(("*", factor))
    if product is None:
        arr = x.base.arr
        product = x.base.remember(("*", factor), Base(arr * arr.dtype.type(factor)))
    return Affine(product, (x.off * factor) & mask)


def multiply(x: Value, y: Value, size: int) -> Value:
    """X * y modulo the width."""
    if type(y) is int:
        return scale(x, y, size)
    if type(x) is int:
        return scale(y, x, size)
    return boxed(unsigned(x, size) * unsigned(y, size))


def negate(x: Value, size: int) -> Value:
    """-x modulo the width."""
    return scale(x, MASK[size], size)


def _fits(x: Affine, size: int, is_signed: bool) -> int | None:
    """The signed offset by which ``base + offset`` never wraps, or None."""
    low, high = x.base.bounds
    half = 1 << (8 * size - 1)
    off = to_signed(x.off, size)
    inside = -half <= low + off and high + off < half
    if inside and (is_signed or low + off >= 0):
        return off
    return None


def widen(x: Value, size: int, is_signed: bool) -> Value:
    """To twice the width, by sign or by zeros."""
    if type(x) is int:
        return (to_signed(x, size) if is_signed else x) & MASK[2 * size]
    if type(x) is Affine:
        off = _fits(x, size, is_signed)
        if off is not None:
            wide = x.base.memo.get("wide")
            if wide is None:
                arr = x.base.arr.view(SIGNED[size]).astype(SIGNED[2 * size])
                wide = x.base.remember("wide", Base(arr.view(UNSIGNED[2 * size])))
            return Affine(wide, off & MASK[2 * size])
    view = signed(x, size) if is_signed else unsigned(x, size)
    return boxed(view.astype(SIGNED[2 * size]))


def truncate(x: Value, size: int, to: int) -> Value:
    """The lowest `to` bytes."""
    if type(x) is int:
        return x & MASK[to]
    if type(x) is Affine:
        low = x.base.memo.get(("low", to))
        if low is None:
            low = x.base.remember(("low", to), Base(x.base.arr.astype(UNSIGNED[to])))
        return Affine(low, x.off & MASK[to])
    return boxed(unsigned(x, size).astype(UNSIGNED[to]))


def extend(x: Value, size: int, to: int, is_signed: bool) -> Value:
    """To a width of `to` bytes, larger than `size`."""
    while size < to:
        x = widen(x, size, is_signed)
        size *= 2
    return x


def resize(x: Value, size: int, to: int, is_signed: bool) -> Value:
    """To any width."""
    return truncate(x, size, to) if to < size else extend(x, size, to, is_signed)


def high(x: Array, y: Array) -> Array:
    """The upper half of a full product."""
    size = x.itemsize
    if size < 8:
        wide: Any = np.int64 if x.dtype.kind == "i" else np.uint64
        full = x.astype(wide) * y.astype(wide)
        return np.asarray((full >> wide(8 * size)).astype(x.dtype))
    ux, uy = x.view(np.uint64), y.view(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    xl, xh, yl, yh = ux & low, ux >> half, uy & low, uy >> half
    mid = xh * yl + ((xl * yl) >> half)
    mid2 = xl * yh + (mid & low)
    result = xh * yh + (mid >> half) + (mid2 >> half)
    if x.dtype.kind == "i":
        result = result - np.where(x < 0, uy, np.uint64(0)) - np.where(y < 0, ux, np.uint64(0))
    return np.asarray(result.view(x.dtype))


#: Logic of predicates.
TRUTH: dict[str, Binary] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def invert(x: Value) -> Value:
    """Not, of a predicate."""
    return 1 - x if type(x) is int else ~truth(x)


_COMPARE: dict[str, Binary] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
    "hs": np.greater_equal,
}  # fmt: skip

#: The comparisons of integers.
COMPARISONS = frozenset(_COMPARE)


def compare(how: str, x: Value, y: Value, size: int, is_signed: bool) -> Value:
    """A comparison of integers, decided from bounds if they suffice."""
    if type(x) is Affine and type(y) is int and how not in ("eq", "ne"):
        off = _fits(x, size, is_signed)
        goal = to_signed(y, size) if is_signed else y
        if off is not None:
            low, top = x.base.bounds[0] + off, x.base.bounds[1] + off
            function = _COMPARE[how]
            first, last = bool(function(low, goal)), bool(function(top, goal))  # type: ignore[arg-type]
            if first == last:
                return int(first)
    if type(x) is int and type(y) is int:
        if is_signed:
            x, y = to_signed(x, size), to_signed(y, size)
        return int(_COMPARE[how](x, y))  # type: ignore[arg-type]
    get = signed if is_signed else unsigned
    return flags(_COMPARE[how](get(x, size), get(y, size)))
