"""Limits of a client: it names nothing outside the project, and does only permitted actions."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, get_args

from workbench.disk.opening import folder, parts_of
from workbench.errors import DataError, UsageError, did_you_mean
from workbench.project import PRIVATE, Project

#: The longest name, title or pointer.
LONGEST = 500
_REPORTS = (".ncu-rep", ".ncu-rep.zst")
#: ``verify``, ``time`` and ``profile`` run a version's code, ``write`` starts versions in CUDA C++,
#: ``python`` permits versions in Python, which can run anything, and ``files`` lets versions
#: include any file that the user may read.
Permit = Literal["verify", "profile", "time", "write", "python", "files"]
PERMITS: tuple[Permit, ...] = get_args(Permit)


def read_permits(given: Iterable[str]) -> frozenset[Permit]:
    """The permits of ``--allow verify,write``, given once or several times.

    Raises UsageError: an unknown permit, or ``python`` without ``write``.
    """
    found: set[Permit] = set()
    for word in (part.strip() for text in given for part in text.split(",")):
        known = next((each for each in PERMITS if each == word), None)
        if known is None:
            raise UsageError(
                f"--allow {word}: there is no such permission",
                did_you_mean(word, PERMITS, "permits"),
            )
        found.add(known)
    if "python" in found and "write" not in found:
        raise UsageError("--allow python needs --allow write", "Write --allow write,python.")
    return frozenset(found)


def need(permits: frozenset[Permit], permit: Permit | None, tool: str) -> None:
    """Refuse a tool that is not permitted."""
    if permit is None or permit in permits:
        return
    allowed = ",".join(each for each in PERMITS if each in permits or each == permit)
    raise UsageError(
        f"{tool} is not allowed here: the server only "
        + ("looks" if not permits else f"allows {', '.join(sorted(permits))}"),
        f"Whoever starts it may allow it: workbench serve mcp --allow {allowed}.",
    )


# --- names ----------------------------------------------------------------------------------


def plain(text: str, what: str) -> str:
    """Return a client's word unchanged; refuse one that is too long or holds control characters."""
    if len(text) > LONGEST:
        raise UsageError(f"{what} has {len(text)} characters", f"At most {LONGEST}.")
    for character in text:
        # Control and format characters, and lone surrogates; all else may be a name.
        if unicodedata.category(character) in ("Cc", "Cf", "Cs"):
            raise UsageError(
                f"{what} holds the character U+{ord(character):04X}", "Write plain text."
            )
    return text


class Fence:
    """The limits of a project: a client reads and writes nothing outside its folder."""

    def __init__(self, project: Project) -> None:
        self.root = project.root
        self._folders = (project.kernels, project.profiles, project.root / PRIVATE)

    def target(self, text: str, what: str) -> str:
        """A version, a capture, or a report below the project, as a command takes it.

        Raises:
            UsageError: a path that leads out, or not a target.
            DataError: a link on the way to a report, or not a file.
        """
        plain(text, what)
        if not text or text.startswith("@"):
            return text
        head = text.partition("::")[0]
        try:
            *above, name = parts_of(self.root, head)
        except DataError as error:
            raise UsageError(
                f"{what} {text!r} is neither a version nor a report of this project",
                "Write v3, sgemm/v3, @capture, or a report's path relative to the project.",
            ) from error
        try:
            with folder(self.root, above) as place:
                found = place.status(name)
        except OSError:
            found = None  # no such folder: it may be a version, as in sgemm/v3
        if found is None and head.endswith(_REPORTS):
            raise UsageError(f"there is no report {head} in this project", "Check its path.")
        if found is not None and not stat.S_ISREG(found.st_mode) and "." in name:
            raise DataError(
                f"{head} is not a plain file of this project",
                "Name the file itself, not a link to it.",
            )
        return text

    def hold(self) -> None:
        """Make sure that no link in the readable parts of the project leads out of it.

        Raises DataError: one does.
        """
        for top in self._folders:
            for path in _links(str(top)):
                found, root = Path(path).resolve(), self.root.resolve()
                # A name that begins with a dot is private too: .git, .env.
                if not found.is_relative_to(root) or "/." in f"/{found.relative_to(root)}":
                    shown = Path(path).relative_to(self.root).as_posix()
                    raise DataError(
                        f"{shown} is a link that points outside the project",
                        "Replace it by the file itself; until then it is not read.",
                    )


def _links(top: str) -> Iterator[str]:
    """Paths of all links at and below a folder, without following any."""
    if Path(top).is_symlink():
        yield top
        return
    try:
        entries = list(os.scandir(top))
    except OSError:
        return
    for entry in entries:
        if entry.is_symlink():
            yield entry.path
        elif entry.is_dir(follow_symlinks=False):
            yield from _links(entry.path)
