"""Tensor maps: the arguments of ``cuTensorMapEncodeTiled`` and ``cuTensorMapEncodeIm2col``.

The driver's rules for refusing values are stated here once: they are checked when a version is
read, before a driver or the emulator uses the values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ptxemu.errors import DescriptorError

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
#: Bytes to which a copy's reads of L2 are rounded up.
Promotion = Literal[0, 64, 128, 256]
#: Values of elements outside the tensor; NaN only for floating-point types.
FILLS = ("zero", "nan")
#: Bytes of shared memory that a block may have on compute capability 9.0.
SHARED_LIMIT = 232_448
#: Range of a corner's offsets, by their number.
_CORNERS = {1: 1 << 15, 2: 1 << 7, 3: 1 << 4}
#: The hint that names the source of the rules.
RULES = "The rules are those of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col."


@dataclass(frozen=True, slots=True)
class Im2col:
    """The parts of an im2col map in place of a box; corners have one entry each for W, H, D.

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
    """A tensor in global memory and a copy's path through it. The innermost axis is first.

    Attributes:
        dtype: A key of `ELEMENT_BYTES`.
        dims: Elements along each axis, one to five.
        strides: Bytes from one element to the next along every axis but the innermost.
        box: Elements along each axis that a tiled copy covers; empty for im2col.
        element_strides: Steps along each axis; empty: 1 everywhere.
        swizzle: Bytes within which 16-byte chunks are exchanged in shared memory; 0: none.
        interleave: Bytes of a slice of channels; 0: channels are not sliced.
        fill_nan: Whether elements outside the tensor are NaN instead of 0.
        im2col: The bounding box of an im2col map; None: a tiled one.
        offset: Bytes from the start of the array to the tensor.
        l2_promotion: Bytes to which reads of L2 are rounded up; 0: no rounding.

    Raises:
        DescriptorError: the driver would refuse these values.
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
    l2_promotion: Promotion = 0

    def __post_init__(self) -> None:
        wrong = next(_faults(self), None)
        if wrong is not None:
            key, what = wrong
            raise DescriptorError(key, f"tensor map of {self.dtype} {self.dims}: {what}", RULES)

    @property
    def rank(self) -> int:
        """Axes."""
        return len(self.dims)

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def alignment(self) -> int:
        """Alignment of the tensor's address, in bytes."""
        return 32 if self.interleave == 32 else 16

    @property
    def extent(self) -> int:
        """Bytes from the tensor's first element to the end of its last."""
        reach = zip(self.dims[1:], self.strides, strict=True)
        return sum((n - 1) * stride for n, stride in reach) + self.dims[0] * self.size

    def encoded(self, address: int) -> bytes:
        """The 128 bytes of the map of a tensor whose array starts at an address.

        Raises:
            DescriptorError: the address lacks the map's alignment.
        """
        address += self.offset
        _check_address(self, address)
        pixels = self.im2col or Im2col((), (), 0, 0)
        said = (self.dtype, self.rank, self.swizzle, self.interleave, self.fill_nan)
        return _FORM.pack(
            address, MARK, *_padded(self.strides, 4),
            *_padded([size % (1 << 32) for size in self.dims], 5), *_padded(self.box, 5),
            *_padded(self.element_strides or (1,) * self.rank, 5),
            *(known.index(value) for known, value in zip(_CODED, said, strict=True)),
            *_padded(pixels.lower, 3), *_padded(pixels.upper, 3), pixels.channels, pixels.pixels,
        ).ljust(BYTES, b"\0")  # fmt: skip

    @property
    def steps(self) -> tuple[int, ...]:
        """`element_strides` that apply: without slices the innermost axis has none."""
        steps = self.element_strides or (1,) * self.rank
        return steps if self.interleave else (1, *steps[1:])

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis that a copy moves; for im2col, channels and pixels."""
        if self.im2col is not None:
            return (self.im2col.channels, self.im2col.pixels)
        return tuple(-(-size // step) for size, step in zip(self.box, self.steps, strict=True))


def _faults(m: TensorMap) -> Iterator[tuple[str, str]]:
    """Errors that the driver would report, in its manual's order: the attribute, and why."""
    if m.dtype not in ELEMENT_BYTES:
        yield "dtype", f"unknown type; known are {', '.join(_TYPES)}"
        return
    for key, value, known in (
        ("swizzle", m.swizzle, get_args(Swizzle)),
        ("interleave", m.interleave, get_args(Interleave)),
        ("l2_promotion", m.l2_promotion, get_args(Promotion)),
    ):
        if value not in known:
            yield key, f"{key} is {value}, not one of {', '.join(map(str, known))} bytes"
    least = 3 if m.interleave or m.im2col is not None else 1
    if not least <= len(m.dims) <= 5:
        yield "dims", f"it has {len(m.dims)} axes, not {least} to 5"
    if any(not 1 <= size <= 1 << 32 for size in m.dims):
        yield "dims", "an axis must have 1 to 2^32 elements"
    unit = m.alignment
    if len(m.strides) != len(m.dims) - 1:
        yield (
            "strides",
            f"it has {len(m.strides)} strides, not one for each axis except the innermost",
        )
    if any(not 0 <= stride < 1 << 40 or stride % unit for stride in m.strides):
        yield "strides", f"strides must be multiples of {unit} bytes below 2^40, not {m.strides}"
    if m.element_strides and len(m.element_strides) != len(m.dims):
        yield (
            "element_strides",
            f"it has {len(m.element_strides)} element strides, not one for each axis",
        )
    if any(not 1 <= step <= 8 for step in m.element_strides):
        yield "element_strides", f"element strides must be 1 to 8, not {m.element_strides}"
    if m.fill_nan and m.dtype in _INTEGERS:
        yield "fill", "only floating-point types can be filled with NaN"
    if m.interleave == 32 and m.swizzle != 32:
        yield "swizzle", "an interleave of 32 bytes needs a swizzle of 32"
    yield from _of_box(m) if m.im2col is None else _of_pixels(m, m.im2col)


