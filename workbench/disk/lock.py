"""One writer at a time below a folder, by a lock that dies with its owner.

The kernel holds the lock, on a small file in the folder, so a killed writer releases it. A writer's
forked children would keep it: each closes its copy before it does anything else. On a network file
system that supports locks (NFS, and Lustre mounted with ``flock``) it excludes writers on other
nodes too; so the file names the host as well.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from workbench.disk.opening import Opened, folder, parts_of, refused
from workbench.disk.writing import open_locked
from workbench.errors import MissingError

LOCK = ".lock"
_TAKEN = {errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK}
#: Error numbers of a file system without locks.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}
#: Locks of this process; its children close them.
_held: set[int] = set()


class BusyError(MissingError):
    """Another process writes below the folder."""


@contextlib.contextmanager
def locked(root: Path, timeout_s: float, name: str = "", *, keep: bool = False) -> Iterator[None]:
    """Exclude other writers for the length of the block.

    `root` is made if it is missing. `name` is a folder below it, to lock only that folder. The lock
    file is removed at the end, unless `keep` is set, for a folder that users do not read. A waiter
    that then holds the lock of a removed file notices this by its inode and tries again.

    Raises:
        BusyError: another writer kept the lock for `timeout_s` seconds.
        MissingError: the folder is not writable, or its file system has no locks.
        DataError: the folder or its lock is a link.
    """
    import socket  # commands that only read do not pay for it

    home = root / name
    deadline = time.monotonic() + timeout_s
    with contextlib.ExitStack() as held:
        try:
            place = held.enter_context(
                folder(root, parts_of(root, name) if name else [], create=True)
            )
            handle = _taken(place, deadline, timeout_s)
        except OSError as error:
            raise refused(home / LOCK, error) from error
        _held.add(handle)
        try:
            # This is only for the waiter's message: a full disk must not stop us here.
            with contextlib.suppress(OSError):
                os.ftruncate(handle, 0)
                os.lseek(handle, 0, os.SEEK_SET)
                os.write(handle, f"{os.getpid()} {socket.gethostname()}".encode())
            yield
        finally:
            if handle in _held:  # not in a child that was forked within the block
                gone = keep or _removed(place)
                _held.discard(handle)
                os.close(handle)
                # Windows does not remove an open file, and so no file that a waiter has opened.
                # Elsewhere it could be another process's lock by now.
                if not gone and os.name == "nt":
                    _removed(place)


def _removed(place: Opened) -> bool:
    with contextlib.suppress(OSError):
        os.unlink(place.at(LOCK), dir_fd=place.handle)
        return True
    return False


def _taken(place: Opened, deadline: float, timeout_s: float) -> int:
    take = _way()
    while True:
        handle = open_locked(place, LOCK)
        try:
            take(handle)
            status = place.status(LOCK)
            if status is not None and os.path.samestat(os.fstat(handle), status):
                return handle
            os.close(handle)
        except OSError as error:
            holder = _holder(handle)
            os.close(handle)
            if error.errno in _NO_LOCKS:
                raise _without_locks(place.path, error) from error
            if error.errno not in _TAKEN:
                raise
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"another process{holder} is writing below {place.path}",
                    f"Wait for it to end and repeat the command (waited {timeout_s:g} s).",
                ) from error
            time.sleep(0.02)


def _without_locks(path: Path, error: OSError) -> MissingError:
    kind = ""
    with contextlib.suppress(OSError, ValueError):
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        under = [(len(each[1]), each[2]) for each in mounts if path.is_relative_to(each[1])]
        kind = f" ({max(under)[1]})"
    return MissingError(
        f"the file system{kind} of {path} has no locks: flock says {error.strerror}",
        "Two commands could write there at once. Move the project to a local disk, or have the "
        "network file system mounted with locks (Lustre: `flock`; NFS: not `nolock`).",
    )


def _way() -> Callable[[int], None]:
    """Return the function that locks an open file without waiting, or a no-op without locks."""
    with contextlib.suppress(ImportError):
        posix = importlib.import_module("fcntl")
        return lambda handle: posix.flock(handle, posix.LOCK_EX | posix.LOCK_NB)
    with contextlib.suppress(ImportError):
        windows = importlib.import_module("msvcrt")
        return lambda handle: windows.locking(handle, windows.LK_NBLCK, 1)
    return lambda _handle: None


def _holder(handle: int) -> str:
    with contextlib.suppress(OSError):
        os.lseek(handle, 0, os.SEEK_SET)
        # Text from another host: only a number and a valid host name are repeated.
        text = os.read(handle, 300).decode("ascii", "replace")
        if found := re.fullmatch(r"(\d{1,10}) ([\w.-]{1,255})", text):
            return f" (pid {found[1]} on {found[2]})"
    return ""


def _let_go() -> None:
    for handle in _held:
        with contextlib.suppress(OSError):
            os.close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
