"""Where addresses lead: arrays in global memory, each block's shared, each thread's local.

Global memory is one arena with a gap after every array, as wide as its neighbours are large, so
an access is one gather whatever it points to, and one that misses its array is found. Shared and
local memory have windows of their own in the generic address space, as on the chip.
"""

from __future__ import annotations

import bisect
import contextlib
import math
import mmap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.errors import LaunchError, ResourceError
from ptxemu.pool import room
from ptxemu.state.lanes import Lanes, Mask
from ptxemu.state.values import F32, F64, SIGNED, UNSIGNED, Array, Base

GLOBAL_BASE = 0x7F00_0000_0000
SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
WINDOW = 1 << 32
#: A block's shared memory begins with what the system keeps for itself: variables come behind.
RESERVED = 1024
#: Bytes between two arrays, which nobody touches and which so take no memory.
_GAP, _WIDEST_GAP = 512, 1 << 24
_ALIGN = 256

#: dtype of one element of a typed access.
KINDS: dict[str, np.dtype[Any]] = {
    "f32": F32, "f64": F64, "b8": UNSIGNED[1], "u8": UNSIGNED[1], "s8": SIGNED[1],
    "b16": UNSIGNED[2], "u16": UNSIGNED[2], "s16": SIGNED[2], "f16": UNSIGNED[2],
    "bf16": UNSIGNED[2], "b32": UNSIGNED[4], "u32": UNSIGNED[4], "s32": UNSIGNED[4],
    "f16x2": UNSIGNED[4], "bf16x2": UNSIGNED[4], "b64": UNSIGNED[8], "u64": UNSIGNED[8],
    "s64": UNSIGNED[8],
}  # fmt: skip


def shared_bytes(size: int) -> NDArray[np.uint8]:
    """Zeros that forked processes share; pages that nobody touches take no memory.

    Raises:
        MemoryError: there is no room for them.
    """
    try:
        return np.frombuffer(mmap.mmap(-1, size), np.uint8)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"no room for {size:,} bytes") from error


