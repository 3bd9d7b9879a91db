"""A file that is not a version: notes from captures and reports that name it.

Nothing is run, and only reports named in the editor's settings are read. The notes come from the
newest record whose source equals the file, else from the newest that names its path; then only
unchanged lines have notes.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from workbench.analysis.aggregate import Recent, main_launch, value_of
from workbench.analysis.limits.limit import limit_of
from workbench.analysis.line_notes import Beside, beside
from workbench.analysis.sentence import limit_stop
from workbench.disk.limits import SOURCE, read_regular
from workbench.editing.opened import (
    SUFFIXES,
    Commands,
    Headline,
    OpenedFile,
    Remark,
    kernels_in,
    placed,
)
from workbench.errors import DataError, UsageError, WorkbenchError
from workbench.language import _
from workbench.model import Launch, LineKey, Profile, SourceFile
from workbench.ncurep.files import LARGE, holds_at_least, stem
from workbench.ncurep.files import SUFFIXES as REPORTS
from workbench.ncurep.read import read_report
from workbench.project import studies_in, upwards
from workbench.session.api import CoreSession
from workbench.session.captures import installed
from workbench.session.workspace import Selection
from workbench.store import codec
from workbench.study.mangling import own_name
from workbench.units import quantity

#: Kernels listed separately at a line that several share: those with most of the time.
_KERNELS = 3
#: The time of a capture, and the path and hash of each source.
_Outline = tuple[str, tuple[tuple[str, str], ...]]
_T = TypeVar("_T")


def look(
    session: CoreSession, path: Path, selection: Selection, reports: Sequence[str] = ()
) -> OpenedFile | NamedFile:
    """Open a file as a version's, or as one that captures and reports may name.

    `path` is absolute and without links. `selection` chooses among the profiles of a version;
    `reports` may be read for another file (`NamedFile`).
    """
    troubles: list[WorkbenchError] = []
    try:
        if (project := session.found) is not None:
            kernels = project.kernels.resolve()
            parts = path.relative_to(kernels).parts if path.is_relative_to(kernels) else ()
            of_study = parts[1:] and parts[0] in studies_in(project.kernels)
            if of_study and path.suffix in SUFFIXES and path.name != "study.py":
                return OpenedFile(session, path, selection)
    except WorkbenchError as error:
        troubles.append(error)
    return NamedFile(path, reports, troubles)


class _Naming(NamedTuple):
    """A capture or a report that names a file.

    `exact`: its source equals the file byte for byte, at any path. `name` has the form that
    commands take; `record` holds the profile, and `place` is the index of the source in it.
    """

    exact: bool
    captured: str
    name: str
    title: str
    record: Path
    place: int


class NamedFile:
    """A file that captures or reports name, at one moment.

    Notes come from the newest one whose source equals the file byte for byte, else from the newest
    one with its path. Captures lie in ``.workbench`` of the file's folder, or of one above it.

    Args:
        path: Its path, absolute and without links.
        reports: The reports that may be read: names or patterns in the file's folder and in those
            above it, or absolute paths.
        troubles: Read errors so far; errors of records are added.
    """

    def __init__(
        self, path: Path, reports: Sequence[str] = (), troubles: Iterable[WorkbenchError] = ()
    ) -> None:
        self.path, self.troubles = str(path), list(troubles)
        self.root, self._path, self._reports = path.parent, path, reports
        self._above = list(upwards(path.parent))[::-1]

    def version(self) -> str:
        """Empty: the file belongs to no version, so nothing is run for it."""
        return ""

    def faults(self) -> list[Remark]:
        """Empty: there are no predictions for it."""
        return []

    def beside(self, path: str) -> None:
        """None: its errors name no other file."""
        del path

    @property
    def mark(self) -> str:
        """The name of the record, shown after each hint."""
        return self._speaker.title if self._speaker else ""

    def origin(self) -> list[str]:
        """The records that the numbers come from."""
        if (of := self._speaker) is None:
            return []
        profile = _whole(of.record)
        words = [_("{name} on {device}").format(name=of.title, device=profile.device.name)]
        if not of.exact:
            dark = profile.sources[of.place].text is None
            words.append(_("source text not recorded") if dark else _("edited since"))
        return words

    def lines(self, text: str, tried: Profile | None = None) -> dict[int, list[Beside]]:
        """Notes on the lines (counted from 1) of a text, for each kernel alone."""
        del tried
        if (of := self._speaker) is None:
            return {}
        profile = _whole(of.record)
        sources, now = list(profile.sources), {of.place: text}
        if of.exact:  # the record may hold only its hash
            then = self._bytes.decode("utf-8", "replace")
            sources[of.place] = replace(sources[of.place], text=then)
        if sources[of.place].text is None:
            return {}
        for place, source in enumerate(sources):
            if place != of.place and source.text is not None:
                changed = self._changed(source)
                now |= {} if changed is None else {place: changed}
        then_known = _of_kernels(profile)
        return placed(replace(profile, sources=tuple(sources)), of.place, now, then_known)

    def heads(self, text: str) -> list[Headline]:
        """A headline at the first line of each kernel of the file."""
        if (of := self._speaker) is None:
            return []
        places, out = kernels_in(text, self.path), []
        older = [each for each in self._mentions if each.captured < of.captured]
        for kernel, own in _by_kernel(_whole(of.record)).items():
            launch = main_launch(own)
            if kernel not in places or launch is None:
                continue
            words, duration = [of.title], value_of(launch, "duration")
            words += [] if duration is None else [quantity(float(duration), "s")]
            words += [limit_stop(limit, "").text] if (limit := limit_of(own)) else []
            words += [] if of.exact else [_("edited since")]
            commands: Commands = [(_("show"), ("show", f"{of.name}::{kernel}"))]
            if before := next((each for each in older if _has(each, kernel)), None):
                sides = (f"{each.name}::{kernel}" for each in (before, of))
                commands.append(
                    (_("diff to {before}").format(before=before.title), ("diff", *sides))
                )
            out.append(Headline(places[kernel], " · ".join(words), commands))
        return out

    # --- records that name it ----------------------------------------------------------------

    @cached_property
    def _bytes(self) -> bytes:
        try:
            return read_regular(self._path, SOURCE)
        except (OSError, DataError):
            return b""  # so far only the editor has it

    @cached_property
    def _speaker(self) -> _Naming | None:
        for each in self._mentions:
            try:
                _whole(each.record)
            except WorkbenchError as error:
                self.troubles.append(error)
            else:
                return each
        return None

    @cached_property
    def _mentions(self) -> list[_Naming]:
        """The records that name the file, the best first."""
        own, found = sha256(self._bytes).hexdigest() if self._bytes else None, []
        for name, title, record, folders in self._records():
            try:
                captured, sources = _outline(record)
            except WorkbenchError as error:
                self.troubles.append(error)
                continue
            mentions = [
                _Naming(hashed == own, captured, name, title, record, place)
                for place, (path, hashed) in enumerate(sources)
                if hashed == own or self._is(path, folders)
            ]
            found += sorted(mentions)[-1:]
        return sorted(found, reverse=True)

    def _records(self) -> Iterator[tuple[str, str, Path, list[Path]]]:
        """Yield captures and reports: command name, title, file, roots of relative paths."""
        try:
            seen = installed()
            for name, path, root in seen.profiles_above(self._path.parent) if seen else ():
                yield f"@{name}", f"@{name}", path, [root]
        except WorkbenchError as error:
            self.troubles.append(error)
        found = {path for each in self._reports for path in self._reports_of(each)}
        for path in sorted(found):
            yield str(path), stem(path.name), path, self._above

    def _reports_of(self, pattern: str) -> Iterator[Path]:
        for folder in self._above:
            # A whole tree is too much to search each time that the user scrolls.
            with contextlib.suppress(ValueError, NotImplementedError, OSError):
                whole = Path(pattern).expanduser()
                found = [whole] if whole.is_absolute() else folder.glob(pattern.replace("**", "*"))
                yield from (path for path in found if path.name.endswith(REPORTS))

    def _is(self, named: str, folders: list[Path]) -> bool:
        """Whether a line table's path names the file."""
        if re.split(r"[/\\]", named)[-1] != self._path.name:
            return False
        return named == str(self._path) or _here(named, folders) == self._path

    def _changed(self, source: SourceFile) -> str | None:
        """The current text of another file of the kernel, if it has changed since the build."""
        if (path := _here(source.path, self._above)) is None:
            return None
        try:
            data = read_regular(path, SOURCE)
        except (OSError, DataError):
            return None
        same = sha256(data).hexdigest() == source.sha256
        return None if same else data.decode("utf-8", "replace")


