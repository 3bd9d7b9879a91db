"""The structure of a ``.ncu-rep`` file: is it whole, and what made it.

NVIDIA's reader takes anything: an empty file, garbage and a folder all load as a
report with no ranges, and a file that was cut short loads as one with fewer
kernels. So the file is checked here before the reader sees it.

What is known of the format (NVIDIA documents a file header followed by blocks of
header and payload, and ships the protobuf definitions with Nsight Compute)::

    "NVR\\0"  u32 size  FileHeader                        once
    u32 size  BlockHeader  payload (u32 size  entry)*     until the end of the file

A block's payload holds its sources (cubins) first, then its results (kernels).
ncu appends blocks while it profiles and writes no end marker, so a file that was
cut between two blocks is structurally sound. Three facts still give it away: the
session records that follow the first kernel (ncu's version comes with them), the
list of functions a source announces before their kernels are written (ncu 2023
and later), and the process that a block names. See `Container.missing`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from workbench.errors import DataError

MAGIC = b"NVR\0"
_SIZE = struct.Struct("<I")

# Field numbers of the protobuf messages, as far as they matter here.
_NUM_SOURCES, _NUM_RESULTS, _SESSION, _PAYLOAD_SIZE, _PROCESS = 1, 2, 3, 5, 6
_SESSION_CREATED, _SESSION_TOOL, _SESSION_COMMAND = 2, 8, 11
_TOOL_NAME, _TOOL_VERSION = 1, 2
_PROCESS_NAME = 3
_SOURCE_FUNCTION, _FUNCTION_NAME = 9, 1
_RESULT_MANGLED, _RESULT_FUNCTION = 5, 6

#: The session record that carries ncu's own version.
_NCU = "Nsight Compute Target"

Field = tuple[int, int | bytes]


class WireError(ValueError):
    """Bytes that are no protobuf message."""


def fields(data: bytes) -> Iterator[Field]:
    """The fields of one protobuf message: (number, int or bytes), in file order.

    Groups (wire types 3 and 4) are not used by ncu and count as damage.

    Raises:
        WireError: the bytes are no protobuf message.
    """
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise WireError("field number 0")
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise WireError(f"wire type {wire}")
        if at + size > end:
            raise WireError("a field runs past the end of its message")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise WireError("a number runs past the end of its message")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise WireError("a number of more than ten bytes")


@dataclass(frozen=True)
class Block:
    """One block: where it starts and ends in the file, and its header's fields."""

    start: int
    end: int
    header: tuple[Field, ...]
    sources: tuple[bytes, ...]
    results: tuple[bytes, ...]


@dataclass
class Container:
    """What a report file says of itself.

    Attributes:
        size: The file's size in bytes.
        blocks: Where each block starts and ends.
        results: Number of results (kernels, ranges, graphs) in the file.
        created: Unix time of the capture in seconds; 0 where unknown.
        tools: What the session recorded: ``Nsight Compute Target``, ``CUDA Version``,
            ``PerfWorks``, ``Display Driver Version`` -> version.
        command: The command line as ncu recorded it; empty in old or GUI-made reports.
        processes: Paths of the profiled programs.
        unfinished: Functions that were announced but have no result.
    """

    size: int
    blocks: list[tuple[int, int]] = field(default_factory=list)
    results: int = 0
    created: int = 0
    tools: dict[str, str] = field(default_factory=dict)
    command: str = ""
    processes: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    @property
    def ncu_version(self) -> str:
        """Ncu's version without its build number: ``2025.3.1.0``; empty where unknown."""
        return self.tools.get(_NCU, "").partition(" ")[0]


def _damaged(path: Path, why: str) -> DataError:
    return DataError(
        f"{path}: {why}",
        "Copy the file again from where it was captured, or repeat the capture.",
    )


def read_container(path: Path, *, shown: Path | None = None) -> Container:
    """Check that `path` is a whole report and read what its frame says.

    Args:
        path: The file, not compressed.
        shown: The name to use in messages, where `path` is a temporary copy.

    Raises:
        DataError: no report, or one that was cut short or damaged; the message names
            the expected and the found size.
    """
    shown = shown or path
    if path.is_dir():
        raise DataError(f"{shown} is a folder, not a report", "Name the .ncu-rep file inside.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{shown}: cannot be read: {error.strerror}", "Check its permissions."
        ) from error
    return parse(data, shown)


