"""What buffers are made of: types by name, bfloat16 among them, and the poison of outputs.

``ml_dtypes`` gives NumPy that type. It is imported where it is asked for, and its name stands
where NumPy's own short one (``<V2``: two bytes of anything) would say nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.errors import UsageError

DType = np.dtype[Any]
_BFLOAT16 = "bfloat16"


def dtype_of(name: str) -> DType:
    """The type of a name such as ``float16``, ``<f4`` or ``bfloat16``.

    Raises:
        UsageError: there is no such type.
    """
    if name == _BFLOAT16:
        import ml_dtypes

        found: DType = np.dtype(ml_dtypes.bfloat16)
        return found
    try:
        return np.dtype(name)
    except TypeError:
        raise UsageError(
            f"`{name}` is not a type of a buffer's elements",
            "Write one such as float32 or bfloat16.",
        ) from None


def name_of(dtype: DType) -> str:
    """The name by which `dtype_of` finds a type again."""
    return _BFLOAT16 if dtype.name == _BFLOAT16 else dtype.str


def is_float(dtype: DType) -> bool:
    """Whether it is a floating type."""
    return dtype.kind == "f" or dtype.name == _BFLOAT16


def interface_type(dtype: DType) -> str:
    """The type as ``__cuda_array_interface__`` can say it: of a bfloat16 its bits, an ``int16``."""
    return "<i2" if dtype.name == _BFLOAT16 else dtype.str


def poison_byte(dtype: DType) -> int:
    """The byte that outputs of this type are filled with before a launch."""
    return 0x7F if dtype.kind in "iub" else 0xFF


def unwritten(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which elements still hold the poison, bit by bit.

    Args:
        values: Output as copied from the device, any shape.

    Returns:
        Booleans of the same shape.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    size = flat.dtype.itemsize
    poison = np.full(size, poison_byte(flat.dtype), dtype=np.uint8)
    if size in (1, 2, 4, 8):
        word = poison.view(f"u{size}")[0]
        mask = flat.view(f"u{size}") == word
    else:
        mask = np.all(flat.view(np.uint8).reshape(-1, size) == poison, axis=1)
    return np.asarray(mask, dtype=np.bool_).reshape(values.shape)
