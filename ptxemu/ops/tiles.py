"""The elements of a tensor that a copy moves, and the place of each in shared memory.

Pure functions of a tensor map and coordinates. Coordinates have one row per copy, innermost axis
first; results have one row per copy and one column per unit, in the order of shared memory before
swizzling. A unit is 16 bytes of a row if these stay together, else an element.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ptxemu.state.values import Bools, Ints
from ptxemu.tensormap import Im2col, TensorMap

#: Bytes that swizzling keeps together.
CHUNK = 16


class TileUnits(NamedTuple):
    """The units that copies of one map move.

    Attributes:
        source: Bytes from the tensor's start to each unit, (copies, units).
        inside: True for units inside the tensor, of the same shape.
        unit: Bytes of a unit.
    """

    source: Ints
    inside: Bools
    unit: int


def swizzled(address: Ints, swizzle: int) -> Ints:
    """Swizzle addresses of shared memory: chunks of 16 bytes are exchanged.

    The bits of a chunk's number in its span of `swizzle` bytes are changed by those of the
    number of its 128-byte line (PTX manual, "Swizzling Modes").
    """
    if not swizzle:
        return address
    chunks = swizzle // CHUNK
    return address ^ ((address >> 7 & (chunks - 1)) << 4)


def tile(m: TensorMap, coordinates: Ints, offsets: Ints | None = None) -> TileUnits:
    """The units that copies at these coordinates move.

    Args:
        m: The tensor map.
        coordinates: (copies, rank).
        offsets: For an im2col copy: offsets for W, H and D, (copies, rank - 2).
    """
    whole = _in_chunks(m, coordinates)
    unit = CHUNK if whole else m.size
    if m.im2col is None:
        steps = _box(m.shape, m.steps, unit // m.size)
        where = [c[:, None] + step for c, step in zip(coordinates.T, steps, strict=True)]
    else:
        assert offsets is not None
        where = _pixels(m, m.im2col, coordinates, offsets, unit // m.size)
    # Units along the innermost axis are inside or outside as a whole.
    source = where[0] * m.size
    inside = (where[0] >= 0) & (where[0] < m.dims[0])
    for place, size, stride in zip(where[1:], m.dims[1:], m.strides, strict=True):
        source = source + place * stride
        inside = inside & (place >= 0) & (place < size)
    return TileUnits(source, inside, unit)


def _in_chunks(m: TensorMap, coordinates: Ints) -> bool:
    """Test whether every 16-byte chunk of a row is either entirely in the tensor or not at all."""
    per = CHUNK // m.size
    cut = m.dims[0] % per or (coordinates[:, 0] % per).any() or m.shape[0] % per
    return m.steps[0] == 1 and not cut


@lru_cache(maxsize=64)
def _box(shape: tuple[int, ...], steps: tuple[int, ...], per: int) -> tuple[Ints, ...]:
    """Places of a box's units along each axis, from its corner; `per` elements per unit."""
    axes = [np.arange(n, dtype=np.int64) * step for n, step in zip(shape, steps, strict=True)]
    axes[0] = axes[0][::per]
    grid = np.meshgrid(*reversed(axes), indexing="ij")
    return tuple(axis.reshape(1, -1) for axis in reversed(grid))


def _pixels(m: TensorMap, box: Im2col, coordinates: Ints, offsets: Ints, per: int) -> list[Ints]:
    """Places of an im2col copy's units along each axis.

    Pixels are taken along W, H, D and N, in steps, from the given one; each axis but N restarts at
    the bounding box's lower corner.
    """
    number = np.broadcast_to(np.arange(box.pixels, dtype=np.int64), (len(coordinates), box.pixels))
    places = []
    sizes = zip(m.dims[1:-1], box.lower, box.upper, m.steps[1:-1], strict=True)
    for axis, (size, low, high, step) in enumerate(sizes):
        extent = -(-(size + high - low) // step)  # pixels of the bounding box along this axis
        start = (coordinates[:, axis + 1] - low) // step
        number = number + start[:, None]
        begin = coordinates[:, axis + 1] - start * step  # keeps the remainder of a step
        places.append(number % extent * step + begin[:, None] + offsets[:, axis][:, None])
        number = number // extent
    places.append(number + coordinates[:, -1][:, None])
    channels = np.arange(0, box.channels, per, dtype=np.int64)
    shape = (len(coordinates), box.pixels, len(channels))
    first = np.broadcast_to(coordinates[:, :1, None] + channels, shape)
    every = [first, *(np.broadcast_to(place[:, :, None], shape) for place in places)]
    return [each.reshape(len(coordinates), -1) for each in every]
