"""Store captures in ``.workbench/captures/NAME/`` of a project, a repository or a folder.

A capture is two files, replaced together: ``capture.json.zst``, and ``detail.ncu.json.zst``
if kernels were profiled. A name is chosen by the user, or is that of a Git revision.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import msgspec

from workbench.disk.limits import CAPTURE, read_regular
from workbench.disk.lock import locked
from workbench.disk.writing import write_files
from workbench.errors import DataError, MissingError, UsageError, did_you_mean
from workbench.model import Profile
from workbench.programs.capture.records import SCHEMA, ProgramCapture
from workbench.project import PRIVATE, check_owner, find_project, upwards
from workbench.revisions import commit_of, repository
from workbench.store import codec

_CAPTURES, _RECORD, _DETAIL = "captures", "capture.json.zst", "detail.ncu.json.zst"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_FORMAT = "workbench-capture"


class _Wrapped(msgspec.Struct):
    format: str
    schema_version: int
    record: msgspec.Raw


class Shelf:
    """The captures below ``.workbench`` of one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def folder(self) -> Path:
        """The folder of all captures' data; it need not exist."""
        return self.root / PRIVATE

    def home(self, name: str) -> Path:
        """The folder of a capture, which need not exist; UsageError: an unfit name."""
        return self.folder / _CAPTURES / check_name(name)

    def names(self) -> list[str]:
        """Names of all captures, in alphabetical order."""
        return sorted(path.parent.name for path in self.folder.glob(f"{_CAPTURES}/*/{_RECORD}"))

    def save(self, capture: ProgramCapture, detail: Profile | None) -> tuple[Path, bool]:
        """Keep a capture; one of the same name is replaced as a whole.

        Returns:
            Its folder, and whether it replaced one.

        Raises:
            MissingError: no space, no permission; an earlier capture is kept.
            DataError: it could not be read back, or its path has a link.
        """
        check_name(capture.name)
        home = f"{_CAPTURES}/{capture.name}"
        path = self.folder / home
        inner = msgspec.json.encode(capture)
        if msgspec.json.decode(inner, type=ProgramCapture) != capture:
            raise DataError(f"cannot keep {path}: the record does not survive JSON", "")
        wrapped = _Wrapped(_FORMAT, SCHEMA, msgspec.Raw(inner))
        files: dict[str, bytes | None] = {
            f"{home}/{_DETAIL}": None,
            f"{home}/{_RECORD}": codec.pack(msgspec.json.encode(wrapped)),
        }
        if detail is not None:
            files[f"{home}/{_DETAIL}"] = codec.encode(detail, path / _DETAIL)
        there = (path / _RECORD).exists()
        with locked(self.folder, 5.0):
            write_files(self.folder, files)
        return path, there

    def load(self, name: str) -> ProgramCapture:
        """One capture by its own name.

        Raises:
            UsageError: no such capture.
            DataError: it is damaged, or of a newer workbench.
        """
        path = self.home(name) / _RECORD
        try:
            data = read_regular(path, CAPTURE)
        except FileNotFoundError:
            raise UsageError(f"there is no capture {name}", self._hint(name)) from None
        except OSError as error:
            raise MissingError(
                f"cannot read {path}: {error.strerror}", "Check its permissions."
            ) from error
        try:
            wrapped = msgspec.json.decode(codec.unpack(data, path, CAPTURE), type=_Wrapped)
            if wrapped.format != _FORMAT:
                raise ValueError(f"holds a {wrapped.format!r}")
            if wrapped.schema_version > SCHEMA:
                raise DataError(
                    f"{path} was written by a newer workbench (schema {wrapped.schema_version}; "
                    f"this one reads up to {SCHEMA})",
                    "Update workbench.",
                )
            capture = msgspec.json.decode(wrapped.record, type=ProgramCapture)
            _check(capture)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path} is damaged: {error}",
                f"Delete its folder and capture it again: {_command(name)}.",
            ) from error
        return capture

    def detail_path(self, name: str) -> Path:
        """The path of a capture's detailed profile, which need not exist.

        Raises UsageError: no capture can have that name.
        """
        return self.home(name) / _DETAIL

    def detail(self, capture: ProgramCapture) -> Profile | None:
        """The detailed profile of a capture; None if no kernel was profiled.

        Raises DataError: it is damaged.
        """
        if not capture.detail:
            return None
        path = self.detail_path(capture.name)
        profile = codec.decode(path, Profile)
        if len(profile.launches) != len(capture.detail):
            raise DataError(
                f"{path} is damaged: {len(profile.launches)} launches, but the capture has "
                f"{len(capture.detail)}",
                "Capture it again.",
            )
        return profile

    def find(self, name: str) -> ProgramCapture:
        """The capture that ``@NAME`` means: its own name, or else a Git revision.

        Raises:
            UsageError: no such capture; the hint says how to make it.
            DataError: it is damaged.
        """
        if _NAME.fullmatch(name) and (self.folder / _CAPTURES / name / _RECORD).exists():
            return self.load(name)
        commit = commit_of(self.root, name)
        if not commit:
            raise UsageError(
                f"@{name} is neither a capture nor a Git revision here", self._hint(name)
            )
        found = []
        for other in self.names():
            with contextlib.suppress(DataError):
                found.append(self.load(other))
        own = [capture for capture in found if capture.state.commit == commit]
        clean = [capture for capture in own if capture.state.clean]
        if clean:
            return max(clean, key=lambda capture: capture.captured)
        changed = ", ".join(f"@{capture.name}" for capture in own)
        note = f" A capture with uncommitted changes on top of it: {changed}." if own else ""
        raise UsageError(
            f"no capture of {name} ({commit[:12]})",
            f"To make it, in a worktree of its own: `workbench capture --at {name} -- COMMAND`; "
            f"or `git checkout {name}`, build, and {_command()}.{note}",
        )

    def _hint(self, name: str) -> str:
        names = self.names()
        make = f"To make one: {_command(name if _NAME.fullmatch(name) else '')}."
        if not names:
            return f"Nothing is captured below {self.folder} yet. {make}"
        return f"{did_you_mean(name, names, 'captures')} {make}"


