"""Limit input before it is read, for one file and for many; variables can lift a limit.

Files come from anybody. Their expanded size is bounded before they are expanded, so that a file of
a few kilobytes can exhaust neither the machine's memory nor its time. The limits are far above
anything ever seen of each kind. If an honest file still exceeds a limit, an environment variable
lifts it. A project's setting cannot: it would come with the file.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import tomli
import zstandard

from workbench.errors import DataError, UsageError

MIB = 1 << 20
#: Lift the limit on sizes (for all kinds of files), and the one on times.
SIZE_VARIABLE, TIME_VARIABLE = "WORKBENCH_LIMIT_MIB", "WORKBENCH_LIMIT_S"
#: Sets how much memory work may take (`memory`).
MEMORY_VARIABLE = "WORKBENCH_MEMORY_MIB"
_LEAST_MEMORY = 4096 * MIB
#: Content may be this many times as large as its compressed file. The ratio is 13 for recorded
#: profiles, 50 for reports with many launches of one kernel, 30,000 for zeros.
RATIO = 500
#: The ratio applies above this size: small content may be as repetitive as it likes.
RATIO_FROM = 16 * MIB
#: A zstd block holds at most 128 KiB, and takes at least four bytes: this many expand to 32 MiB.
_BITE = 1 << 10

#: More than 64 names joined by dots: for each, the parser walks over all earlier ones.
_DOTTED = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}(?=[\w"'-])"""
)


class TotalLimit:
    """The most that one process reads from many files together, each counted once.

    Refused files do not count, so that small ones after them have room. `what` names it in
    messages; `most` is in bytes, or ``places`` with `count`. `ratio`: this many times a compressed
    file's size is not counted: honest records expand far less. `each`: the most for one file; 0: as
    for all files.
    """

    def __init__(
        self, what: str, most: int, *, ratio: int = 0, each: int = 0, count: bool = False
    ) -> None:
        self._what, self._most, self._ratio = what, most, ratio
        self._each, self._count = each or most, count
        self._taken: dict[str, int] = {}
        self._sum = 0

    def take(self, path: Path | str, size: int, packed: int = 0) -> None:
        """Count `size` for a file of `packed` bytes, instead of its earlier size.

        Raises:
            DataError: it would be too much; the message names the largest file. Nothing was added.
            UsageError: the variable that lifts it is not a number.
        """
        name, size = str(path), max(0, size - self._ratio * packed)
        before = self._taken.get(name, 0)
        if size == before:
            return
        lifted = _setting(SIZE_VARIABLE)
        most = self._most if lifted is None else max(self._most, math.ceil(lifted * MIB))
        if size > (self._each if lifted is None else most):
            self._refuse(f"{name} has {self._told(size)}", self._told(self._each))
        if self._sum - before + size > most:
            largest = max(self._taken, key=self._taken.__getitem__)
            self._refuse(
                f"{name} is left out: with its {self._told(size)} it would exceed the limit, after "
                f"{self._told(self._sum)} of {len(self._taken)} others (the largest is {largest}, "
                f"{self._told(self._taken[largest])})",
                self._told(most),
            )
        self._taken[name] = size
        self._sum += size - before

    def _refuse(self, how: str, most: str) -> NoReturn:
        raise DataError(
            f"{how}; the limit for {self._what} is {most}",
            f"If all of it is needed, {SIZE_VARIABLE}=N accepts N MiB in all.",
        )

    def _told(self, size: int) -> str:
        return f"{size:,}" if self._count else _mib(size)


#: Expanded small files: recorded profiles, at most 13 times their size, do not count.
EXPANDED = TotalLimit("small files expanded beyond 40 times their size", 128 * MIB, ratio=40)
SOURCES = TotalLimit("the sources that a command reads", 128 * MIB)
#: A version in CUDA C++ with all of CUTLASS in its project looks up several thousand places.
LOOKUPS = TotalLimit("the places where includes are looked for", MIB, each=50_000, count=True)


