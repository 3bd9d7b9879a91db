"""A file in an editor: the records of its version, on the lines of its current text.

Nothing is run: only a study's files and records are read. Edited lines, and lines that use them, no
longer have numbers. `trial` returns the program that tries a version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from workbench.analysis.aggregate import LaunchPair, Recent, main_launch
from workbench.analysis.limits.limit import limit_of
from workbench.analysis.line_notes import Beside, beside
from workbench.analysis.sentence import limit_stop
from workbench.analysis.source.files import compare_sources, read
from workbench.analysis.source.lines import scan
from workbench.analysis.times.timing import time_change
from workbench.analysis.wording import title_of
from workbench.errors import UsageError, WorkbenchError
from workbench.language import N_, _, current
from workbench.model import LineKey, Profile, Record
from workbench.processes.starting import Start, own_module
from workbench.project import VERSION_SUFFIXES
from workbench.session.api import CoreSession
from workbench.session.targets import Target
from workbench.session.workspace import Selection
from workbench.study.folder import SeenStudy, view_study
from workbench.study.mangling import own_name
from workbench.study.sources import local_sources
from workbench.units import faster, quantity

#: Files of a study that have lines of a kernel.
SUFFIXES = (*VERSION_SUFFIXES, ".cuh")
#: Actions offered above a kernel, each with its command's arguments.
Commands = list[tuple[str, tuple[str, ...]]]
#: The beginning of an error with a place.
_PLACE = re.compile(r"(?P<path>[^\s:]+):(?P<line>\d+)(?: \([^)]*\))?: (?P<words>.+)")


class Remark(NamedTuple):
    """A remark at a line (counted from 1) of a file, named by its path in the project."""

    path: str
    line: int
    words: str


class Headline(NamedTuple):
    """Text above a line (counted from 1), and commands that can be run there."""

    line: int
    words: str
    commands: Commands


class Tried(Record, frozen=True):
    """A part of a trial's results.

    `faults` are errors, each with its place (``path:line: words``). `moved` is what the edit
    changed, in the words of `diff`. `profile` is None in a part without counters.
    """

    faults: tuple[str, ...] = ()
    profile: Profile | None = None
    moved: str = ""


def trial(root: Path, target: str, seconds: float) -> Start:
    """The program that tries a version (``sgemm/v3``), as its file is now, within `seconds`.

    It prints one `Tried` per line, as JSON.
    """
    return own_module("workbench.editing.trying", str(root), target, str(seconds), current())


def remarks(words: str, path: str) -> list[Remark]:
    """Place the words of an error at the line that they name, or else at the top of `path`.

    A compiler names several, each at the beginning of a line. Text before the first joins it.
    """
    found: list[Remark] = []
    ahead = ""
    for line in words.split("\n"):
        if place := _PLACE.match(line):
            found.append(Remark(place["path"], int(place["line"]), ahead + place["words"]))
            ahead = ""
        elif found:
            found[-1] = found[-1]._replace(words=f"{found[-1].words}\n{line}")
        else:
            ahead += f"{line}\n"
    return found or [Remark(path, 1, words)]


class OpenedFile:
    """A file of a study, at one moment.

    `path` is absolute and without links; `selection` chooses among the recorded profiles.
    The attribute `path` is relative to the project's `root`.
    """

    #: The text of each hint, and errors of other versions' records.
    mark, troubles = "", ()

    def __init__(self, session: CoreSession, path: Path, selection: Selection) -> None:
        self.root = session.project.root.resolve()
        inside = path.relative_to(session.project.kernels.resolve())
        self.path, self.study = f"kernels/{inside.as_posix()}", inside.parts[0]
        self._session, self._selection = session, selection

    @cached_property
    def _seen(self) -> SeenStudy:
        return view_study(self._session.project, self.study)

    def _versions(self) -> list[str]:
        """The versions that hold the file, the last one first, in the form that commands take."""
        project, own = self._session.project, self.path.endswith(VERSION_SUFFIXES)
        return [
            f"{self.study}/{each.id}"
            for each in reversed(self._seen.versions.values())
            if each.path == self.path
            or (not own and any(s.path == self.path for s in local_sources(project, each)))
        ]

    def version(self) -> str:
        """The version that is meant: for a header, the last one that includes it; "": none."""
        target = self.target()
        return target.name if target is not None else next(iter(self._versions()), "")

    def target(self) -> Target | None:
        """The record of the version; for a header, that of the last version with lines of it.

        Raises:
            UsageError: the study or its versions cannot be read.
            DataError: a damaged record.
        """
        own = self.path.endswith(VERSION_SUFFIXES)
        for name in self._versions():
            try:
                found = self._session.show(name, self._selection)
            except UsageError:
                continue  # it has no records
            file = self._file(found.profile)
            if own or any(place == file for place, _ in _beside(found.profile)):
                return found
        return None

    def _file(self, profile: Profile) -> int | None:
        """The index of the file among a profile's sources; None: absent."""
        names = [each.path for each in profile.sources]
        return names.index(self.path) if self.path in names else None

    def lines(self, text: str, tried: Profile | None = None) -> dict[int, list[Beside]]:
        """Notes on lines (counted from 1) of a text; counters of `tried` replace recorded ones."""
        target = self.target()
        found = self._placed(target.profile, text) if target else {}
        if tried is None:
            return found
        counted = self._placed(tried, text)
        return {
            line: [each for each in found.get(line, ()) if each.timed] + counted.get(line, [])
            for line in found.keys() | counted.keys()
        }

    def _placed(self, profile: Profile, text: str) -> dict[int, list[Beside]]:
        file = self._file(profile)
        return {} if file is None else placed(profile, file, {file: text}, _beside(profile))

    def origin(self) -> list[str]:
        """The records that the numbers come from."""
        if (target := self.target()) is None:
            return []
        words = f"{target.name} on {target.profile.problem}, {target.profile.device.name}"
        return [words, *[_("stale")] * target.stale]

    def faults(self) -> list[Remark]:
        """Remarks from the records: the file is not a version, or a prediction failed.

        Raises WorkbenchError: the step from its parent cannot be computed.
        """
        if wrong := list(self._broken()):
            return wrong
        target = self.target()
        return list(self._refuted(target)) if target else []

    def heads(self, text: str) -> list[Headline]:
        """The headline of the version at its kernel."""
        target = self.target()
        places = kernels_in(text, self.path)
        first = min(places.values(), default=1)
        if target is None and self.path.endswith(VERSION_SUFFIXES) and (name := self.version()):
            nothing = _("{version} · nothing recorded")
            said = nothing.format(version=name.rpartition("/")[2])
            return [Headline(first, said, _runs(name))]
        if target is None or target.version is None or target.version.path != self.path:
            return []
        profile, words = target.profile, [target.label]
        if target.timing is not None:
            words.append(quantity(target.timing.time.value, "s"))
        commands = _runs(target.name)
        if parent := target.version.parent:
            before = f"{self.study}/{parent}"
            sides = before, self._selection.of(target.name)
            commands.append((_("diff to {before}").format(before=parent), ("diff", *sides)))
            try:
                step = time_change(self._session.show(before, _alike(target)).timing, target.timing)
            except WorkbenchError:
                step = None  # its parent has no such record, or it cannot be read
            if step is not None:
                same = _("as fast as {parent}").format(parent=parent)
                speed = faster(step.speedup)
                moved = _("{speed} than {parent}").format(speed=speed, parent=parent)
                words.append(moved if step.moved else same)
        limit = limit_of(profile)
        words += [limit_stop(limit).text] if limit else []
        words += [_("stale")] * target.stale
        commands.append((_("open its page"), ("serve", self.study)))
        longest = main_launch(profile)
        wanted = own_name(longest.kernel) if longest else ""
        return [Headline(places.get(wanted, first), " · ".join(words), commands)]

    def _refuted(self, target: Target) -> Iterator[Remark]:
        version = target.version
        if version is None or not version.parent or version.path != self.path or target.stale:
            return
        parent = f"{self.study}/{version.parent}"
        for each in self._session.diff(parent, target.name, _alike(target)).story.expectations:
            if each.verdict == "refuted":
                words = f"{title_of(each.counter)} {each.expected}, {each.observed}"
                told = _("refuted: {words}").format(words=words)
                yield Remark(self.path, each.line, told)

    def _broken(self) -> Iterator[Remark]:
        try:
            faults = [each.message for each in self._seen.broken.values()]
        except WorkbenchError as error:
            faults = [error.message]
        for words in faults:
            yield from (each for each in remarks(words, self.path) if each.path == self.path)

    def beside(self, path: str) -> Path | None:
        """Another file of the project's kernels that an error names, or None."""
        found = (self.root / path).resolve()
        inside = found.is_relative_to(self._session.project.kernels.resolve())
        return found if path != self.path and inside and found.is_file() else None


