"""What a register holds for all lanes of a batch at once.

A batch is (blocks, threads) lanes. A value is one of

* a Python int: the same bits in every lane;
* a NumPy array whose shape broadcasts to (blocks, threads): (1, threads) for what
  depends on the thread alone, (blocks, 1) for what depends on the block alone;
* an `Affine`: such an array plus one int for all lanes. Loops move addresses by
  uniform steps, so their arrays, and all that was computed from them (indices,
  sectors, conflicts), are reused from one iteration to the next.

Arrays are never written after they are made. Their dtype is free as long as its size is
the register's, with one exception: a 32-bit register may hold a float64 array, which
then stands for the float32 numbers in it (fused multiply-adds keep their sums so).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DTypes = dict[int, np.dtype[Any]]
UNSIGNED: DTypes = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8")}
SIGNED: DTypes = {1: np.dtype("i1"), 2: np.dtype("i2"), 4: np.dtype("i4"), 8: np.dtype("i8")}
MASK = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFF_FFFF, 8: 0xFFFF_FFFF_FFFF_FFFF}
F64 = np.dtype(np.float64)
F32 = np.dtype(np.float32)

#: How many derived things, and how many bytes of arrays, a base remembers before it
#: forgets them all.
_MEMO = 256
_MEMO_BYTES = 4 << 20


class Base:
    """An integer array (uint32 or uint64) with all that was ever derived from it.

    `low` and `high` bound it as signed numbers. `memo` maps an operation to its
    result; what stands in it must follow from the array alone, or from objects whose
    identity is part of the key and which the entry keeps alive.
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
            signed = self.arr.view(SIGNED[self.arr.itemsize])
            self._bounds = int(signed.min()), int(signed.max())
        return self._bounds

    def remember(self, key: Any, value: Any) -> Any:
        """Keep a derived value."""
        if isinstance(value, Base):
            # With what will be derived from it in turn.
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
