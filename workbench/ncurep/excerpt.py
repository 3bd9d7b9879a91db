"""Some launches of a report as a report of their own, so that a large one is read in parts.

NVIDIA's reader loads a report as a whole, and needs about forty times its size. An excerpt holds
every block's header (session records, and the names of metrics, which come with the first result)
and every source (machine code), but only the requested results. Blocks are read from the file one
by one, so a report takes no more memory than its largest block.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Container as Holder
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from workbench.errors import DataError
from workbench.model import Dim3, Record
from workbench.ncurep.container import (
    MAGIC,
    NUM_RESULTS,
    NUM_SOURCES,
    PAYLOAD_SIZE,
    RESULT_FUNCTION,
    RESULT_MANGLED,
    SIZE,
    FileBlock,
    read_blocks,
)
from workbench.ncurep.wire import Field, WireError, fields, messages, text, varint

#: Fields of a result: its grid and block, each x, y, z.
_GRID, _BLOCK = 10, 11
#: In a block's header: the names of the metrics that its results add, numbered over all blocks.
METRIC_NAMES = 4
#: In a result: a metric, its number in that list and its value. ncu always stores nanoseconds.
METRIC, _DURATION = 13, b"gpu__time_duration.sum"
_DOUBLE = b"\x12\x09\x19"  # a message of nine bytes: field 3, of fixed 64 bits
_VALUE = struct.Struct("<d")
#: The most bytes of results in an excerpt, and the most results.
PART, MOST = 8 << 20, 250


class ListedResult(Record, frozen=True):
    """The facts of a launch that a report gives without the native reader: enough to choose it."""

    symbol: str
    function: str
    grid: Dim3
    block: Dim3
    size: int  # bytes in the file
    duration_ns: float | None = None


def list_results(path: Path) -> list[ListedResult]:
    """List a plain report's results, in the reader's order; DataError: cut short or damaged."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return list(_walk(data, path))
        except WireError as error:
            raise DataError(f"{path}: damaged: {error}", "Copy the file again.") from error


def _walk(data: mmap.mmap, path: Path) -> Iterator[ListedResult]:
    names: list[bytes] = []
    mark = b""
    for block in read_blocks(data, path):
        for key, table in block.header:
            if key == METRIC_NAMES and isinstance(table, bytes) and not mark:
                names += messages(table, 1)
                if _DURATION in names:
                    mark = b"\x08" + varint(names.index(_DURATION)) + _DOUBLE
        for result in block.results:
            yield _listed(result, mark)


def _duration(result: bytes, mark: bytes) -> float | None:
    """The value after `mark`, if that begins a metric: 5,000 results are searched in a second."""
    at = result.find(mark) if mark else -1
    while at >= 2 and result[at - 2] != (METRIC << 3 | 2):
        at = result.find(mark, at + 1)
    start = at + len(mark)
    if at < 2 or start + _VALUE.size > len(result):
        return None
    value: float = _VALUE.unpack_from(result, start)[0]
    return value if math.isfinite(value) else None


def _listed(result: bytes, mark: bytes) -> ListedResult:
    function = text(result, RESULT_FUNCTION)
    return ListedResult(
        symbol=text(result, RESULT_MANGLED) or function,
        function=function,
        grid=_dim3(result, _GRID),
        block=_dim3(result, _BLOCK),
        size=len(result),
        duration_ns=_duration(result, mark),
    )


def _dim3(result: bytes, number: int) -> Dim3:
    for message in messages(result, number):
        values = {key: value for key, value in fields(message) if isinstance(value, int)}
        return values.get(1, 0), values.get(2, 0), values.get(3, 0)
    return (0, 0, 0)


def parts(results: Sequence[ListedResult], most: int = PART) -> Iterator[list[int]]:
    """The places of all results, each once, in parts of up to `MOST` and about `most` bytes.

    A kernel's launches are together.
    """
    kernels: dict[str, list[int]] = {}
    for place, result in enumerate(results):
        kernels.setdefault(result.symbol, []).append(place)
    part: list[int] = []
    size = 0
    for place in chain.from_iterable(kernels.values()):
        if part and (size + results[place].size > most or len(part) == MOST):
            yield sorted(part)
            part, size = [], 0
        part.append(place)
        size += results[place].size
    if part:
        yield sorted(part)


def excerpt(path: Path, wanted: Holder[int]) -> Iterator[bytes]:
    """The bytes of a report that holds the `wanted` results of another, and everything else.

    The report at `path` is whole, as `container` says, and not compressed. Results are counted
    from 0 in the order of `list_results`.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data[: len(MAGIC) + SIZE.size + SIZE.unpack_from(data, len(MAGIC))[0]]
        number = 0
        for block in read_blocks(data, path):
            held = range(number, number + len(block.results))
            number = held.stop
            if all(place in wanted for place in held):
                yield data[block.start : block.end]
                continue
            kept = [block.results[n] for n, place in enumerate(held) if place in wanted]
            if kept or block.sources or any(isinstance(value, bytes) for _, value in block.header):
                yield packed(block, kept)


def packed(block: FileBlock, results: Sequence[bytes]) -> bytes:
    """A block with some of its results."""
    payload = b"".join(SIZE.pack(len(entry)) + entry for entry in (*block.sources, *results))
    numbers = {NUM_SOURCES: len(block.sources), NUM_RESULTS: len(results)}
    numbers[PAYLOAD_SIZE] = len(payload)
    header = b"".join(
        encode((key, numbers.get(key, value)) if isinstance(value, int) else (key, value))
        for key, value in block.header
    )
    return SIZE.pack(len(header)) + header + payload


def encode(field: Field) -> bytes:
    """One field on the wire. Fixed-width numbers, which ncu's frames lack, become bytes."""
    key, value = field
    if isinstance(value, int):
        return varint(key << 3) + varint(value)
    return varint(key << 3 | 2) + varint(len(value)) + value