def _runs(name: str) -> Commands:
    return [(_(verb), (verb, name)) for verb in (N_("verify"), N_("profile"))]


def _alike(target: Target) -> Selection:
    """The records of other versions to compare with one."""
    return Selection(problem=target.profile.problem, device=target.profile.device.name)


def kernels_in(text: str, path: str) -> dict[str, int]:
    """The lines at which the kernels of a text begin."""
    routines = read([scan(text, path)]).routines
    return {each.name: each.head_place[1] for each in reversed(routines) if each.kernel}


def placed(
    profile: Profile,
    file: int,
    texts: Mapping[int, str],
    known: Mapping[LineKey, list[Beside]],
) -> dict[int, list[Beside]]:
    """Notes on the lines of a file that are unchanged, and use nothing changed.

    `file` is the index of the source in `profile`, which has the old texts. `texts` are the new
    ones, by source; `known` are the notes of the old lines.
    """
    sources = list(profile.sources)
    for place, text in texts.items():
        sources[place] = replace(sources[place], text=text)
    kernels = [each.kernel for each in profile.launches]
    pairs = [LaunchPair(kernel=each, old=n, new=n) for n, each in enumerate(kernels)]
    found = compare_sources(profile, replace(profile, sources=tuple(sources)), pairs)
    return {
        new[1]: known[old]
        for old, new in found.twin.items()
        if old in known and (old[0], new[0]) == (file, file) and new not in found.links_new
    }


#: A file's notes are needed each time that the user scrolls or types.
_beside = Recent(beside)
