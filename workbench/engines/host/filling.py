"""The bytes that a ``[[fill]]`` writes, for the GPU and for the emulator alike."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from workbench.engines.host.elements import dtype_of, is_float
from workbench.errors import UsageError, did_you_mean
from workbench.study.launches import ResolvedFill

Bytes = NDArray[np.uint8]


def unit(fill: ResolvedFill) -> Bytes:
    """The bytes of a fill's values, once; they are repeated over the memory."""
    dtype = dtype_of(fill.dtype)
    number = float if is_float(dtype) else int
    with np.errstate(over="ignore"):  # a number beyond the type's range is its infinity
        values = np.array([number(text) for text in fill.values], dtype=dtype)
    return values.view(np.uint8)


def check_whole(fill: ResolvedFill, size: int) -> None:
    """Refuse to fill `size` bytes with values of which no whole number fits.

    Raises:
        UsageError: it is so.
    """
    step = dtype_of(fill.dtype).itemsize
    if size % step:
        raise UsageError(
            f"{fill.where}: `{fill.name}` has {size:,} bytes, which is not a whole number of "
            f"{fill.dtype}",
            "Correct its `dtype`.",
        )


def repeated(fill: ResolvedFill, size: int) -> Bytes:
    """`size` bytes of a fill's values."""
    return np.resize(unit(fill), size)


def check_copy(fill: ResolvedFill, source: int, target: int) -> None:
    """Refuse to copy an input that is larger than what it is copied to; sizes in bytes.

    Raises:
        UsageError: it does not fit.
    """
    if source > target:
        raise UsageError(
            f"{fill.where}: input `{fill.input}` has {source:,} bytes, `{fill.name}` has room "
            f"for {target:,}",
            "Make the array in the code as large as the largest problem needs, or refuse the "
            "problem with `requires`.",
        )


def no_symbol(fill: ResolvedFill, known: Collection[str] = ()) -> UsageError:
    """The error for a name that is neither a buffer nor a variable of the build."""
    return UsageError(
        f"{fill.where}: `{fill.name}` is neither an output nor a scratch buffer nor a variable of "
        "the compiled code",
        "A __constant__ or __device__ variable must be neither static nor in a namespace, and must "
        f"be used. {did_you_mean(fill.name, known, 'names') if known else ''}".rstrip(),
    )