class ByteLimit(NamedTuple):
    """The most bytes that a file of one kind may hold, before and after decompression.

    `total` limits many of them together.
    """

    what: str
    default: int
    total: TotalLimit | None = None

    @property
    def bytes(self) -> int:
        """The limit, or the user's higher one; UsageError: not a number."""
        lifted = _setting(SIZE_VARIABLE)
        return self.default if lifted is None else max(self.default, math.ceil(lifted * MIB))

    def too_large(self, name: str, shape: Sequence[int], size: int) -> tuple[str, str]:
        """Return a message and a hint if an array is over the limit; two empty texts if not."""
        total = math.prod(shape) * size
        if total <= self.bytes:
            return "", ""
        return (
            f"`{name}` of shape {tuple(shape)} takes {total:,} bytes; the limit for {self.what} is "
            f"{self.bytes:,}",
            f"Correct its shape. If it is right: {SIZE_VARIABLE}=N accepts N MiB.",
        )

    def exceeded(self, path: Path | str, how: str, most: str = "") -> DataError:
        """The error for a file that is over the limit; `how` describes the excess."""
        return DataError(
            f"{path} {how}; the limit for {self.what} is {most or _mib(self.bytes)}",
            f"If the file is right, {SIZE_VARIABLE}=N accepts N MiB of any file, at any ratio.",
        )


RECORD = ByteLimit("a recorded profile or time", 128 * MIB, EXPANDED)
REPORT = ByteLimit("a report", 1024 * MIB)
CAPTURE = ByteLimit("a capture", 256 * MIB, EXPANDED)
SOURCE = ByteLimit("a source file", 8 * MIB)
FACTS = ByteLimit("the record of a study", 4 * MIB)
SETTINGS = ByteLimit("a file of settings", MIB)
#: A problem's data in memory: those of an honest problem fit into the largest GPU.
ARRAY = ByteLimit("an array", 256 * 1024 * MIB)
#: A lifted launch's memory, before and after: twice a lift's default limit.
LIFTED = ByteLimit("the buffers of a lifted launch", 4096 * MIB)
FRONT_MATTER = ByteLimit("front matter", MIB // 16)


def seconds(default: float) -> float:
    """Return a time limit in seconds, or the user's own; UsageError: the latter is not a number."""
    return max(default, _setting(TIME_VARIABLE) or 0.0)


def memory() -> int:
    """Return the bytes of memory that one compiler, or one version in the emulator, may take.

    Half of the machine's memory, at least 4 GiB; or the user's value. Raises UsageError: the
    variable that sets it is not a number.
    """
    if (wanted := _setting(MEMORY_VARIABLE)) is not None:
        return math.ceil(wanted * MIB)
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):
        return _LEAST_MEMORY
    return max(_LEAST_MEMORY, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)


def too_much_memory(who: str) -> tuple[str, str]:
    """Return the message for work that needs more than `memory`, and the hint.

    `who` names the work: ``a compiler``.
    """
    return (
        f"needs more memory than the {_mib(memory())} that {who} may use",
        f"If that much memory is really needed, {MEMORY_VARIABLE}=N allows N MiB.",
    )


def _setting(name: str) -> float | None:
    text = os.environ.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1e12:
        raise UsageError(f"{name}={text!r} is not a limit", f"Write a number: {name}=4096.")
    return value


def _mib(size: int) -> str:
    return f"{size / MIB:,.4g} MiB" if size < 1000 * MIB else f"{size // MIB:,} MiB"


def inflate(
    data: bytes, path: Path | str, limit: ByteLimit, *, joined: bool = False
) -> Iterator[bytes]:
    """Yield the content of one zstd frame, piece by piece; refuse it as soon as it is too large.

    `path` is its name for messages. `joined`: the content of further frames may follow.

    Raises:
        DataError: it announces or holds more than `limit`, or more than 500 times its size; or it
            exceeds the total limit for files of its kind.
        ValueError: not a zstd frame, cut short, damaged, or followed by other bytes.
    """
    most = limit.bytes
    lifted = most > limit.default
    stream = zstandard.ZstdDecompressor().decompressobj()
    done = 0
    try:
        announced = zstandard.frame_content_size(data)
        if announced > min(most, RATIO_FROM):
            _check(announced, len(data), path, limit, "announces")
        if limit.total is not None and announced > 0:
            limit.total.take(path, announced, len(data))
        if 0 < announced <= RATIO_FROM and not joined:
            whole = _at_once(data)
            if whole is not None:
                yield whole
                return
        # A frame may hold more than it announces; the decoder notices that only at its end.
        for at in range(0, len(data), _BITE):
            packed = data[at : at + _BITE]
            while packed:
                if stream.eof:
                    if not joined:
                        raise ValueError("other bytes follow the zstd frame")
                    stream = zstandard.ZstdDecompressor().decompressobj()
                piece = stream.decompress(packed)
                packed = stream.unused_data
                done += len(piece)
                if done > most or (done > RATIO_FROM and not lifted):
                    _check(done, len(data), path, limit, "holds")
                if limit.total is not None:
                    limit.total.take(path, done, len(data))
                yield piece
    except zstandard.ZstdError as error:
        raise ValueError(f"not a whole zstd file ({error})") from error
    if not stream.eof:
        raise ValueError(f"cut short: the zstd frame does not end within {len(data):,} bytes")


