"""Keep files that make later runs faster; each may be lost at any time.

Every failure here is a cache miss, never an error: a folder that cannot be made or read, a full
disk, an entry that is damaged or gone. Entries are replaced whole, so with two writers at once a
reader gets one entry or the other.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec

from workbench.disk.limits import ByteLimit, read_regular
from workbench.disk.writing import remove_file, replace_file
from workbench.errors import WorkbenchError

T = TypeVar("T")


def digest_of(*words: str) -> str:
    """A hash of strings, for `entry_name`."""
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def entry_name(digest: str, *editions: int) -> str:
    """Return the name of a JSON entry.

    `digest` is a hash of its sources, `editions` other numbers that decide its content.
    """
    return f"{digest[:40]}-{'.'.join(map(str, editions))}.json"


class Cache(NamedTuple):
    """A folder of entries by name.

    `root` need not exist. Beyond `most` bytes, the oldest entries are removed.
    """

    root: Path
    most: int

    def load(self, name: str, type_: type[T]) -> T | None:
        """An entry, validated against its type; None if missing or unreadable."""
        with contextlib.suppress(OSError, ValueError, RecursionError, WorkbenchError):
            data = read_regular(self.root / name, ByteLimit("what is kept", self.most))
            return msgspec.json.decode(data, type=type_)
        return None

    def save(self, name: str, data: bytes) -> None:
        """Keep an entry, in place of an earlier one; do nothing if that fails.

        `data` is JSON, which `load` checks when it reads it.
        """
        with contextlib.suppress(OSError, WorkbenchError):
            replace_file(self.root, name, data)
            self._trim()

    def _trim(self) -> None:
        entries = sorted((e.stat().st_mtime, e.stat().st_size, e) for e in self.root.iterdir())
        total = sum(size for _, size, _ in entries)
        for _, size, entry in entries:
            if total <= self.most:
                break
            remove_file(self.root, entry.name)
            total -= size


class KeptByContent(Generic[T]):
    """Results computed from files that are read together; one entry, keyed by their content.

    The hash of a file's bytes is the only key: not its name or its age, which a checkout, a copy or
    a clock can make wrong. So every file is still read, and one that was replaced, restored or
    damaged meanwhile counts as another file. `name` is as `entry_name` gives it; empty: nothing is
    kept. `kind` is the type of the kept results.
    """

    def __init__(self, cache: Cache, name: str, kind: type[T]) -> None:
        self._cache, self._name, self._kind = cache, name, kind
        self._seen: dict[str, T] = {}

    @cached_property
    def _known(self) -> dict[str, T]:
        kind: type[dict[str, T]] = dict[str, self._kind]  # type: ignore[name-defined]
        return (self._cache.load(self._name, kind) if self._name else None) or {}

    def of(self, data: bytes, make: Callable[[], T]) -> T:
        """Return the kept result for a file's bytes, or that of `make`."""
        content = hashlib.sha256(data).hexdigest()
        found = self._known.get(content)
        self._seen[content] = found = make() if found is None else found
        return found

    def keep(self) -> None:
        """Save the results used since `load`, unless all of them were cached already."""
        if self._name and not self._seen.keys() <= self._known.keys():
            self._cache.save(self._name, msgspec.json.encode(self._seen))
