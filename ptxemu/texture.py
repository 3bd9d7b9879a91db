"""Textures: the descriptors of ``cuTexObjectCreate``, and reading texels.

The driver's rules for refusing values are stated here once, as for tensor maps.
`ptxemu.ops.textures` turns a coordinate into texels and weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from ptxemu.errors import DescriptorError

#: NumPy's types for a texel's channels: their bytes, and the divisor of an integer that is read as
#: a number in [0, 1] or [-1, 1]; 0: not possible.
CHANNELS = {
    "uint8": (1, 255), "int8": (1, 127), "uint16": (2, 65_535), "int16": (2, 32_767),
    "uint32": (4, 0), "int32": (4, 0), "float16": (2, 0), "float32": (4, 0),
}  # fmt: skip
#: Modes for a coordinate outside the texture.
Addressing = Literal["clamp", "border", "wrap", "mirror"]
#: Read the nearest texel, or interpolate its neighbours.
Filter = Literal["point", "linear"]
#: Texels are in the buffer itself, or copied into a CUDA array.
Layout = Literal["linear", "array"]
#: Row alignment in a buffer: ``CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT`` of every chip so far.
PITCH_ALIGNMENT = 32
#: Texels that a row in linear memory may have, and each axis of an array of one to three.
_LINEAR = 1 << 28
_LIMITS = {1: (131_072,), 2: (131_072, 65_536), 3: (16_384, 16_384, 16_384)}


@dataclass(frozen=True, slots=True)
class Texture:
    """Texels in global memory and the way they are read. The innermost axis is first.

    Attributes:
        dtype: Type of a channel, a key of `CHANNELS`.
        dims: Texels along each axis, one to three.
        channels: Channels of a texel: 1, 2 or 4.
        pitch: Bytes from one row to the next; 0: without gaps.
        layout: ``linear``: in the buffer (one axis for ``tex1Dfetch``, or two); or ``array``.
        address: Mode for coordinates outside, per axis; or one for all.
        filter: ``linear`` interpolates the neighbours.
        normalized: Coordinates are from 0 to 1.
        as_float: Integers are read as numbers from 0 or -1 to 1.
        layers: Layers of a layered texture, each of `dims`, in sequence; 0: it is not layered.

    Raises:
        DescriptorError: the driver would refuse these values, or change them.
    """

    dtype: str
    dims: tuple[int, ...]
    channels: int = 1
    pitch: int = 0
    layout: Layout = "array"
    address: tuple[Addressing, ...] = ("clamp",)
    filter: Filter = "point"
    normalized: bool = False
    as_float: bool = False
    layers: int = 0

    def __post_init__(self) -> None:
        wrong = next(_faults(self), None)
        if wrong is not None:
            key, what, hint = wrong
            raise DescriptorError(key, f"texture of {self.dtype} {self.dims}: {what}", hint)

    @property
    def texel(self) -> int:
        """Bytes of a texel."""
        return self.channels * CHANNELS[self.dtype][0]

    @property
    def row(self) -> int:
        """Bytes from one row to the next."""
        return self.pitch or self.dims[0] * self.texel

    @property
    def extent(self) -> int:
        """Bytes from the first texel to the end of the last."""
        rows = math.prod(self.dims[1:]) * max(self.layers, 1)
        return (rows - 1) * self.row + self.dims[0] * self.texel

    @property
    def floating(self) -> bool:
        """True if a fetch gives floating-point numbers."""
        return self.as_float or self.dtype.startswith("float")

    @property
    def modes(self) -> tuple[Addressing, ...]:
        """The mode for coordinates outside, along each axis."""
        return self.address if len(self.address) > 1 else self.address * len(self.dims)


def _faults(t: Texture) -> Iterator[tuple[str, str, str]]:
    """Settings that the driver would refuse or change: the attribute, why, and a hint."""
    if t.dtype not in CHANNELS:
        yield "dtype", "unknown type", f"Known: {', '.join(CHANNELS)}."
        return
    for key, values, known in (
        ("layout", (t.layout,), get_args(Layout)),
        ("filter", (t.filter,), get_args(Filter)),
        ("address", t.address, get_args(Addressing)),
        ("channels", (t.channels,), (1, 2, 4)),
    ):
        for value in values:
            if value not in known:
                yield key, f"unknown {key} {value}", f"Known: {', '.join(map(str, known))}."
    axes, linear = len(t.dims), t.layout == "linear"
    if not 1 <= axes <= (2 if linear else 3):
        most = "two axes in linear memory, and three" if linear else "three axes"
        yield "dims", f"it has {axes} axes", f"A texture has at most {most} in an array."
        return
    limits = (_LINEAR,) if linear and axes == 1 else _LIMITS[axes]
    for size, limit in zip(t.dims, limits, strict=True):
        if not 1 <= size <= limit:
            yield "dims", f"an axis has {size:,} texels", f"It must be 1 to {limit:,}."
    if len(t.address) not in (1, axes):
        yield "address", f"it has {len(t.address)} modes", "Give one, or one for each axis."
    if t.pitch and t.pitch < t.dims[0] * t.texel:
        yield (
            "pitch",
            f"rows of {t.dims[0] * t.texel:,} bytes are {t.pitch:,} bytes apart",
            "Give the number of bytes from one row to the next, or leave it out.",
        )
    if linear and axes > 1 and t.row % PITCH_ALIGNMENT:
        yield (
            "pitch" if t.pitch else "dims",
            f"rows in linear memory are {t.row:,} bytes apart, not a multiple of {PITCH_ALIGNMENT}",
            'Write layout = "array", which copies them, or pad the rows and give `pitch`.',
        )
    if not t.normalized and {"wrap", "mirror"} & set(t.address):
        yield (
            "address",
            f"{', '.join(dict.fromkeys(t.address))}, but the coordinates count texels",
            'CUDA treats it as "clamp": write that, or normalized = true and coordinates from 0 '
            "to 1.",
        )
    if t.as_float and not CHANNELS[t.dtype][1]:
        yield "read", f"{t.dtype} cannot become a number in [0, 1]", 'Leave `read = "float"` out.'
    if t.filter == "linear" and not t.floating:
        yield (
            "filter",
            "integers are not interpolated",
            'Add read = "float" (for 8 and 16 bits), or write filter = "point".',
        )
    if linear and axes == 1 and (t.filter == "linear" or t.normalized):
        yield (
            "filter" if t.filter == "linear" else "normalized",
            "linear memory of one axis is read only by tex1Dfetch, at integer coordinates",
            'Write layout = "array" and read it with tex1D.',
        )
