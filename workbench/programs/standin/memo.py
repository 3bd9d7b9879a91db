"""Launches that repeat themselves: the same kernel and arguments over the same memory run once.

Two launches are the same if kernel, shape, arguments and the contents of all allocations are equal.
If a repeated launch would leave memory unchanged, nothing is done. Else its results are kept the
next time that it runs, and copied from then on. Memory that the host may write at any time (pinned,
managed) is hashed before each launch; if it changes during a launch, the launch is not kept. Other
memory is hashed only after a copy or a launch changed it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Told = TypeVar("Told")
#: Seconds to hash a byte (measured, SHA-256 on one core), to compare with a launch's time.
_HASH_S = 1 / 1.2e9
#: The most bytes of results that are kept.
_KEPT = 256 << 20


@dataclass(slots=True)
class Region:
    """An allocation, by its offset in the arena. `shared`: the host writes it without a call."""

    start: int
    size: int
    shared: bool = False
    digest: bytes | None = None


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """Bytes that a launch wrote to a region; `content` and `marks` are None if not kept."""

    start: int
    digest: bytes
    content: Bytes | None
    marks: Bytes | None


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[Told]):
    told: Told
    changes: tuple[_Rewritten, ...]

    @property
    def bytes(self) -> int:
        kept = [part for each in self.changes for part in (each.content, each.marks)]
        return sum(len(part) for part in kept if part is not None)


@dataclass(slots=True)
class Memo(Generic[Told]):
    """Results of launches, by kernel, arguments and memory; `written` is None without a mask."""

    data: Bytes
    written: Bytes | None
    regions: dict[int, Region] = field(default_factory=dict)
    _costs: dict[Hashable, float] = field(default_factory=dict)
    _known: OrderedDict[Hashable, _Outcome[Told]] = field(default_factory=OrderedDict)
    _wanted: set[Hashable] = field(default_factory=set)
    _bytes: int = 0
    _last: Hashable | None = None

    def touched(self, start: int, size: int) -> None:
        """Note that something other than a launch changed bytes."""
        for region in self.regions.values():
            if region.start < start + size and start < region.start + region.size:
                region.digest = None

    def forget(self) -> None:
        """Forget the last launch: the host copied during it, so it did not make all changes."""
        known = self._known.pop(self._last, None)
        self._bytes -= 0 if known is None else known.bytes

    def key(self, launch: Hashable) -> Hashable | None:
        """The key of a launch with its memory; None if hashing costs more than running it.

        A launch has a key from its second run on, if running takes longer than hashing.
        """
        cost = self._costs.get(launch)
        stale = [each for each in self.regions.values() if each.shared or each.digest is None]
        if cost is None or cost < 1.5 * _HASH_S * sum(each.size for each in stale):
            return None
        for region in stale:
            region.digest = self._hashed(region)
        return launch, tuple((each.start, each.digest) for each in self.regions.values())

    def _hashed(self, region: Region) -> bytes:
        """The hash of a region's content, and of the marks of its written bytes."""
        place = slice(region.start, region.start + region.size)
        digest = sha256(self.data[place].data)
        if self.written is not None and not self.written[place].all():
            digest.update(self.written[place].data)
        return digest.digest()

    def again(self, key: Hashable) -> Told | None:
        """Repeat a launch's effects; None if they are unknown."""
        found, self._last = self._known.get(key), None
        if found is None:
            return None
        to_do = [c for c in found.changes if self.regions[c.start].digest != c.digest]
        if any(change.content is None for change in to_do):
            self._wanted.add(key)
            return None
        self._known.move_to_end(key)
        for change in to_do:
            region = self.regions[change.start]
            place = slice(region.start, region.start + region.size)
            if change.content is not None:
                self.data[place] = change.content
            region.digest = change.digest
            if self.written is not None and change.marks is not None:
                self.written[place] |= change.marks
        return found.told

    def ran(
        self, launch: Hashable, key: Hashable | None, seconds: float, told: Told | None = None
    ) -> None:
        """Note that a launch ran and changed memory. `key`: the result of `key` before it."""
        before = {each.start: each.digest for each in self.regions.values()}
        for region in self.regions.values():
            region.digest = None
        self._costs[launch], self._last = seconds, key
        if key is None or told is None:
            return
        changes = []
        for region in self.regions.values():
            region.digest = self._hashed(region)
            if region.digest != before[region.start]:
                if region.shared:
                    return
                changes.append(self._rewritten(region, region.digest, keep=key in self._wanted))
        outcome = _Outcome(told, tuple(changes))
        if outcome.bytes <= _KEPT:
            self._bytes += outcome.bytes - (self._known[key].bytes if key in self._known else 0)
            self._known[key] = outcome
        while self._bytes > _KEPT:
            _, oldest = self._known.popitem(last=False)
            self._bytes -= oldest.bytes

    def _rewritten(self, region: Region, digest: bytes, *, keep: bool) -> _Rewritten:
        if not keep:
            return _Rewritten(region.start, digest, None, None)
        place = slice(region.start, region.start + region.size)
        marks = None if self.written is None else self.written[place].copy()
        return _Rewritten(region.start, digest, self.data[place].copy(), marks)
