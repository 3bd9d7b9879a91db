"""Texts of files by the path that a line table names: from a folder, or from a Git revision.

A report's paths are those of another machine; this module takes the file with the longest common
end of its path. If a report holds a text, or its hash, that decides.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from workbench.analysis.source.links import common_end
from workbench.disk.limits import SOURCE, read_regular
from workbench.errors import MissingError, UsageError
from workbench.model import Profile, SourceFile
from workbench.revisions import COMPLETE, git
from workbench.units import listed

#: The most files searched in one folder: a whole disk is not a source folder.
_MOST_FILES = 200_000


class Texts:
    """Texts by path, read on demand; `where` is the text that the user typed, for errors."""

    def __init__(self, where: str, paths: Iterable[str], load: Callable[[str], bytes]) -> None:
        self.where = where
        self._load = load
        self._by_name: dict[str, list[str]] = {}
        for path in paths:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def find(self, wanted: SourceFile) -> str | None:
        """The text of a file; None if no path ends like its path.

        Raises UsageError: several files fit equally well, or the text is not the one that was
        compiled.
        """
        parts = wanted.path.replace("\\", "/").split("/")
        found = self._by_name.get(parts[-1], [])
        scores = {path: common_end(parts, path.split("/")) for path in found}
        best = [path for path in found if scores[path] == max(scores.values())]
        texts = {path: self._load(path) for path in best}
        if wanted.sha256:
            texts = {p: t for p, t in texts.items() if sha256(t).hexdigest() == wanted.sha256}
            if best and not texts:
                raise UsageError(
                    f"{best[0]} of {self.where} differs from the compiled text: its hash is not "
                    f"the one recorded for {wanted.path}",
                    "Name the folder or the Git revision that the capture was made from.",
                )
        if len(set(texts.values())) > 1:
            raise UsageError(
                f"{listed(best)} of {self.where} could each be {wanted.path}",
                "Name a folder that holds one of them.",
            )
        return next((t.decode("utf-8", "replace") for t in texts.values()), None)


def texts_at(where: str) -> Texts:
    """The texts of a folder, or else of a revision of the current Git repository.

    Raises UsageError: it is neither.
    """
    folder = Path(where)
    if folder.is_dir():
        return Texts(where, _files(folder), lambda path: read_regular(folder / path, SOURCE))
    # An option is not a revision.
    words = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", where)
    listing = None if where.startswith("-") else git(Path(), *words)
    if listing is None:
        raise UsageError(
            f"{where} is neither a folder nor a revision of a Git repository here",
            "Name the folder that holds the sources, or a revision of their repository, such as "
            "HEAD~1.",
        )
    paths = listing.decode("utf-8", "surrogateescape").split("\0")
    there = filter(None, paths)

    def read(path: str) -> bytes:
        if (text := git(Path(), "cat-file", "blob", f"{where}:{path}")) is None:
            raise MissingError(f"git has no text of {where}:{path} here", COMPLETE)
        return text

    return Texts(where, there, read)


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


def supplied(label: str, profile: Profile, texts: Texts) -> Profile:
    """A profile with the texts that it lacks; `label` is its name, for errors.

    Raises UsageError: no file fits, or a wrong one does.
    """
    lacking = [source for source in profile.sources if source.text is None]
    found: Mapping[str, str | None] = {source.path: texts.find(source) for source in lacking}
    if lacking and not any(text is not None for text in found.values()):
        raise UsageError(
            f"no file in {texts.where} is one that {label} names: "
            f"{listed([source.path for source in lacking], 3)}",
            "Name the folder (or the Git revision) that holds these files.",
        )
    if not profile.sources:
        raise UsageError(
            f"{label} names no source file, so none can be supplied",
            "Compile with -lineinfo and capture again.",
        )
    return replace(
        profile,
        sources=tuple(
            replace(source, text=found[source.path]) if source.text is None else source
            for source in profile.sources
        ),
    )
