"""What buffers are made of: NumPy's types by name, and bfloat16, which NumPy does not have.

``ml_dtypes`` gives NumPy that type. It is imported where it is asked for, and its name stands
where NumPy's own short one (``<V2``: two bytes of anything) would say nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
            f"`{name}` is no type of a buffer's elements", "Write one such as float32 or bfloat16."
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
