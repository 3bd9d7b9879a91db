"""What two profiles hold of their sources. That a source is unknown does not mean it is unchanged.

Most reports of other people hold no text, many of them lines by number; some hold a part of
their files. An amount on a line without text belongs to no change and to no compiler: it is
of the link ``unknown``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from workbench.model import Profile, Record
from workbench.units import listed

#: Of one side: the text of all files that instructions lie in, of some, or of none.
Knowledge = Literal["known", "partly", "unknown"]

_REMEDY = "capture with --import-source yes and compile with -lineinfo, or name the sources"


class SourceState(Record, frozen=True):
    """What is known of the two sources; `same`: both are known, and equal as code.

    `lines_old`/`lines_new`: whether any instruction has a line, be it without text.
    """

    old: Knowledge = "known"
    new: Knowledge = "known"
    same: bool = False
    lines_old: bool = True
    lines_new: bool = True

    @property
    def known(self) -> bool:
        """Whether nothing of either side is unknown."""
        return self.old == self.new == "known"


def knowledge(profile: Profile) -> Knowledge:
    """What one profile holds of the files that its instructions lie in (or else of all)."""
    known = [profile.sources[file].text is not None for file in _used(profile)]
    if not any(known):
        return "unknown"
    return "known" if all(known) else "partly"


def has_lines(profile: Profile) -> bool:
    """Whether any instruction has a line."""
    return any(line > 0 for launch in profile.launches for line in launch.instructions.line)


def unknown_files(
    old: Profile, new: Profile, files: Mapping[int, int]
) -> tuple[frozenset[int], frozenset[int]]:
    """Files of both sides whose text is not held, and not known to be the same by its hash.

    -1 stands for a side that holds no text at all: nothing can be said of any of its lines.

    Args:
        old: The old profile.
        new: The new profile.
        files: Which old file is paired with which new one.
    """
    same = {
        (a, b)
        for a, b in files.items()
        if old.sources[a].sha256 and old.sources[a].sha256 == new.sources[b].sha256
    }
    out = []
    for profile, hashed in ((old, {a for a, _ in same}), (new, {b for _, b in same})):
        dark = {n for n, source in enumerate(profile.sources) if source.text is None}
        none = len(dark) == len(profile.sources) and not hashed
        out.append(frozenset((dark - hashed) | ({-1} if none else set())))
    return out[0], out[1]


def _used(profile: Profile) -> list[int]:
    tables = [launch.instructions for launch in profile.launches]
    used = {
        file
        for table in tables
        for file, line in zip(table.file, table.line, strict=True)
        if 0 <= file < len(profile.sources) and line > 0
    }
    return sorted(used) or list(range(len(profile.sources)))


def words_of(old: Profile, new: Profile, sources: SourceState) -> tuple[str, ...]:
    """Sentences about what is not known of either side, or that both are the same."""
    if sources.same:
        return ("the sources are the same",)
    unknown = "unknown" in (sources.old, sources.new)
    sides = [
        (side, profile, state)
        for side, profile, state in (("old", old, sources.old), ("new", new, sources.new))
        if state != "known"
    ]
    if not sides:
        return ()
    whose = "neither side holds" if len(sides) == 2 else f"the {sides[0][0]} side does not hold"
    names = _names([profile for _, profile, _ in sides])
    what = f"the text of {names}" if names else "any source text"
    what = what if len(sides) == 2 or names else "source text"
    extent = "source unknown" if unknown else "source known in part"
    return (f"{extent}: {whose} {what}, so what changed there cannot be said ({_REMEDY})",)


def _names(profiles: Sequence[Profile]) -> str:
    names = [
        PurePosixPath(profile.sources[file].path.replace("\\", "/")).name
        for profile in profiles
        for file in _used(profile)
        if profile.sources[file].text is None
    ]
    return listed(list(dict.fromkeys(names)), 3)
