"""Extracted reports, kept per user, so that a second look at a report is quick.

A cache may lose anything at any time: whatever goes wrong here is a miss, and never
an error. The key is the report's content, not its name or its age.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import msgspec

from workbench.disk.writing import remove_file, replace_file
from workbench.errors import WorkbenchError
from workbench.model import SCHEMA_VERSION, Profile
from workbench.project import cache_folder

#: Raised with every change of what `workbench.ncurep.extract` gives for the same file.
EXTRACTOR = 9
#: Oldest entries are dropped beyond this many bytes.
_LIMIT = 256 << 20


def key(report: Path) -> str:
    """The name of a report's entry: its content and what would read it."""
    with report.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{content[:40]}-{SCHEMA_VERSION}.{EXTRACTOR}.json"


def load(name: str) -> Profile | None:
    """The kept profile, or None; an unreadable entry is a miss."""
    with contextlib.suppress(OSError, ValueError):
        return msgspec.json.decode((cache_folder("reports") / name).read_bytes(), type=Profile)
    return None


def save(name: str, data: bytes) -> None:
    """Keep a profile's JSON; quietly does nothing where that cannot be done.

    Args:
        name: As `key` gives it.
        data: The profile as JSON, which `load` checks when it reads it.
    """
    with contextlib.suppress(OSError, WorkbenchError):
        root = cache_folder("reports")
        replace_file(root, name, data)
        _trim(root)


def _trim(root: Path) -> None:
    entries = sorted((e.stat().st_mtime, e.stat().st_size, e) for e in root.iterdir())
    total = sum(size for _, size, _ in entries)
    for _, size, entry in entries:
        if total <= _LIMIT:
            break
        remove_file(root, entry.name)
        total -= size
