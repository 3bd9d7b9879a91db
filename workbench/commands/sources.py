"""``--source``: the text of files that a report names but does not hold, from a folder or Git."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from workbench.capture.texts import Texts, supplied, texts_at
from workbench.model import Record

if TYPE_CHECKING:
    from workbench.commands.targets import Target


class Places(Record, frozen=True):
    """Where the sources are, as they were typed: of both sides, of the old one, of the new one."""

    source: str | None = None
    source_old: str | None = None
    source_new: str | None = None

    def of(self, side: int) -> str | None:
        """The place of the old side's sources (0), or of the new side's (1)."""
        return (self.source_new if side else self.source_old) or self.source


def with_sources(targets: list[Target], places: Places) -> list[Target]:
    """Targets whose profiles hold the texts that were named for them.

    Raises:
        UsageError: a place is no folder and no revision, or no file of it fits.
    """
    known: dict[str, Texts] = {}
    out = []
    for side, target in enumerate(targets):
        where = places.of(side)
        if where is not None:
            if where not in known:
                known[where] = texts_at(where)
            target = replace(target, profile=supplied(target.label, target.profile, known[where]))
        out.append(target)
    return out
