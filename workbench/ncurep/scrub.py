"""Taking the machine's name out of a report before it is published.

ncu records the host name and the network addresses of the machine in every report
(session records of the file's frame), whatever folder it is run from. A report that
is kept in version control should not tell them. Paths and the command line are left:
they are neutral where the capture was, and meaningful where it was not.
"""

from __future__ import annotations

from pathlib import Path

from workbench.ncurep.container import (
    MAGIC,
    SESSION,
    SESSION_HOST,
    SESSION_SYSTEM,
    SIZE,
    parse,
)
from workbench.ncurep.wire import rewrite

# Fields of the system record: host name, and one entry per network address.
_HOST_NAME, _ADDRESS = 5, 7


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