def _command(name: str = "") -> str:
    return f"`workbench capture {name + ' ' if name else ''}-- COMMAND`"


def check_name(name: str) -> str:
    """Return the name if a capture may have it; UsageError: it cannot name a folder."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"a capture cannot be named {name!r}",
            "Letters, digits and . _ + - are allowed, up to 100 of them: before, v2.1.",
        )
    return name


def _check(capture: ProgramCapture) -> None:
    """Check what the types cannot express; ValueError: the record contradicts itself."""
    runs, works = len(capture.survey.runs), len(capture.survey.works)
    for work in capture.survey.works:
        if not len(work.launches) == len(work.weights) == runs:
            raise ValueError(f"{work.name} does not have one time per run")
        if not all(-1 <= other < works for other in (work.before, work.after)):
            raise ValueError(f"{work.name} belongs to a kernel that is missing")
    if any(not -1 <= work < works for work in capture.detail):
        raise ValueError("it has details of a kernel that is missing")


def shelf_above(start: Path | None = None) -> Shelf | None:
    """The captures of the nearest folder upwards that has ``.workbench``, or None.

    Raises UsageError: that folder is another user's.
    """
    for folder in upwards(start):
        if os.path.isdir(folder / PRIVATE):  # noqa: PTH112 - no permission to enter: no captures
            check_owner(folder, folder / PRIVATE)
            return Shelf(folder)
    return None


def find_shelf(start: Path | None = None) -> Shelf:
    """The captures of the current folder.

    They are in the nearest folder upwards that has ``.workbench``, else in the project, else in the
    Git repository, else here. Raises UsageError: that folder is another user's.
    """
    if found := shelf_above(start):
        return found
    nearest = next(upwards(start))
    project = find_project(nearest)
    return Shelf(project.root if project is not None else repository(nearest) or nearest)


def without_sign(text: str) -> str:
    """The hint if `text` is a capture's name without its @; else ""."""
    name = text.partition("::")[0]
    if name not in find_shelf().names():
        return ""
    return f"`{name}` is a capture, and its name begins with an @: write @{text}."
