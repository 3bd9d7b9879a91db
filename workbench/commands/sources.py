"""``--source``: the text of files that a report names but does not hold, from a folder or Git.

A report's paths are those of another machine; a file is the one with the longest common end
of its path. Where a report holds a text, or the hash of one, that decides.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from workbench.errors import UsageError
from workbench.model import Profile, Record, SourceFile
from workbench.units import listed

if TYPE_CHECKING:
    from workbench.commands.targets import Target

#: Files that are looked at in one folder: a whole disk is no source folder.
_MOST_FILES = 200_000


class Places(Record, frozen=True):
    """Where the sources are, as they were typed: of both sides, of the old one, of the new one."""

    source: str | None = None
    source_old: str | None = None
    source_new: str | None = None

    def of(self, side: int) -> str | None:
        """The place of the old side's sources (0), or of the new side's (1)."""
        return (self.source_new if side else self.source_old) or self.source


class Texts:
    """Texts by path, read when asked for.

    Args:
        where: What was typed, for errors.
        paths: The paths that there are.
        load: Reads one of them.
    """

    def __init__(self, where: str, paths: Iterable[str], load: Callable[[str], bytes]) -> None:
        self.where = where
        self._load = load
        self._by_name: dict[str, list[str]] = {}
        for path in paths:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def find(self, wanted: SourceFile) -> str | None:
        """The text of a file; None where no path ends like its own.

        Raises:
            UsageError: several files fit equally well, or the text is not the one that was
                compiled.
        """
        parts = wanted.path.replace("\\", "/").split("/")
        found = self._by_name.get(parts[-1], [])
        scores = {path: _common_end(parts, path.split("/")) for path in found}
        best = [path for path in found if scores[path] == max(scores.values())]
        texts = {path: self._load(path) for path in best}
        if wanted.sha256:
            texts = {p: t for p, t in texts.items() if sha256(t).hexdigest() == wanted.sha256}
            if best and not texts:
                raise UsageError(
                    f"{best[0]} of {self.where} is not the text that was compiled: its hash is "
                    f"not the one that was recorded of {wanted.path}",
                    "Name the folder or the Git revision that the capture was made of.",
                )
        if len(set(texts.values())) > 1:
            raise UsageError(
                f"{listed(best)} of {self.where} could each be {wanted.path}",
                "Name a folder that holds one of them.",
            )
        return next((t.decode("utf-8", "replace") for t in texts.values()), None)


def _common_end(one: list[str], other: list[str]) -> int:
    most = min(len(one), len(other))
    return next((n for n in range(most) if one[-1 - n] != other[-1 - n]), most)


def texts_at(where: str) -> Texts:
    """The texts of a folder, or else of a revision of the Git repository that we are in.

    Raises:
        UsageError: it is neither.
    """
    folder = Path(where)
    if folder.is_dir():
        return Texts(where, _files(folder), lambda path: (folder / path).read_bytes())
    listing = _git("ls-tree", "-r", "-z", "--name-only", "--full-tree", where)
    if listing is None:
        raise UsageError(
            f"{where} is no folder, and no revision of a Git repository here",
            "Name the folder that holds the sources, or such as HEAD~1 in their repository.",
        )
    paths = listing.decode("utf-8", "surrogateescape").split("\0")
    return Texts(where, filter(None, paths), lambda path: _git("show", f"{where}:{path}") or b"")


def _files(folder: Path) -> Iterable[str]:
    count = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            count += 1
            if count > _MOST_FILES:
                raise UsageError(
                    f"{folder} holds more than {_MOST_FILES:,} files", "Name a folder further down."
                )
            yield (Path(root) / name).relative_to(folder).as_posix()


def _git(*words: str) -> bytes | None:
    """What git says; None where it fails, or is not there."""
    if words[-1].startswith("-"):
        return None  # an option is no revision
    try:
        answer = subprocess.run(["git", *words], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None


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


def supplied(label: str, profile: Profile, texts: Texts) -> Profile:
    """A profile with the texts that it lacks; see `with_sources`."""
    lacking = [source for source in profile.sources if source.text is None]
    found: Mapping[str, str | None] = {source.path: texts.find(source) for source in lacking}
    if lacking and not any(text is not None for text in found.values()):
        raise UsageError(
            f"no file of {texts.where} is one that {label} names: "
            f"{listed([source.path for source in lacking], 3)}",
            "Name the folder (or the Git revision) that holds these files.",
        )
    if not profile.sources:
        raise UsageError(
            f"{label} names no source file, so that none can be supplied",
            "Compile with -lineinfo and capture again.",
        )
    return replace(
        profile,
        sources=tuple(
            replace(source, text=found[source.path]) if source.text is None else source
            for source in profile.sources
        ),
    )