def _has(of: _Naming, kernel: str) -> bool:
    try:
        return kernel in _by_kernel(_whole(of.record))
    except WorkbenchError:
        return False


def _here(named: str, folders: Sequence[Path]) -> Path | None:
    """The file below one of `folders` that a line table's path names; None: unknown.

    A path on another machine matches by its longest end: at least one folder and the name.
    """
    whole = named.replace("\\", "/")
    parts = [each for each in posixpath.normpath(whole).split("/") if each]
    absolute = whole[:1] == "/" or whole[1:2] == ":"
    ends = max(1, len(parts) - 1) if absolute else 1
    for first in range(ends if ".." not in parts else 0):
        for folder in folders:
            if (path := folder.joinpath(*parts[first:])).is_file():
                real = path.resolve()
                return real if real.is_relative_to(folder.resolve()) else None
    return None


def _state(path: Path) -> tuple[int, ...]:
    """A value that changes when a file is written again."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _or_raise(found: _T | WorkbenchError) -> _T:
    if isinstance(found, WorkbenchError):
        raise found
    return found


def _outline(record: Path) -> _Outline:
    """Read the time of a capture, and paths and hashes of sources (WorkbenchError: unreadable)."""
    return _or_raise(_read_outline(record, _state(record)))


def _whole(record: Path) -> Profile:
    """Read the profile of a capture or a report (WorkbenchError: unreadable)."""
    return _or_raise(_read_whole(record, _state(record)))


# Unreadable files are remembered as well: reading one may have taken minutes.


@lru_cache(maxsize=1024)
def _read_outline(record: Path, state: tuple[int, ...]) -> _Outline | WorkbenchError:
    if record.name.endswith(REPORTS):
        found = _read_whole(record, state)
    else:
        try:
            found = codec.decode_sources(record)
        except WorkbenchError as error:
            return error
    if isinstance(found, WorkbenchError):
        return found
    return found.captured, tuple((each.path, each.sha256) for each in found.sources)


@lru_cache(maxsize=8)
def _read_whole(record: Path, state: tuple[int, ...]) -> Profile | WorkbenchError:
    del state
    try:
        if not record.name.endswith(REPORTS):
            return codec.decode(record, Profile)
        if holds_at_least(record, LARGE):
            return UsageError(
                f"{record} is too large to be read for an editor",
                f"`workbench show {record}` lists its kernels.",
            )
        return read_report(record)
    except WorkbenchError as error:
        return error


def _split(profile: Profile) -> dict[str, Profile]:
    """The profile of each kernel, the one with the most time first."""
    own: dict[str, list[Launch]] = defaultdict(list)
    for launch in profile.launches:
        if launch.profiled:
            own[own_name(launch.kernel)].append(launch)
    spent = {
        kernel: sum(float(value_of(each, "duration") or 0) for each in launches)
        for kernel, launches in own.items()
    }
    order = sorted(own, key=lambda kernel: -spent[kernel])
    return {kernel: replace(profile, launches=tuple(own[kernel])) for kernel in order}


def _told_apart(profile: Profile) -> dict[LineKey, list[Beside]]:
    """Notes on the lines of a profile, for each kernel by itself."""
    several: dict[LineKey, list[list[Beside]]] = defaultdict(list)
    for kernel, own in _by_kernel(profile).items():
        for key, found in beside(own).items():
            several[key].append([each._replace(kernel=kernel) for each in found])
    return {
        key: [each for own in kernels[:_KERNELS] for each in own]
        if kernels[1:]
        else [each._replace(kernel="") for each in kernels[0]]
        for key, kernels in several.items()
    }


#: Both are needed each time that the user scrolls or types.
_by_kernel, _of_kernels = Recent(_split), Recent(_told_apart)