@dataclass(frozen=True, slots=True)
class Allocation:
    """One array of global memory: [start, start + size) in the address space."""

    name: str
    start: int
    size: int
    width: int = 0  # bytes of an element; 0: not known

    def at(self, address: int) -> str:
        """``x[3]``: what lies at an address, which may be outside."""
        return element(self.name, address - self.start, self.width)

    @property
    def extent(self) -> str:
        """How much it holds: ``1,000 elements``."""
        count, unit = (self.size // self.width, "element") if self.width else (self.size, "byte")
        return f"{count:,} {unit}{'s' * (count != 1)}"


def element(name: str, offset: int, width: int, shape: Sequence[int] = (0,)) -> str:
    """``tile[1][3]``: what lies so many bytes behind the beginning of an array.

    Args:
        name: Of the array.
        offset: In bytes; may be outside of it.
        width: Bytes of an element; 0: not known.
        shape: Its extents, of which the first does not matter; none: it is one value.
    """
    if not width:
        return f"{name} {'+' if offset >= 0 else '-'} {abs(offset)} bytes"
    index, rest = divmod(offset, width)
    places: list[int] = []
    for extent in reversed(shape[1:]):
        index, at = divmod(index, extent)
        places.insert(0, at)
    if shape or index:
        name += "".join(f"[{at}]" for at in (index, *places))
    return f"{name} + {rest} bytes" if rest else name


class GlobalMemory:
    """All of a launch's global memory, shared with the worker processes.

    Args:
        buffers: The caller's arrays, which are copied.
        unwritten: Names of those that hold nothing yet.
        own: Arrays of the module and the driver: their bytes, and with what they begin.

    Raises:
        ResourceError: they are more than this process may take.
    """

    def __init__(
        self,
        buffers: Mapping[str, Array],
        unwritten: Collection[str] = (),
        own: Mapping[str, tuple[int, bytes]] | None = None,
    ) -> None:
        #: The caller's arrays; behind them lie the module's and the driver's.
        self.names = tuple(buffers)
        own = own or {}
        self._like = {name: (array.dtype, array.shape) for name, array in buffers.items()}
        self._like |= {name: (UNSIGNED[1], (size,)) for name, (size, _) in own.items()}
        sizes = {
            name: math.prod(shape) * dtype.itemsize for name, (dtype, shape) in self._like.items()
        }
        self.allocations: list[Allocation] = []
        at = _ALIGN
        for (name, size), after in zip(sizes.items(), [*list(sizes.values())[1:], 0], strict=True):
            width = 0 if name in own else self._like[name][0].itemsize
            self.allocations.append(Allocation(name, GLOBAL_BASE + at, size, width))
            gap = min(max(_GAP, size, after), _WIDEST_GAP)
            at = -(-(at + size + gap) // _ALIGN) * _ALIGN
        self.bytes = self._taken(at + _ALIGN, 1 + bool(unwritten))
        self._address = {allocation.name: allocation.start for allocation in self.allocations}
        self._starts = [allocation.start for allocation in self.allocations]
        self._views: dict[Any, Array] = {}
        #: One byte for each byte: 1 where it holds something. None: not followed.
        self.written = shared_bytes(at + _ALIGN) if unwritten else None
        for name, place, size in ((each.name, each.start, each.size) for each in self.allocations):
            start = place - GLOBAL_BASE
            if self.written is not None and name not in unwritten:
                self.written[start : start + size] = 1
            if name in own:
                flat = np.frombuffer(bytearray(own[name][1]), np.uint8)
            else:
                flat = np.ascontiguousarray(buffers[name]).reshape(-1).view(np.uint8)
            self.bytes[start : start + len(flat)] = flat

    def _taken(self, size: int, times: int) -> NDArray[np.uint8]:
        """Memory for all arrays, of which `times` as much is needed.

        Raises:
            ResourceError: there is less.
        """
        left, need = room(), size * times
        with contextlib.suppress(MemoryError):
            if need <= left:
                return shared_bytes(size)
        most = max(self.allocations, key=lambda each: each.size)
        raise ResourceError(
            f"the arrays in global memory need {need:,} bytes ({most.name} has {most.size:,}), "
            f"and this process may take {left:,.0f} more",
            "Choose a smaller problem, or allow the process more memory.",
        )

    def address(self, name: str) -> int:
        """Where an array starts.

        Raises:
            LaunchError: there is none of that name.
        """
        found = self._address.get(name)
        if found is None:
            known = ", ".join(self.names)
            raise LaunchError(f"there is no array {name!r}", f"There are: {known or 'none'}.")
        return found

    def fill(self, name: str, content: NDArray[np.uint8]) -> None:
        """Write the first bytes of an array."""
        start = self.address(name) - GLOBAL_BASE
        self.bytes[start : start + len(content)] = content
        if self.written is not None:
            self.written[start : start + len(content)] = 1

    def read(self, name: str) -> Array:
        """A copy of an array's present content."""
        start = self.address(name) - GLOBAL_BASE
        dtype, shape = self._like[name]
        flat = self.bytes[start : start + math.prod(shape) * dtype.itemsize].copy()
        return flat.view(dtype).reshape(shape)

    def view(self, dtype: np.dtype[Any]) -> Array:
        """The arena as elements of this type."""
        found = self._views.get(dtype)
        if found is None:
            size = dtype.itemsize
            found = self.bytes[: len(self.bytes) // size * size].view(dtype)
            self._views[dtype] = found
        return found

    def allocation_of(self, address: int) -> Allocation | None:
        """The array that holds an address, or None."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        allocation = self.allocations[index]
        return allocation if address < allocation.start + allocation.size else None

    def holds(self, low: int, high: int) -> bool:
        """Do both bytes lie in one array?"""
        allocation = self.allocation_of(low)
        return allocation is not None and high < allocation.start + allocation.size

    def nearest(self, address: int) -> tuple[Allocation, int] | None:
        """The caller's array nearest to an address, and the distance in bytes."""
        best = None
        for allocation in self.allocations:
            if allocation.name.startswith("("):
                continue  # what the driver brings: a kernel that misses an array meant none of it
            end = allocation.start + allocation.size
            gap = allocation.start - address if address < allocation.start else address - end + 1
            if best is None or gap < best[1]:
                best = (allocation, gap)
        return best

    def inside(self, addresses: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
        """Per address: does [address, address + width) lie in one array?"""
        starts = np.array([r.start for r in self.allocations], np.int64)
        ends = np.array([r.start + r.size for r in self.allocations], np.int64)
        index = np.searchsorted(starts, addresses, side="right") - 1
        ok: NDArray[np.bool_] = (index >= 0) & (addresses + width <= ends[np.maximum(index, 0)])
        return ok


class Pattern(NamedTuple):
    """A base's lanes relative to the least of them.

    `rel` are bytes, `cells` elements; both of a shape that broadcasts to the batch.
    `cells` is None where lanes differ by parts of an element.
    """

    low: int
    high: int
    rel: Array
    cells: NDArray[np.intp] | None


class Reach(NamedTuple):
    """Where the lanes of one access go: a base's pattern, moved so that its least is `low`."""

    base: Base
    pattern: Pattern
    low: int
    high: int
    mask: Mask

    def back(self, shift: int) -> Reach:
        """The same, so many bytes before."""
        return self._replace(low=self.low - shift, high=self.high - shift)


def same_rows(base: Base) -> bool:
    """Is a base the same in all blocks? Remembered with it."""
    if len(base.arr) == 1:
        return True
    found = base.memo.get("same rows")
    if found is None:
        found = base.remember("same rows", (int((base.arr == base.arr[:1]).all()),))
    return bool(found[0])


def pattern_of(base: Base, width: int, mask: Mask, lanes: Lanes) -> Pattern:
    """`Pattern` of a base under a mask in elements of `width` bytes, remembered with the base."""
    key = ("pattern", width, mask)
    found = base.memo.get(key)
    if found is not None:
        return found  # type: ignore[no-any-return]
    arr = base.arr.view(SIGNED[base.arr.itemsize]).astype(np.int64, copy=False)
    if mask.arr is None:
        low, high = base.bounds
        rel = arr - low
    else:
        chosen = np.broadcast_to(arr, lanes.shape)[mask.arr]
        low, high = int(chosen.min()), int(chosen.max())
        rel = np.where(mask.arr, arr - low, 0)
    index = None
    if width == 1 or not (rel & (width - 1)).any():
        index = (rel >> (width.bit_length() - 1)).astype(np.intp, copy=False)
    return base.remember(key, Pattern(low, high, rel, index))  # type: ignore[no-any-return]


def flat_index(reach: Reach, width: int, lanes: Lanes, stride: int, each: str) -> Array:
    """Element indices into memory that every block (or thread) has for itself.

    `stride` is in elements of `width` bytes; `each` is ``block`` or ``thread``. Remembered
    with the base.
    """
    key = ("flat", width, reach.mask, stride, each)
    found = reach.base.memo.get(key)
    if found is None:
        assert reach.pattern.cells is not None
        count, shape = (lanes.B, (-1, 1)) if each == "block" else (lanes.B * lanes.T, lanes.shape)
        start = np.arange(count, dtype=np.intp).reshape(shape) * stride
        found = reach.base.remember(key, start + reach.pattern.cells)
    return found  # type: ignore[no-any-return]
