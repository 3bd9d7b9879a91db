"""Frames as CSV or Parquet, a portion of rows at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from workbench.errors import MissingError
from workbench.views.text.safe_output import escaped, inert
from workbench.views.text.tables import safe_text

if TYPE_CHECKING:
    import pandas as pd


def write_csv(frames: Iterable[pd.DataFrame], out: TextIO) -> int:
    """Write RFC 4180 text with Unix line ends and safe texts. Returns the number of rows."""
    rows = 0
    for number, frame in enumerate(frames):
        texts = [str(n) for n in frame if frame[n].dtype.name in ("category", "object", "str")]
        shown = frame.assign(**{name: _safe(frame[name]) for name in texts})
        text = shown.to_csv(index=False, header=number == 0, lineterminator="\n")
        out.write(inert(text))
        rows += len(frame)
    return rows


def _safe(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column with its texts made safe; each distinct text is checked once."""
    changed = {
        text: safe
        for text in column.unique()
        if isinstance(text, str) and (safe := safe_text(text)) != text
    }
    if not changed:
        return column
    return column.astype(object).map(lambda text: changed.get(text, text))


def write_json(frames: Iterable[pd.DataFrame], out: TextIO) -> int:
    """Write JSON: a list with an object for each row; NaN is null. Returns the number of rows."""
    texts = (each.to_json(orient="records", lines=True, date_format="iso") for each in frames)
    rows = 0
    for rows, line in enumerate((line for text in texts for line in text.splitlines()), 1):
        out.write(f"{'[' if rows == 1 else ','}\n{escaped(line)}")
    out.write("\n]\n")
    return rows


def write_parquet(frames: Iterable[pd.DataFrame], out: BinaryIO) -> int:
    """Write Parquet: a row group per frame, times in UTC. Returns the number of rows.

    Raises MissingError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingError(
            "Parquet is written by pyarrow, which is not installed",
            "pip install pyarrow; --format csv needs nothing.",
        ) from error
    kinds = {"float64": pa.float64(), "int64": pa.int64(), "bool": pa.bool_()}
    writer, rows = None, 0
    try:
        for frame in frames:
            columns = {}
            for name in frame:
                dtype = frame[name].dtype.name
                time = pa.timestamp("us", "UTC") if dtype.startswith("datetime64") else pa.string()
                columns[name] = pa.Array.from_pandas(frame[name]).cast(kinds.get(dtype, time))
            table = pa.table(columns)
            writer = writer or parquet.ParquetWriter(out, table.schema, compression="zstd")
            writer.write_table(table)
            rows += len(frame)
    finally:
        if writer is not None:
            writer.close()
    return rows