def _at_once(data: bytes) -> bytes | None:
    """Decompress a frame at once, in half the time; None on any error.

    The decoder that works in pieces then reports the error.
    """
    try:
        return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
    except zstandard.ZstdError:
        return None


def _check(size: int, packed: int, path: Path | str, limit: ByteLimit, does: str) -> None:
    """Refuse content of `size` bytes (-1: the frame does not state it)."""
    most = limit.bytes
    if size > most:
        raise limit.exceeded(path, f"{does} {_mib(size)}")
    if size > max(RATIO_FROM, RATIO * packed) and most == limit.default:
        how = f"{does} {_mib(size)} in {packed:,} bytes"
        raise limit.exceeded(path, how, f"{RATIO} times its compressed size")


def read_toml(text: str) -> dict[str, Any]:
    """Parse a foreign TOML document; the caller limits its length.

    Raises ValueError: not TOML, or a document that only an attacker writes: keys of more than 64
    parts, endless nesting, integers of thousands of digits.
    """
    if text.count(".") >= 64 and (dotted := _DOTTED.search(text)):
        line = text.count("\n", 0, dotted.start()) + 1
        raise ValueError(f"a key of more than 64 parts (at line {line}, column 1)")
    try:
        return tomli.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_regular(path: Path, limit: ByteLimit) -> bytes:
    """The content of a file; refused at once if it is not a file, or too large.

    A link is followed: a file that is only read may lie elsewhere.

    Raises:
        DataError: a pipe, a socket, a device, a folder, or a file that is too large.
        OSError: it does not exist, or may not be read.
    """
    most = limit.bytes
    handle, size = _opened(path)
    try:
        if size > most:
            raise limit.exceeded(path, f"holds {_mib(size)}")
        data = os.read(handle, size + 1)
        # Files in /proc report size 0, and reading gigabytes takes several calls.
        while len(data) <= most and (more := os.read(handle, max(MIB, size - len(data)))):
            data += more
    finally:
        os.close(handle)
    if len(data) > most:
        raise limit.exceeded(path, "holds more")
    return data


@contextlib.contextmanager
def mapped_regular(path: Path) -> Iterator[bytes | mmap.mmap]:
    """The content of a file of any size; only the parts that are read take memory.

    Raises:
        DataError: a pipe, a socket, a device or a folder.
        OSError: it is not there, or may not be read.
    """
    with open_regular(path) as file:
        if not os.fstat(file.fileno()).st_size:  # also the size of files in /proc; cannot be mapped
            yield file.read(MIB)
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """A file to read; refused at once if it is not a file: opening a pipe waits for its writer.

    Raises:
        DataError: a pipe, a socket, a device, or a folder.
        OSError: it is not there, or may not be read.
    """
    handle, _ = _opened(path)
    with os.fdopen(handle, "rb") as file:
        yield file


def _opened(path: Path) -> tuple[int, int]:
    """A file's descriptor and its size; raises as `open_regular` does."""
    check_regular(path, os.stat(path))  # noqa: PTH116 - opening a device can do harm
    # Without waiting: a pipe may have been put there meanwhile.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        status = os.fstat(handle)
        check_regular(path, status)
    except BaseException:
        os.close(handle)
        raise
    return handle, status.st_size


_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def kind(mode: int, otherwise: str) -> str:
    """Name the kind of a path that is not a regular file: ``a pipe``."""
    return _KINDS.get(stat.S_IFMT(mode), otherwise)


def check_regular(path: Path | str, status: os.stat_result) -> None:
    """Refuse all but regular files; DataError: a pipe, a socket, a device or a folder."""
    if not stat.S_ISREG(status.st_mode):
        raise DataError(
            f"{path} is {kind(status.st_mode, 'no file')}, not a file",
            "Replace it with a regular file.",
        )
