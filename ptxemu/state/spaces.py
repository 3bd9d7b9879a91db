"""Memory by address: arrays in global memory, each block's shared, each thread's local.

Global memory is one arena with a gap after every array, as wide as its neighbours are large. So an
access is one gather for any address, and one that misses its array is found. Shared and local
memory have their own windows in the generic address space, as on the chip.
"""

from __future__ import annotations

import bisect
import math
import mmap
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.errors import LaunchError
from ptxemu.state.lanes import Lanes, Mask
from ptxemu.state.values import F32, F64, SIGNED, UNSIGNED, Array, Base

SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
WINDOW = 1 << 32
#: A block's shared memory begins with the part that the system reserves; variables follow it.
RESERVED = 1024
#: Alignment of arrays, in bytes.
ALIGN = 256
#: Sizes of pieces of the heap are multiples of it.
_PIECE = 16
#: The most released arrays whose names are remembered.
_REMEMBERED = 1024
#: ``MAP_NORESERVE`` of Linux: only touched pages count.
_NORESERVE = 0x4000 if sys.platform == "linux" else 0

#: dtype of one element of a typed access.
KINDS: dict[str, np.dtype[Any]] = {
    "f32": F32, "f64": F64, "b8": UNSIGNED[1], "u8": UNSIGNED[1], "s8": SIGNED[1],
    "b16": UNSIGNED[2], "u16": UNSIGNED[2], "s16": SIGNED[2], "f16": UNSIGNED[2],
    "bf16": UNSIGNED[2], "b32": UNSIGNED[4], "u32": UNSIGNED[4], "s32": UNSIGNED[4],
    "f16x2": UNSIGNED[4], "bf16x2": UNSIGNED[4], "b64": UNSIGNED[8], "u64": UNSIGNED[8],
    "s64": UNSIGNED[8],
}  # fmt: skip


def shared_bytes(size: int) -> NDArray[np.uint8]:
    """Zeros that forked processes share; untouched pages take no memory; MemoryError: no room."""
    try:
        if hasattr(mmap, "MAP_SHARED"):
            flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NORESERVE
            return np.frombuffer(mmap.mmap(-1, size, flags), np.uint8)
        return np.frombuffer(mmap.mmap(-1, size), np.uint8)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"no room for {size:,} bytes") from error


