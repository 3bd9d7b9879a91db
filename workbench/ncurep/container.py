r"""The structure of a ``.ncu-rep`` file: whether it is whole, and what made it.

NVIDIA's reader takes anything: an empty file, garbage and a folder all load as a
report with no ranges, and a file that was cut short loads as one with fewer
kernels. So the file is checked here before the reader sees it.

Known facts about the format (NVIDIA documents a file header followed by blocks of
header and payload, and ships the protobuf definitions with Nsight Compute)::

    "NVR\0"  u32 size  FileHeader                        once
    u32 size  BlockHeader  payload (u32 size  entry)*     until the end of the file

A block's payload holds its sources (cubins) first, then its results (kernels). ncu
writes block by block: an opening record, the first kernel's source and result, the
session records (device, versions, machine, command line), then the other kernels.
There is no end marker and no count, so that a file cut exactly between two blocks
is well-formed. It still differs from a whole one by records that must follow and are missing:

- a first result without session records, or session records that stop before the
  machine's: surely cut, an error;
- a source that no result follows, a missing last session record: perhaps cut, a
  doubt (`Container.doubts`).

Otherwise the bytes are those of a report with fewer kernels. Functions that were announced but have
no result, or fewer results than ``--launch-count``, prove nothing: whole reports have them.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import overload

from workbench.disk.limits import TIME_VARIABLE, mapped_regular, seconds
from workbench.errors import DataError
from workbench.ncurep.wire import MOST, Field, WireError, fields, messages, text

MAGIC = b"NVR\0"
SIZE = struct.Struct("<I")

# Field numbers of the protobuf messages, as far as they matter here.
NUM_SOURCES, NUM_RESULTS, SESSION, PAYLOAD_SIZE, PROCESS = 1, 2, 3, 5, 6
SESSION_CREATED, SESSION_HOST, SESSION_SYSTEM = 2, 3, 4
SESSION_DEVICE, SESSION_TOOL, SESSION_COMMAND = 6, 8, 11
TOOL_NAME, TOOL_VERSION = 1, 2
PROCESS_NAME = 3
SOURCE_FUNCTIONS, FUNCTIONS_ENTRY, FUNCTION_NAME = 9, 1, 1
RESULT_MANGLED, RESULT_FUNCTION = 5, 6

#: A section of machine code that ptxas writes only for ``-G``, not for ``-lineinfo``.
DEBUG_SECTION = b".nv_debug_info_reg_sass"
#: The session record that carries ncu's own version.
_NCU = "Nsight Compute Target"
#: Real reports, even those of ten thousand kernels, are scanned in less than a second.
_TIMEOUT_S = 20.0
#: The first bytes of a text, which show its kind.
_HEAD = 4096
#: The bytes of a file before the current position that are kept in memory.
_HELD = 16 << 20
#: From this year on, the command line is the last session record.
_COMMAND_SINCE = 2022


class Entries(Sequence[bytes]):
    """Entries of a block, each copied from the file on request."""

    def __init__(self, data: bytes | mmap.mmap, places: Sequence[slice]) -> None:
        self._data, self._places = data, places

    @property
    def starts(self) -> tuple[int, ...]:
        """The offset of each entry in the file."""
        return tuple(place.start for place in self._places)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> Entries: ...
    def __getitem__(self, place: int | slice) -> bytes | Entries:
        if isinstance(place, slice):
            return Entries(self._data, self._places[place])
        return self._data[self._places[place]]


@dataclass(frozen=True)
class FileBlock:
    """One block: where it starts and ends in the file, and its parts."""

    start: int
    end: int
    header: tuple[Field, ...]
    sources: Sequence[bytes]
    results: Sequence[bytes]

    @property
    def session(self) -> set[int]:
        """Field numbers of the session records in the block's header."""
        return {
            key
            for number, value in self.header
            if number == SESSION and isinstance(value, bytes)
            for key, _ in fields(value)
        }


