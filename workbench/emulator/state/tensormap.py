"""The emulator's own form of a tensor map: the 128 bytes that a kernel holds.

The driver's 128 bytes are opaque. Ours hold the values of a `TensorMap` in its order, so that a
kernel can be given one as a ``__grid_constant__`` parameter, keep it in constant or global
memory, and copy it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from workbench.errors import UsageError
from workbench.study.tensormap import ELEMENT_BYTES, Im2col, TensorMap

_TYPES = tuple(ELEMENT_BYTES)
BYTES = 128
_MAGIC = 0x50414D524F534E54  # "TNSORMAP"
_FORM = struct.Struct("<QQ5Q4Q5H5B5B3h3hHH")


def encode(m: TensorMap, address: int) -> bytes:
    """The 128 bytes of the map of a tensor whose array starts at an address.

    Raises:
        UsageError: the address is not aligned as the map needs it.
    """
    address += m.offset
    if address % m.alignment:
        raise UsageError(
            f"tensor map of {m.dtype} {m.dims}: its address is not a multiple of {m.alignment}",
            "The rules are those of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.",
        )
    pixels = m.im2col or Im2col((), (), 0, 0)
    kinds = (_TYPES.index(m.dtype), m.rank, m.swizzle, m.interleave,
             m.fill_nan | (m.im2col is not None) << 1)  # fmt: skip
    axes = (*_padded(m.dims, 5), *_padded(m.strides, 4), *_padded(m.box, 5))
    corners = (*_padded(pixels.lower, 3), *_padded(pixels.upper, 3))
    return _FORM.pack(
        _MAGIC, address, *axes, *_padded(m.element_strides, 5), *kinds, *corners,
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