@dataclass(frozen=True, slots=True)
class Allocation:
    """One array of global memory: [start, start + size) in the address space."""

    name: str
    start: int
    size: int
    width: int = 0  # bytes of an element; 0: unknown

    def at(self, address: int) -> str:
        """``x[3]``: the element at an address, which may be outside."""
        return element(self.name, address - self.start, self.width)

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.start + self.size

    def holds(self, address: int) -> bool:
        """Test whether an address is in it."""
        return self.start <= address < self.end

    @property
    def extent(self) -> str:
        """Its size, in words: ``1,000 elements``."""
        count, unit = (self.size // self.width, "element") if self.width else (self.size, "byte")
        return f"{count:,} {unit}{'s' * (count != 1)}"


def element(name: str, offset: int, width: int, shape: Sequence[int] = (0,)) -> str:
    """``tile[1][3]``: the element at a byte offset from the start of an array, or before it.

    `width`: bytes of an element; 0: unknown. The first extent of `shape` does not matter; without
    extents it is one value.
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


class AddressMap:
    """Arrays by address, while arrays are allocated and freed."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self._starts: list[int] = []
        self._released: deque[Allocation] = deque(maxlen=_REMEMBERED)
        self._bounds: dict[str, NDArray[np.int64]] = {}  # as arrays, until one is added or freed

    def allocate(self, name: str, start: int, size: int, width: int = 0) -> None:
        """Add an array; `width`: bytes of an element, 0: unknown."""
        at = bisect.bisect_right(self._starts, start)
        self._starts.insert(at, start)
        self.allocations.insert(at, Allocation(name, start, size, width))
        self._bounds.clear()

    def release(self, start: int) -> None:
        """Remove the array that starts at an address; accesses there are faults from now on."""
        at = bisect.bisect_left(self._starts, start)
        if at < len(self._starts) and self._starts[at] == start:
            del self._starts[at]
            self._released.append(self.allocations.pop(at))
            self._bounds.clear()

    def freed(self, address: int) -> Allocation | None:
        """The released array to which an address belonged."""
        return next((each for each in reversed(self._released) if each.holds(address)), None)

    def allocation_of(self, address: int) -> Allocation | None:
        """The array that holds an address, or None."""
        index = bisect.bisect_right(self._starts, address) - 1
        return self.allocations[index] if index >= 0 and self.allocations[index].holds(address) \
            else None  # fmt: skip

    def name_at(self, address: int) -> str:
        """``x[3]``: the element at an address, or the address itself."""
        array = self.allocation_of(address)
        return array.at(address) if array else hex(address)

    def holds(self, low: int, high: int) -> bool:
        """Test whether both bytes are in one array."""
        allocation = self.allocation_of(low)
        return allocation is not None and high < allocation.end

    def nearest(self, address: int) -> tuple[Allocation, int] | None:
        """The caller's array nearest to an address, and the distance in bytes."""
        every = (each for each in self.allocations if not each.name.startswith("("))
        # The driver's own arrays are left out: a kernel that misses an array meant another one.
        gaps = ((each, max(each.start - address, address - each.end + 1)) for each in every)
        return min(gaps, key=lambda each: each[1], default=None)

    def inside(self, addresses: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
        """Per address: is [address, address + width) in one array?"""
        if not self._bounds:
            ends = [each.end for each in self.allocations]
            self._bounds.update(starts=np.array(self._starts), ends=np.array(ends))
        starts, ends_ = self._bounds["starts"], self._bounds["ends"]
        index = np.searchsorted(starts, addresses, side="right") - 1
        ok: NDArray[np.bool_] = (index >= 0) & (addresses + width <= ends_[np.maximum(index, 0)])
        return ok


class Heap:
    """The memory that kernels' ``malloc`` hands out.

    Attributes:
        start: Its address; 0: no memory was requested yet.
        size: In bytes; by default CUDA's (``cudaLimitMallocHeapSize``).
        reserve: Returns an address for it, given its bytes and alignment.
    """

    def __init__(self) -> None:
        self.start, self.size = 0, 8 << 20
        self.reserve: Callable[[int, int], int]
        self._used = 0
        self._sizes: dict[int, int] = {}  # sizes of used pieces, by their addresses
        self._spare: dict[int, list[int]] = {}  # free pieces, by their sizes

    def take(self, size: int) -> int:
        """Allocate a piece, and return its address; 0 if it does not fit."""
        if not self.start:
            self.start = self.reserve(self.size, ALIGN)
        whole = -(-size // _PIECE) * _PIECE + _PIECE  # with a gap
        fitting = [each for each, spare in self._spare.items() if spare and each >= whole]
        if fitting:
            whole = min(fitting)
            found = self._spare[whole].pop()
        elif self._used + whole <= self.size:
            found = self.start + self._used
            self._used += whole
        else:
            return 0
        self._sizes[found] = whole
        return found

    def give(self, address: int) -> bool:
        """Release a piece; False: it was not allocated."""
        whole = self._sizes.pop(address, 0)
        if whole:
            self._spare.setdefault(whole, []).append(address)
        if not self._sizes:
            self._used = 0
            self._spare.clear()
        return whole > 0


class GlobalMemory(AddressMap):
    """Global memory, shared with the worker processes.

    Args:
        data: Its bytes; only touched pages need to exist.
        base: The address of the first byte for kernels.
        written: One byte for each of `data`: 1 if it was written. None: not tracked.
    """

    def __init__(
        self, data: NDArray[np.uint8], base: int, written: NDArray[np.uint8] | None = None
    ) -> None:
        super().__init__()
        self.bytes, self.base, self.written = data, base, written
        #: The caller's arrays, followed by the module's and the driver's.
        self.names: tuple[str, ...] = ()
        self._like: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._address: dict[str, int] = {}
        self._views: dict[Any, Array] = {}
        self.heap = Heap()
        #: Kernels compiled for it, for many launches; None: they are not kept.
        self.compiled: dict[Any, Any] | None = None

    def put(self, name: str, start: int, content: Array, width: int = 0, size: int = 0) -> None:
        """Add an array in zeroed memory, with a name and this content.

        `size`: its bytes, if it is larger than the content, which is then its first part.
        """
        flat = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        shape = (size,) if size else content.shape
        self._address[name], self._like[name] = start, (content.dtype, shape)
        size = size or len(flat)
        self.allocate(name, start, size, width)
        self.bytes[start - self.base : start - self.base + len(flat)] = flat
        self.mark(start, size, written=True)

    def mark(self, start: int, size: int, *, written: bool) -> None:
        """Note whether the bytes from an address were written."""
        if self.written is not None:
            self.written[start - self.base : start - self.base + size] = written

    @property
    def size(self) -> int:
        """Bytes of all arrays."""
        return sum(each.size for each in self.allocations)

    def parts(self) -> list[slice]:
        """The slices of the arrays in `bytes`."""
        every = ((each.start - self.base, each.size) for each in self.allocations)
        return [slice(start, start + size) for start, size in every]

    def address(self, name: str) -> int:
        """The address of an array; raises LaunchError for an unknown name."""
        found = self._address.get(name)
        if found is None:
            known = ", ".join(self.names)
            raise LaunchError(f"there is no array {name!r}", f"There are: {known or 'none'}.")
        return found

    def fill(self, name: str, content: NDArray[np.uint8]) -> None:
        """Write the first bytes of an array."""
        start = self.address(name) - self.base
        self.bytes[start : start + len(content)] = content
        self.mark(start + self.base, len(content), written=True)

    def read(self, name: str) -> Array:
        """A copy of an array's present content."""
        start = self.address(name) - self.base
        dtype, shape = self._like[name]
        flat = self.bytes[start : start + math.prod(shape) * dtype.itemsize].copy()
        return flat.view(dtype).reshape(shape)

    def view(self, dtype: np.dtype[Any]) -> Array:
        """The arena as elements of this type."""
        found = self._views.get(dtype)
        if found is None:
            found = self._views[dtype] = _viewed(self.bytes, dtype)
        return found

    def marks(self, dtype: np.dtype[Any]) -> Array:
        """`written` as elements of this type."""
        key = "marks", dtype
        if key not in self._views and self.written is not None:
            self._views[key] = _viewed(self.written, dtype)
        return self._views[key]


def _viewed(data: NDArray[np.uint8], dtype: np.dtype[Any]) -> Array:
    return data[: len(data) // dtype.itemsize * dtype.itemsize].view(dtype)


#: The most elements of a pattern that is looked up by its content, and of all kept ones.
_SMALL, _KEPT = 2048, 65_536


class Pattern(NamedTuple):
    """A base's lanes relative to the lowest of them.

    `rel` are bytes, `cells` elements; the shape of both broadcasts to the batch. `cells` is None if
    lanes differ by parts of an element. `memo` has results derived from these alone: small patterns
    with equal content share it; None: their bases keep it.
    """

    low: int
    high: int
    rel: Array
    cells: NDArray[np.intp] | None
    memo: dict[Any, Any] | None


class Reach(NamedTuple):
    """The addresses of one access: a base's pattern, shifted so that its lowest is `low`."""

    base: Base
    pattern: Pattern
    low: int
    high: int
    mask: Mask

    @property
    def memo(self) -> dict[Any, Any]:
        """Values derived from the pattern."""
        return self.base.memo if self.pattern.memo is None else self.pattern.memo

    def keep(self, key: Any, value: Any) -> Any:
        """Remember a value derived from the pattern."""
        if self.pattern.memo is None:
            return self.base.remember(key, value)
        self.pattern.memo[key] = value
        return value

    def back(self, shift: int) -> Reach:
        """The same addresses, this many bytes lower."""
        return self._replace(low=self.low - shift, high=self.high - shift)


def same_rows(base: Base) -> bool:
    """Test whether a base is the same in all blocks; cached with it."""
    if len(base.arr) == 1:
        return True
    found = base.memo.get("same rows")
    if found is None:
        found = base.remember("same rows", (int((base.arr == base.arr[:1]).all()),))
    return bool(found[0])


def pattern_of(base: Base, width: int, mask: Mask, lanes: Lanes) -> Pattern:
    """`Pattern` of a base under a mask in elements of `width` bytes, cached with the base."""
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
    content = (width, rel.shape, rel.tobytes()) if rel.size <= _SMALL else None
    known = lanes.patterns.get(content)
    if known is None:
        index = None
        if width == 1 or not (rel & (width - 1)).any():
            index = (rel >> (width.bit_length() - 1)).astype(np.intp, copy=False)
        known = rel, index, None if content is None else {}
        if content is not None:
            if len(lanes.patterns) * rel.size >= _KEPT:
                lanes.patterns.clear()
            lanes.patterns[content] = known
    return base.remember(key, Pattern(low, high, *known))  # type: ignore[no-any-return]


def flat_index(reach: Reach, width: int, lanes: Lanes, stride: int, each: str) -> Array:
    """Element indices into memory private to every block (or thread); cached.

    `stride` is in elements of `width` bytes; `each` is ``block`` or ``thread``.
    """
    key = ("flat", width, reach.mask, stride, each)
    found = reach.memo.get(key)
    if found is None:
        assert reach.pattern.cells is not None
        count, shape = (lanes.B, (-1, 1)) if each == "block" else (lanes.B * lanes.T, lanes.shape)
        start = np.arange(count, dtype=np.intp).reshape(shape) * stride
        found = reach.keep(key, start + reach.pattern.cells)
    return found  # type: ignore[no-any-return]