@dataclass(frozen=True)
class CaptureSession:
    """The session records of a report.

    Attributes:
        created: Unix time of the capture in seconds; 0 if unknown.
        tools: ``Nsight Compute Target``, ``CUDA Version``, ``PerfWorks``,
            ``Display Driver Version`` -> version.
        command: The command line as ncu recorded it; empty in old or GUI-made reports.
        processes: Paths of the profiled programs.
    """

    created: int
    tools: dict[str, str]
    command: str
    processes: list[str]

    @property
    def when(self) -> str:
        """The time of the capture as records hold it; empty if it is unknown."""
        with contextlib.suppress(OverflowError, OSError, ValueError):
            if self.created:
                return datetime.fromtimestamp(self.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return ""

    @property
    def ncu_version(self) -> str:
        """Ncu's version without its build number: ``2025.3.1.0``; empty if unknown."""
        return self.tools.get(_NCU, "").partition(" ")[0]


@dataclass(frozen=True)
class Container:
    """The frame of a report file.

    Attributes:
        size: The size of the file, in bytes.
        blocks: The offsets of each block.
        results: Number of results (kernels, ranges, graphs) in the file.
        doubts: Signs that the file was cut between two blocks; empty for most.
        debug: Kernels with a result whose machine code was built for debugging (``-G``).
    """

    size: int
    blocks: list[tuple[int, int]]
    results: int
    session: CaptureSession
    doubts: list[str]
    debug: list[str]


def _damaged(path: Path, why: str) -> DataError:
    return DataError(
        f"{path}: {why}", "Copy the file again from where it was captured, or repeat the capture."
    )


def read_container(path: Path, *, shown: Path | None = None) -> Container:
    """Check that `path` is a whole report and read its frame.

    Messages name `shown`, where `path` is a temporary copy. Raises DataError: not a report, or one
    that was cut short or damaged; the message names the expected and the found size.
    """
    shown = shown or path
    if path.is_dir():
        raise DataError(f"{shown} is a folder, not a report", "Name the .ncu-rep file inside.")
    try:
        with mapped_regular(path) as data:
            return parse(data, shown)
    except OSError as error:
        raise DataError(
            f"{shown}: cannot be read: {error.strerror}", "Check its permissions."
        ) from error


def parse(data: bytes | mmap.mmap, path: Path) -> Container:
    """Like `read_container`, for bytes; `path` is for messages."""
    if not data:
        raise _damaged(path, "the file is empty (0 bytes)")
    start = data[: len(MAGIC)]
    if start != MAGIC:
        if MAGIC.startswith(start):
            raise _cut(path, len(data), len(MAGIC) + SIZE.size, "in the file's first word")
        if b"Section: " in data[:_HEAD] or b'"Section Name"' in data[:_HEAD]:
            raise DataError(
                f"{path}: details that ncu printed as text, not an Nsight Compute report",
                "They hold rounded numbers and no source lines. Use the .ncu-rep that was "
                "printed, or write one with `ncu -o name`.",
            )
        raise DataError(
            f"{path}: not an Nsight Compute report (it starts with {start!r}, not {MAGIC!r})",
            "Names of reports end in .ncu-rep; `ncu -o name` writes one.",
        )
    places: list[tuple[int, int]] = []
    headers: list[Field] = []
    kinds: list[tuple[bool, bool, set[int]]] = []
    debug: dict[str, None] = {}
    seen: dict[str, str] = {}
    results = 0
    limit_s = seconds(_TIMEOUT_S)
    until = time.monotonic() + limit_s
    try:
        for block in read_blocks(data, path):
            if time.monotonic() > until:
                raise DataError(
                    f"{path}: not checked within {limit_s:g} s, the limit for the "
                    f"structure of a report ({block.start:,} of {len(data):,} bytes)",
                    f"If it really is that large, raise the limit: {TIME_VARIABLE}=N, in seconds.",
                )
            places.append((block.start, block.end))
            headers += block.header
            for source in block.sources:
                if DEBUG_SECTION in source:
                    debug.update(dict.fromkeys(_functions(source)))
            for result in block.results:
                results += 1
                name = text(result, RESULT_FUNCTION)
                seen |= {text(result, RESULT_MANGLED): name, name: name}
            kinds.append((bool(block.sources), bool(block.results), block.session))
        session = _session(headers)
    except WireError as error:
        raise _damaged(path, f"damaged: {error}") from error
    why = _surely_cut(kinds)
    if why:
        raise _damaged(path, f"cut short after {len(data):,} bytes, between two blocks: {why}")
    doubts = _doubts(session, kinds) if results else []
    built = dict.fromkeys(seen[name] for name in debug if name in seen)
    return Container(len(data), places, results, session, doubts, list(built))


def _surely_cut(kinds: list[tuple[bool, bool, set[int]]]) -> str:
    """Name the block that must follow the last one and is missing; "" if none is.

    `kinds` are, of each block: has sources, has results, session records in its header.
    """
    if not any(results for _, results, _ in kinds):
        return ""  # the caller reports "no profiled kernel"
    recorded = set().union(*(records for _, _, records in kinds))
    sources, results, session = kinds[-1]
    if results and SESSION_DEVICE not in recorded:
        return "no session record follows the first result"
    if not sources and not results and session and SESSION_SYSTEM not in recorded:
        return "the session records stop before the machine's"
    return ""


def _doubts(session: CaptureSession, kinds: list[tuple[bool, bool, set[int]]]) -> list[str]:
    doubts = []
    if kinds[-1][0] and not kinds[-1][1]:
        doubts.append("no result follows the last source")
    year = session.ncu_version.partition(".")[0]
    recent = year.isdecimal() and int(year[:4]) >= _COMMAND_SINCE
    if recent and not session.command and SESSION_SYSTEM in kinds[-1][2]:
        doubts.append("the command line, ncu's last session record, is missing")
    return doubts


def _cut(path: Path, size: int, expected: int, where: str) -> DataError:
    return _damaged(
        path, f"cut short: {size:,} bytes found, at least {expected:,} expected ({where})"
    )


def _sized(data: bytes | mmap.mmap, at: int, path: Path, where: str) -> slice:
    """The place of the bytes that follow a size word at `at`."""
    start = at + SIZE.size
    if start > len(data):
        raise _cut(path, len(data), start, where)
    end = start + SIZE.unpack_from(data, at)[0]
    if end > len(data):
        raise _cut(path, len(data), end, where)
    return slice(start, end)


def read_blocks(data: bytes | mmap.mmap, path: Path) -> Iterator[FileBlock]:
    """The blocks of a report, one after another.

    Raises:
        DataError: the data ends inside a block.
        WireError: a block contradicts itself.
    """
    at = _sized(data, len(MAGIC), path, "in the file header").stop
    held = 0
    for number in itertools.count():
        if at >= len(data):
            return
        if at - held > _HELD and isinstance(data, mmap.mmap) and hasattr(data, "madvise"):
            # Drop the pages that were read; a later read gets them from the file again.
            data.madvise(mmap.MADV_DONTNEED, 0, at - at % mmap.PAGESIZE)
            held = at
        if number > MOST:
            raise WireError(f"more than {MOST:,} blocks")
        start = at
        head = _sized(data, at, path, f"in the header of block {number}")
        header, at = tuple(fields(data[head])), head.stop
        counts = {n: v for n, v in header if isinstance(v, int)}
        end = at + counts.get(PAYLOAD_SIZE, 0)
        if end > len(data):
            raise _cut(path, len(data), end, f"in block {number}")
        sources = counts.get(NUM_SOURCES, 0)
        places: list[slice] = []
        if (announced := sources + counts.get(NUM_RESULTS, 0)) > MOST:
            raise WireError(f"block {number} announces {announced:,} entries")
        for _ in range(announced):
            places.append(_sized(data, at, path, f"in block {number}"))
            at = places[-1].stop
            if at > end:
                raise WireError(f"block {number} at byte {start:,} does not fit its announced size")
        # After these, a block may hold entries of kinds that do not matter here.
        at = end
        entries: Sequence[bytes] = Entries(data, places) if places else ()
        yield FileBlock(start, end, header, entries[:sources], entries[sources:])


def _session(headers: list[Field]) -> CaptureSession:
    """Read the session records in the headers of all blocks."""
    created, command = 0, ""
    tools: dict[str, str] = {}
    processes: dict[str, None] = {}
    for number, value in headers:
        if not isinstance(value, bytes):
            continue
        if number == PROCESS and (name := text(value, PROCESS_NAME)):
            processes[name] = None
        if number != SESSION:
            continue
        for key, detail in fields(value):
            if key == SESSION_CREATED and isinstance(detail, int):
                created = created or detail
            elif key == SESSION_TOOL and isinstance(detail, bytes):
                tools[text(detail, TOOL_NAME)] = text(detail, TOOL_VERSION)
            elif key == SESSION_COMMAND and isinstance(detail, bytes):
                command = detail.decode("utf-8", "replace").strip()
    return CaptureSession(created, tools, command, list(processes))


def _functions(source: bytes) -> Iterator[str]:
    for listing in messages(source, SOURCE_FUNCTIONS):
        for function in messages(listing, FUNCTIONS_ENTRY):
            yield text(function, FUNCTION_NAME)
