"""Matrix descriptors of ``wgmma``: where the elements of a matrix lie in shared memory.

The formats and layouts are those of the PTX manual ("Asynchronous Warpgroup Level Matrix
Shared Memory Layout"): matrices are made of cores of eight rows of 16 bytes, or of eight
rows of 32, 64 or 128 bytes whose 16-byte chunks are exchanged as a tensor map's are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.ops.bulk.tiles import swizzled

Ints = NDArray[np.int64]
#: The two highest bits of a descriptor -> bytes within which chunks are exchanged.
_SWIZZLES = (0, 128, 64, 32)
#: Rows of a core, and bytes of one of its rows.
CORE, ROW = 8, 16


class MatrixDescriptor(NamedTuple):
    """A descriptor taken apart; all but `swizzle` and `base` in bytes.

    Attributes:
        start: Where the matrix starts.
        leading: The leading dimension's byte offset.
        stride: The stride dimension's byte offset.
        base: The base offset, 0 to 7.
        swizzle: 0, 32, 64 or 128.
    """

    start: int
    leading: int
    stride: int
    base: int
    swizzle: int


def descriptor(bits: int) -> MatrixDescriptor:
    """The fields of a descriptor's 64 bits."""
    start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    return MatrixDescriptor(start, leading, stride, bits >> 49 & 7, _SWIZZLES[bits >> 62 & 3])


@lru_cache(maxsize=4096)
def addresses(d: MatrixDescriptor, shape: tuple[int, int], size: int, *, by_k: bool) -> Ints:
    """Shared-memory address of each element, in the shape of the matrix.

    Args:
        d: The descriptor.
        shape: Rows (of A; columns of B), and length along K.
        size: Bytes of an element.
        by_k: Whether neighbours along K are neighbours in memory (K-major).
    """
    outer = np.arange(shape[0], dtype=np.int64)[:, None]
    k = np.arange(shape[1], dtype=np.int64)[None, :]
    span = d.swizzle or ROW
    if by_k:
        chunk, rest = np.divmod(k * size, ROW)
        # Without exchange the two chunks of a row are `leading` apart, otherwise neighbours.
        along = chunk * (ROW if d.swizzle else d.leading) + rest
        plain = d.start + outer % CORE * span + outer // CORE * d.stride + along
    else:
        per = ROW // size
        chunk, rest = np.divmod(outer, per)
        inner, block = chunk % (span // ROW), chunk // (span // ROW)
        # Without exchange the offsets trade places.
        far, deep = (d.leading, d.stride) if d.swizzle else (d.stride, d.leading)
        plain = d.start + inner * ROW + block * far + rest * size
        plain = plain + k % CORE * span + k // CORE * deep
    found = swizzled(plain, d.swizzle)
    found.setflags(write=False)
    return found
