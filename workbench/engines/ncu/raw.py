"""The raw report as it is kept beside a profile: nameless, compressed, of bounded size.

ncu writes host name and network addresses into every report (session records of the
file's frame), whatever folder it is run from, and the whole binary of every kernel: for
a library that is megabytes of a foreign cubin. What is kept lies in version control, so
it must name no machine and must be small. Paths and the command line are left: they are
neutral where the capture was, and meaningful where it was not.
"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Literal, TypeVar

import zstandard

from workbench.model import Notice, Record
from workbench.ncurep.container import (
    MAGIC,
    SESSION,
    SESSION_HOST,
    SESSION_SYSTEM,
    SIZE,
    parse,
)
from workbench.ncurep.wire import rewrite
from workbench.store.codec import pack
from workbench.units import quantity

#: ``auto`` keeps what is small and names no folder of this machine.
Keep = Literal["auto", "always", "never"]

#: Compressed bytes up to which a raw report is kept without being asked for.
LIMIT = 100_000

# Fields of the system record: host name, and one entry per network address.
_HOST_NAME, _ADDRESS = 5, 7

T = TypeVar("T")


class RawReport(Record, frozen=True):
    """What to keep of a raw report: its compressed bytes, or None and why."""

    packed: bytes | None = None
    notice: Notice | None = None


def machine_words(root: Path) -> tuple[str, ...]:
    """What must not stand in a file that is shared: folders of the user, the host's name."""
    words = {str(root), socket.gethostname(), f"{tempfile.gettempdir()}/"}
    home = str(Path.home())
    if home not in ("/", "/root"):
        words.add(home)
    return tuple(sorted(words))


def private_words(raw: bytes, words: Sequence[str]) -> tuple[str, ...]:
    """Those of `words` that a report holds."""
    return tuple(word for word in words if len(word) > 3 and word.encode() in raw)


def scrub(data: bytes, path: Path) -> bytes:
    """A report without host name and network addresses, otherwise byte for byte the same.

    Args:
        data: The report.
        path: Its name, for messages.

    Raises:
        DataError: no whole report.
    """
    container = parse(data, path)
    header_end = len(MAGIC) + SIZE.size + SIZE.unpack_from(data, len(MAGIC))[0]
    out = bytearray(data[:header_end])
    for start, end in container.blocks:
        size = SIZE.unpack_from(data, start)[0]
        header_at = start + SIZE.size
        header = rewrite(data[header_at : header_at + size], SESSION, _session)
        out += SIZE.pack(len(header)) + header + data[header_at + size : end]
    return bytes(out)


def _session(session: bytes) -> bytes:
    for record in (SESSION_HOST, SESSION_SYSTEM):
        session = rewrite(session, record, _system)
    return session


def _system(system: bytes) -> bytes:
    return rewrite(rewrite(system, _HOST_NAME, lambda _: b""), _ADDRESS, lambda _: None)


def pack_report(
    raw: bytes, path: Path, keep: Keep, words: Sequence[str], limit: int = LIMIT
) -> RawReport:
    """Take the machine's name out of a report, and compress it if it is to be kept.

    Args:
        raw: The report as ncu wrote it.
        path: Its name, for messages.
        keep: Whether to keep it.
        words: What it must not hold, from `machine_words`.
        limit: Most compressed bytes that ``auto`` keeps.

    Raises:
        DataError: no whole report.
    """
    if keep == "never":
        return RawReport()
    nameless = scrub(raw, path)
    if keep == "always":
        return RawReport(packed=pack(nameless))
    if named := private_words(nameless, words):
        return _dropped("raw-not-kept", f"it names {', '.join(named)}")
    # The strong compression takes seconds for what a quick one already shows to be too much.
    size = len(zstandard.ZstdCompressor(level=3).compress(nameless))
    packed = pack(nameless) if size <= 2 * limit else b""
    size = len(packed) or size
    if size > limit:
        why = f"it takes {quantity(size, 'byte')}, and {quantity(limit, 'byte')} is the limit"
        return _dropped("raw-too-large", why)
    return RawReport(packed=packed)


def _dropped(code: str, why: str) -> RawReport:
    message = f"The raw report was not kept beside the profile, because {why}; --raw keeps it."
    return RawReport(notice=Notice(code=code, message=message))


class Later(Generic[T]):
    """A call in a thread of its own, while something else is done.

    Of the standard library's executors only this much is needed, and they cost start-up.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except BaseException as error:
            self._error = error

    def result(self) -> T:
        """What the call returned, or raise what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results[0]
