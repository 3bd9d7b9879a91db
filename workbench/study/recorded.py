"""The recorded memory of a lifted launch as arrays, for its ``study.py``."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt

from workbench.errors import DataError
from workbench.study.lifted import AGAIN, RECORD, lifted_bytes, read_lifted


def recorded(
    folder: Path, buffer: str, dtype: str, *, after: bool = False
) -> npt.NDArray[np.generic]:
    """The content of a buffer before the launch or `after` it, as a flat array.

    `folder` is ``captured``, in the study; `dtype` is NumPy's name of the element type, or
    ``bfloat16``. A buffer that the launch did not change is the same before and after. Raises
    MissingError, DataError: as `workbench.study.lifted.lifted_bytes`; or there is no such buffer.
    """
    known = {each.name: each for each in read_lifted(folder).buffers}
    if buffer not in known:
        raise DataError(f"{folder / RECORD} has no buffer `{buffer}`", AGAIN)
    found = known[buffer]
    name = found.after if after and found.after is not None else found.before
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return np.frombuffer(lifted_bytes(folder, name), np.dtype(kind))
