"""Open a file below a folder by its name, so that no link leads elsewhere.

Every folder on the way is opened by itself, relative to the one above and with ``O_NOFOLLOW``: the
opened folder is the checked one, even if names are exchanged meanwhile. A system without such calls
(Windows) checks each folder before it is used.

The root folder is used as the user named it, except for its last part: a checkout's ``profiles``
may not be a link either.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from workbench.disk.limits import kind
from workbench.errors import DataError, MissingError, UsageError, WorkbenchError

#: True if this system opens relative to a folder, and can refuse to follow links.
RELATIVE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
#: For files: follow no link, and do not wait for the other end of a pipe.
FILE = _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Opened(NamedTuple):
    """An open folder: its handle (None without such calls), and its path for messages."""

    handle: int | None
    path: Path

    def at(self, name: str) -> str:
        """Return the path that, with ``dir_fd=handle``, reaches an entry of it."""
        return name if self.handle is not None else str(self.path / name)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of an entry (for a link: its own); None: no such entry.

        Raises OSError: it cannot be examined.
        """
        try:
            return os.stat(self.at(name), dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """The names of its entries."""
        # By the handle: a path object cannot hold one.
        return os.listdir(self.path if self.handle is None else self.handle)  # noqa: PTH208


def unanswered(error: BaseException) -> WorkbenchError | None:
    """The error for a failure of the system; None for another kind of error.

    Such a failure is a name that no file system takes, or a lack of memory, processes or open
    files: wherever it happens, it is not a fault of ours.
    """
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(unanswered, error.exceptions)), None)
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        words = str(error) if isinstance(error, MemoryError) else ""
        words = words[:1].lower() + words[1:] or "the system could not provide more"
        return MissingError(
            f"not enough memory: {words}",
            "Do less at once: a smaller problem, fewer files; or allow more (`ulimit -v`).",
        )
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENAMETOOLONG:
        return _too_long(error.filename)
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.EAGAIN):
        return MissingError(
            f"the limit of open files or processes is reached: {error.strerror}",
            "Raise the limit (`ulimit -n`, `ulimit -u`), or run less at once.",
        )
    return None


def _too_long(name: object) -> UsageError:
    shown = os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else ""
    words = f"{shown[:40]}…{shown[-20:]} ({len(os.fsencode(shown)):,} bytes) " if shown else ""
    return UsageError(
        f"the name {words}is longer than a file system allows",
        "A file name has at most 255 bytes, and a whole path 4,095: choose a shorter one.",
    )


def refused(path: Path | str, error: OSError) -> WorkbenchError:
    """The error for a file that cannot be written."""
    if (known := unanswered(error)) is not None:
        return known
    if error.errno in _FULL:
        return MissingError(
            f"no space left to write {path}",
            "Free some space and repeat the command; the old content is untouched.",
        )
    return MissingError(
        f"cannot write {path}: {error.strerror or error}",
        "Check the folder's permissions; the old content is untouched.",
    )


def linked(path: Path, status: os.stat_result) -> DataError:
    """The error for a link or another object at the path of our folder or file."""
    what = "a link" if _is_link(status) else kind(status.st_mode, "a second name of another file")
    return DataError(
        f"{path} is {what}, and workbench does not write through it",
        "Check where it points, and remove it or replace it with its target.",
    )


def parts_of(root: Path, name: str) -> list[str]:
    """The folders and the file of a relative name, all of them inside `root`.

    Raises DataError: it is absolute or empty, climbs, or has a separator of only some systems.
    """
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts) or (
        os.name == "nt" and ":" in name
    ):
        raise DataError(
            f"{name!r} is not the name of a file below {root}",
            "Nothing was changed. The record that names it is damaged, or malicious.",
        )
    return parts


@contextlib.contextmanager
def folder(root: Path, parts: list[str], *, create: bool = False) -> Iterator[Opened]:
    """Open the folder `parts` below `root`; `create` makes missing ones.

    `parts` are checked names (`parts_of`), possibly none.

    Raises:
        DataError: one of them is a link.
        FileNotFoundError, OSError: it is missing, is not a folder, or may not be entered.
    """
    above = root.parent
    if create:
        above.mkdir(parents=True, exist_ok=True)
    names = [*([root.name] if root.name else []), *parts]
    opened = Opened(os.open(above, _FOLDER) if RELATIVE else None, above)
    try:
        for name in names:
            opened = _entered(opened, name, create)
        yield opened
    finally:
        if opened.handle is not None:
            os.close(opened.handle)


def _entered(above: Opened, name: str, create: bool) -> Opened:
    """Open the folder of that name, then close the one above."""
    path = above.path / name
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(above.at(name), dir_fd=above.handle)
    if above.handle is None or name == "..":  # a root with a name like ../reports
        status = path.stat() if name == ".." else above.status(name)
        if status is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if _is_link(status):
            raise linked(path, status)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        if above.handle is None:
            return Opened(None, path)
    try:
        handle = os.open(name, _FOLDER | _NO_FOLLOW, dir_fd=above.handle)
    except OSError as error:
        status = above.status(name)
        if status is not None and _is_link(status):
            raise linked(path, status) from error
        raise
    os.close(above.handle)
    return Opened(handle, path)


def _is_link(status: os.stat_result) -> bool:
    # A junction of Windows is not a symbolic link, but leads elsewhere as well.
    tag = getattr(status, "st_reparse_tag", 0)
    return stat.S_ISLNK(status.st_mode) or tag == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1)
