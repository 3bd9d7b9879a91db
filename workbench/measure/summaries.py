"""What lists said of profiles, kept per user by the profiles' content.

A list needs a few hundred bytes of a profile that is decoded from half a megabyte. An entry is
found by the hash of the file's bytes and by nothing else: not by its name or its age, which a
checkout, a copy or a clock can make wrong. So every file is read, and one that was replaced,
restored or damaged meanwhile is another file.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

import msgspec

from workbench.disk.cache import Cache, entry_name
from workbench.measure.records import Summary
from workbench.model import SCHEMA_VERSION
from workbench.project import cache_folder
from workbench.store.codec import decode_totals, read_record

#: Raised with every change of what `Summary.of` gives for the same file.
EDITION = 1
#: Oldest entries are dropped beyond this many bytes; one of 10,000 profiles has three million.
_LIMIT = 64 << 20

_Known = dict[str, Summary]


class Summaries:
    """The summaries of profiles that are listed together, so that one entry holds them.

    Args:
        *shelf: What tells this entry from others: the folder and the study. Empty: every
            profile is decoded, and nothing is kept.
    """

    def __init__(self, *shelf: str) -> None:
        self._cache = Cache(cache_folder("lists"), _LIMIT)
        digest = hashlib.sha256("\0".join(shelf).encode("utf-8", "surrogatepass")).hexdigest()
        self._name = entry_name(digest, SCHEMA_VERSION, EDITION) if shelf else ""
        self._seen: _Known = {}

    @cached_property
    def _known(self) -> _Known:
        """What was kept, by the hash of the profile's file."""
        return (self._cache.load(self._name, _Known) if self._name else None) or {}

    def of(self, path: Path) -> Summary:
        """What a list says of a profile.

        Raises:
            MissingError, DataError: as `decode_totals`.
        """
        data = read_record(path)
        content = hashlib.sha256(data).hexdigest()
        found = self._known.get(content)
        if found is None:
            found = Summary.of(decode_totals(path, data))
        self._seen[content] = found
        return found

    def keep(self) -> None:
        """Keep what was asked for since, for the next list, if it was not all known."""
        if self._name and not self._seen.keys() <= self._known.keys():
            self._cache.save(self._name, msgspec.json.encode(self._seen))