def _of_box(m: TensorMap) -> Iterator[tuple[str, str]]:
    if len(m.box) != len(m.dims) or any(not 1 <= size <= 256 for size in m.box):
        yield "box", f"its box {m.box} is not 1 to 256 elements along each axis"
        return
    steps = m.element_strides or (1,) * len(m.box)
    taken = (-(-size // step) for size, step in zip(m.box, steps, strict=True))
    if (size := math.prod(taken) * ELEMENT_BYTES[m.dtype]) > SHARED_LIMIT:
        yield "box", f"its box has {size:,} bytes; a block's shared memory, {SHARED_LIMIT:,}"
    yield from _of_row(m, "box", m.box[0] * ELEMENT_BYTES[m.dtype])


def _of_row(m: TensorMap, key: str, row: int) -> Iterator[tuple[str, str]]:
    if row % 16:
        yield key, f"a row of its box has {row} bytes, not a multiple of 16"
    if not m.interleave and m.swizzle and row > m.swizzle:
        yield key, f"a row of its box has {row} bytes, more than the swizzle's {m.swizzle}"


def _of_pixels(m: TensorMap, pixels: Im2col) -> Iterator[tuple[str, str]]:
    spatial = len(m.dims) - 2
    if m.box:
        yield "box", "an im2col map has pixels and channels instead of a box"
    for key, corner in (("lower", pixels.lower), ("upper", pixels.upper)):
        if len(corner) != spatial:
            yield key, f"corners have {spatial} offsets, one for each of W, H and D"
            return
        most = _CORNERS[spatial]
        if any(not -most <= offset < most for offset in corner):
            yield key, f"offsets of corners must be {-most} to {most - 1}"
    for size, low, high in zip(m.dims[1:], pixels.lower, pixels.upper, strict=False):
        if low > size - 1 + high:
            yield "upper", "its bounding box has no pixels"
    if not 1 <= pixels.channels <= 256:
        yield "channels", "it must copy 1 to 256 channels per pixel"
    if not 1 <= pixels.pixels <= 1024:
        yield "pixels", "it must copy 1 to 1024 pixels"
    yield from _of_row(m, "channels", pixels.channels * ELEMENT_BYTES[m.dtype])


# --- the 128 bytes that a kernel holds ---


BYTES = 128
#: The number at byte 8 of a map: "TNSORMAP".
MARK = 0x50414D524F534E54
#: Address, mark; strides, sizes, box and steps; the fields of `_CODED`; those of im2col.
_FORM = struct.Struct("<QQ4Q5I5H5B5B3h3hHH")
#: Fields that ``tensormap.replace`` writes: the first byte of each, and a step per axis.
FIELDS = {
    "global_address": range(0, 8, 8), "global_stride": range(16, 48, 8),
    "global_dim": range(48, 68, 4), "box_dim": range(68, 78, 2), "element_stride": range(78, 83),
    "elemtype": range(83, 84), "rank": range(84, 85), "swizzle_mode": range(85, 86),
    "interleave_layout": range(86, 87), "fill_mode": range(87, 88),
}  # fmt: skip
#: Meanings of the numbers of ``tensormap.replace``: type, axes, swizzle, interleave, NaN as fill.
_CODED: tuple[tuple[Any, ...], ...] = (
    (*_TYPES[:8], "float32_ftz", "float64", "bfloat16", *_TYPES[11:]),
    (1, 2, 3, 4, 5), get_args(Swizzle), get_args(Interleave), (False, True),
)  # fmt: skip


def _padded(values: Sequence[int], count: int) -> tuple[int, ...]:
    return (*values, *(0,) * (count - len(values)))


def decode(data: bytes) -> tuple[TensorMap, int]:
    """The map in 128 bytes and the tensor's address.

    Raises:
        DescriptorError: these bytes are not a map, or one that the driver would refuse.
    """
    address, mark, *fields = _FORM.unpack_from(data)
    codes = list(zip(fields[19:24], _CODED, strict=True))
    if mark != MARK or any(code >= len(known) for code, known in codes):
        raise DescriptorError("map", "these 128 bytes are not a tensor map", RULES)
    dtype, rank, swizzle, interleave, fill_nan = (known[code] for code, known in codes)
    spatial, pixels = rank - 2, None
    if fields[31]:
        pixels = Im2col((*fields[24 : 24 + spatial],), (*fields[27 : 27 + spatial],), *fields[30:])
    found = TensorMap(
        dtype, tuple(size or 1 << 32 for size in fields[4 : 4 + rank]), (*fields[: rank - 1],),
        () if pixels else (*fields[9 : 9 + rank],), (*fields[14 : 14 + rank],), swizzle,
        interleave, fill_nan, pixels,
    )  # fmt: skip
    _check_address(found, address)
    return found, address


def _check_address(m: TensorMap, address: int) -> None:
    if address % m.alignment:
        what = f"tensor map of {m.dtype} {m.dims}: its address is not a multiple of {m.alignment}"
        raise DescriptorError("offset", what, RULES)
