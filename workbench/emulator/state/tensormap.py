"""Tensor maps: what ``cuTensorMapEncodeTiled`` and ``cuTensorMapEncodeIm2col`` are told.

The driver's 128 bytes are opaque. Ours hold the same values in the order of `TensorMap`, so
that a kernel can be given one as a ``__grid_constant__`` parameter, keep it in constant or
global memory, and copy it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from workbench.errors import UsageError

#: Bytes of an element, by the names of the driver's ``CU_TENSOR_MAP_DATA_TYPE_``, in their order.
ELEMENT_BYTES = {
    "uint8": 1, "uint16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8, "float16": 2,
    "float32": 4, "float64": 8, "bfloat16": 2, "float32_ftz": 4, "tfloat32": 4,
    "tfloat32_ftz": 4,
}  # fmt: skip
_TYPES = tuple(ELEMENT_BYTES)
_INTEGERS = _TYPES[:6]
#: Bytes within which chunks of 16 are exchanged.
Swizzle = Literal[0, 32, 64, 128]
#: Bytes of a slice of channels.
Interleave = Literal[0, 16, 32]
BYTES = 128
_MAGIC = 0x50414D524F534E54  # "TNSORMAP"
_FORM = struct.Struct("<QQ5Q4Q5H5B5B3h3hHH")
#: Range of a corner's offsets, by how many there are of it.
_CORNERS = {1: 1 << 15, 2: 1 << 7, 3: 1 << 4}


@dataclass(frozen=True, slots=True)
class Im2col:
    """What an im2col map has in place of a box; corners are for W, H, D, as far as there.

    Attributes:
        lower: Offsets of the bounding box's corner from the image's first pixel.
        upper: Offsets of its other corner from the image's last pixel.
        channels: Channels of each pixel that are copied.
        pixels: Pixels that are copied.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor in global memory and how a copy walks over it. The innermost axis is first.

    Attributes:
        dtype: A key of `ELEMENT_BYTES`.
        dims: Elements along each axis, one to five.
        strides: Bytes from one element to the next along every axis but the innermost.
        box: Elements along each axis that a tiled copy goes over; empty for im2col.
        element_strides: Steps along each axis; empty: 1 everywhere.
        swizzle: Bytes within which 16-byte chunks are exchanged in shared memory; 0: none.
        interleave: Bytes of a slice of channels; 0: channels are not sliced.
        fill_nan: Whether elements outside of the tensor are NaN and not 0.
        im2col: The bounding box of an im2col map; None: a tiled one.
        offset: Bytes from the start of the array to the tensor.

    Raises:
        UsageError: the driver would refuse these values.
    """

    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...] = ()
    element_strides: tuple[int, ...] = ()
    swizzle: Swizzle = 0
    interleave: Interleave = 0
    fill_nan: bool = False
    im2col: Im2col | None = None
    offset: int = 0

    def __post_init__(self) -> None:
        wrong = next(_faults(self), None)
        if wrong is not None:
            raise UsageError(
                f"tensor map of {self.dtype} {self.dims}: {wrong}",
                "The rules are those of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.",
            )

    @property
    def rank(self) -> int:
        """Axes."""
        return len(self.dims)

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def steps(self) -> tuple[int, ...]:
        """`element_strides`, where they count: without slices the innermost axis has none."""
        steps = self.element_strides or (1,) * self.rank
        return steps if self.interleave else (1, *steps[1:])

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis of what a copy moves; of im2col, channels and pixels."""
        if self.im2col is not None:
            return (self.im2col.channels, self.im2col.pixels)
        return tuple(-(-size // step) for size, step in zip(self.box, self.steps, strict=True))

    def encode(self, address: int) -> bytes:
        """The 128 bytes of the map of a tensor whose array starts at an address.

        Raises:
            UsageError: the address is not aligned as the map needs it.
        """
        address += self.offset
        if address % (32 if self.interleave == 32 else 16):
            raise UsageError(
                f"tensor map of {self.dtype} {self.dims}: its address is not a multiple of 16",
                "The rules are those of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.",
            )
        pixels = self.im2col or Im2col((), (), 0, 0)
        kinds = (_TYPES.index(self.dtype), self.rank, self.swizzle, self.interleave,
                 self.fill_nan | (self.im2col is not None) << 1)  # fmt: skip
        axes = (*_padded(self.dims, 5), *_padded(self.strides, 4), *_padded(self.box, 5))
        corners = (*_padded(pixels.lower, 3), *_padded(pixels.upper, 3))
        return _FORM.pack(
            _MAGIC, address, *axes, *_padded(self.element_strides, 5), *kinds, *corners,
            pixels.channels, pixels.pixels,
        ).ljust(BYTES, b"\0")  # fmt: skip


def _padded(values: Sequence[int], count: int) -> tuple[int, ...]:
    return (*values, *(0,) * (count - len(values)))


def decode(data: bytes) -> tuple[TensorMap, int] | None:
    """The map in 128 bytes and the tensor's address; None: these bytes are no map."""
    if int.from_bytes(data[:8], "little") != _MAGIC:
        return None
    fields = _FORM.unpack(data[: _FORM.size])
    kind, rank, swizzle, interleave, flags = fields[21:26]
    dims, strides = fields[2 : 2 + rank], fields[7 : 6 + rank]
    steps = fields[16 : 16 + rank] if any(fields[16:21]) else ()
    spatial = rank - 2
    pixels = None
    if flags & 2:
        pixels = Im2col(fields[26 : 26 + spatial], fields[29 : 29 + spatial], *fields[32:34])
    found = TensorMap(
        _TYPES[kind], dims, strides, () if pixels else fields[11 : 11 + rank], steps,
        swizzle, interleave, bool(flags & 1), pixels,
    )  # fmt: skip
    return found, fields[1]


def _faults(m: TensorMap) -> Iterator[str]:
    """What the driver would refuse, in the order of its manual."""
    if m.dtype not in ELEMENT_BYTES:
        yield f"unknown type; known are {', '.join(_TYPES)}"
        return
    least = 3 if m.interleave or m.im2col is not None else 1
    if not least <= len(m.dims) <= 5:
        yield f"it has {len(m.dims)} axes, not {least} to 5"
    if any(not 1 <= size <= 1 << 32 for size in m.dims):
        yield "an axis has 1 to 2^32 elements"
    unit = 32 if m.interleave == 32 else 16
    if len(m.strides) != len(m.dims) - 1:
        yield f"it has {len(m.strides)} strides, not one for each axis but the innermost"
    if any(not 0 <= stride < 1 << 40 or stride % unit for stride in m.strides):
        yield f"strides are multiples of {unit} bytes below 2^40, not {m.strides}"
    if m.element_strides and len(m.element_strides) != len(m.dims):
        yield f"it has {len(m.element_strides)} element strides, not one for each axis"
    if any(not 1 <= step <= 8 for step in m.element_strides):
        yield f"element strides are 1 to 8, not {m.element_strides}"
    if m.fill_nan and m.dtype in _INTEGERS:
        yield "only floating-point types are filled with NaN"
    if m.interleave == 32 and m.swizzle != 32:
        yield "an interleave of 32 bytes goes with a swizzle of 32"
    yield from _of_box(m) if m.im2col is None else _of_pixels(m, m.im2col)


def _of_box(m: TensorMap) -> Iterator[str]:
    if len(m.box) != len(m.dims) or any(not 1 <= size <= 256 for size in m.box):
        yield f"its box {m.box} is not 1 to 256 elements along each axis"
        return
    yield from _of_row(m, m.box[0] * ELEMENT_BYTES[m.dtype])


def _of_row(m: TensorMap, row: int) -> Iterator[str]:
    if not m.interleave and row % 16:
        yield f"a row of its box has {row} bytes, not a multiple of 16"
    if not m.interleave and m.swizzle and row > m.swizzle:
        yield f"a row of its box has {row} bytes, more than the {m.swizzle} that are swizzled"


def _of_pixels(m: TensorMap, pixels: Im2col) -> Iterator[str]:
    spatial = len(m.dims) - 2
    if m.box:
        yield "an im2col map has pixels and channels in place of a box"
    if len(pixels.lower) != spatial or len(pixels.upper) != spatial:
        yield f"corners have {spatial} offsets, one for each of W, H and D"
        return
    most = _CORNERS[spatial]
    if any(not -most <= offset < most for offset in (*pixels.lower, *pixels.upper)):
        yield f"offsets of corners are {-most} to {most - 1}"
    for size, low, high in zip(m.dims[1:], pixels.lower, pixels.upper, strict=False):
        if low > size - 1 + high:
            yield "its bounding box has no pixels"
    if not 1 <= pixels.channels <= 256 or not 1 <= pixels.pixels <= 1024:
        yield "it copies 1 to 256 channels of 1 to 1024 pixels"
    yield from _of_row(m, pixels.channels * ELEMENT_BYTES[m.dtype])
