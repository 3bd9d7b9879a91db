"""Typed columns from rows, a few bytes per value, so that frames of millions of rows fit.

A name that occurs in a million rows is kept once, and its number a million times, as pandas keeps a
category; numbers are machine numbers, not Python objects.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[Any, ...]
Kind = Literal["category", "float", "int", "time", "object"]

#: The number of rows that are held as tuples at a time.
_AT_ONCE = 4096


class _Numbered:
    """Values by index, each kept once."""

    def __init__(self) -> None:
        self.codes: defaultdict[Any, int] = defaultdict(count().__next__)
        self.rows = array("i")

    def extend(self, values: Sequence[Any]) -> None:
        self.rows.extend(map(self.codes.__getitem__, values))


def frame_of(rows: Iterable[Row], columns: dict[str, Kind]) -> pd.DataFrame:
    """A frame of rows, each with a value for every column; None stands for a missing float.

    A category's values are strings; a time is ISO 8601 in UTC, or None.
    """
    found: dict[str, Any] = {}
    for name, kind in columns.items():
        numbers = {"float": "d", "int": "q"}.get(kind)
        found[name] = array(numbers) if numbers else _Numbered()
    rows = iter(rows)
    while part := list(islice(rows, _AT_ONCE)):
        for (name, kind), values in zip(columns.items(), zip(*part, strict=True), strict=True):
            if kind == "float":
                found[name].extend(math.nan if value is None else value for value in values)
            else:
                found[name].extend(values)
    return _frame({name: (kind, found.pop(name)) for name, kind in columns.items()})


def _frame(columns: dict[str, tuple[Kind, Any]]) -> pd.DataFrame:
    import pandas as pd

    series = {name: _series(*columns.pop(name)) for name in list(columns)}
    return pd.DataFrame(series, copy=False)


def _series(kind: Kind, values: Any) -> Any:
    import numpy as np
    import pandas as pd

    if kind in ("float", "int"):
        return np.asarray(values)
    rows = np.asarray(values.rows)
    if kind == "category":
        ordered = sorted(values.codes)
        place = np.empty(len(ordered), dtype="int32")
        place[[values.codes[name] for name in ordered]] = np.arange(len(ordered), dtype="int32")
        return pd.Categorical.from_codes(place[rows], categories=pd.Index(ordered))
    each = np.empty(len(values.codes), dtype=object)
    each[:] = list(values.codes)
    if kind == "time":
        return pd.to_datetime(pd.Series(each), utc=True).take(rows).reset_index(drop=True)
    return pd.Series(each[rows]).infer_objects()