def parse(data: bytes, path: Path) -> Container:
    """As `read_container`, over bytes; `path` is for messages."""
    if not data:
        raise _damaged(path, "the file is empty (0 bytes)")
    if not data.startswith(MAGIC):
        if MAGIC.startswith(data):
            raise _cut(path, len(data), len(MAGIC) + _SIZE.size, "in the file's first word")
        raise DataError(
            f"{path}: no Nsight Compute report (it starts with {data[:4]!r}, not {MAGIC!r})",
            "Reports end in .ncu-rep and are written by `ncu -o name`.",
        )
    container = Container(size=len(data))
    announced: dict[str, None] = {}
    seen: set[str] = set()
    try:
        for block in _blocks(data, path):
            container.blocks.append((block.start, block.end))
            _read_header(block, container)
            for source in block.sources:
                announced.update(dict.fromkeys(_functions(source)))
            for result in block.results:
                container.results += 1
                seen.update(_result_names(result))
    except WireError as error:
        raise _damaged(path, f"damaged: {error}") from error
    container.unfinished = [name for name in announced if name not in seen]
    return container


def _cut(path: Path, size: int, expected: int, where: str) -> DataError:
    return _damaged(
        path, f"cut short: {size:,} bytes found, at least {expected:,} expected ({where})"
    )


def _sized(data: bytes, at: int, path: Path, where: str) -> tuple[bytes, int]:
    """The bytes behind a size word at `at`, and where they end."""
    start = at + _SIZE.size
    if start > len(data):
        raise _cut(path, len(data), start, where)
    end = start + _SIZE.unpack_from(data, at)[0]
    if end > len(data):
        raise _cut(path, len(data), end, where)
    return data[start:end], end


def _blocks(data: bytes, path: Path) -> Iterator[Block]:
    _, at = _sized(data, len(MAGIC), path, "in the file header")
    number = 0
    while at < len(data):
        start = at
        raw, at = _sized(data, at, path, f"in the header of block {number}")
        header = tuple(fields(raw))
        counts = {n: v for n, v in header if isinstance(v, int)}
        end = at + counts.get(_PAYLOAD_SIZE, 0)
        if end > len(data):
            raise _cut(path, len(data), end, f"in block {number}")
        entries = []
        for _ in range(counts.get(_NUM_SOURCES, 0) + counts.get(_NUM_RESULTS, 0)):
            if at >= end:
                break
            entry, at = _sized(data, at, path, f"in block {number}")
            entries.append(entry)
        sources = counts.get(_NUM_SOURCES, 0)
        if at != end or len(entries) != sources + counts.get(_NUM_RESULTS, 0):
            raise WireError(f"block {number} at byte {start:,} does not fit its announced size")
        yield Block(start, end, header, tuple(entries[:sources]), tuple(entries[sources:]))
        number += 1


def _bytes(data: bytes, number: int) -> Iterator[bytes]:
    return (v for n, v in fields(data) if n == number and isinstance(v, bytes))


def _text(data: bytes, number: int) -> str:
    return next(_bytes(data, number), b"").decode("utf-8", "replace")


def _read_header(block: Block, container: Container) -> None:
    for number, value in block.header:
        if not isinstance(value, bytes):
            continue
        if number == _PROCESS:
            name = _text(value, _PROCESS_NAME)
            if name and name not in container.processes:
                container.processes.append(name)
        if number != _SESSION:
            continue
        for key, detail in fields(value):
            if key == _SESSION_CREATED and isinstance(detail, int):
                container.created = container.created or detail
            elif key == _SESSION_TOOL and isinstance(detail, bytes):
                container.tools[_text(detail, _TOOL_NAME)] = _text(detail, _TOOL_VERSION)
            elif key == _SESSION_COMMAND and isinstance(detail, bytes):
                container.command = detail.decode("utf-8", "replace").strip()


def _functions(source: bytes) -> Iterator[str]:
    for listing in _bytes(source, _SOURCE_FUNCTION):
        for function in _bytes(listing, 1):
            yield _text(function, _FUNCTION_NAME)


def _result_names(result: bytes) -> Iterator[str]:
    yield _text(result, _RESULT_MANGLED)
    yield _text(result, _RESULT_FUNCTION)
