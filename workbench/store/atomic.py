"""Writing files so that a crash, a full disk or a second writer loses nothing.

A file is written beside its target under a temporary name, flushed to the disk,
and only then renamed over the target: a reader sees the old content or the new
one, never a part. Writers of one folder tree exclude each other with a lock file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from workbench.errors import MissingError

_LOCK = ".lock"
_TEMPORARY = ".tmp"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def _refused(path: Path, error: OSError) -> MissingError:
    if error.errno in _FULL:
        return MissingError(
            f"no space left to write {path}",
            "Free some space and repeat the command; what was there before is untouched.",
        )
    return MissingError(
        f"cannot write {path}: {error.strerror or error}",
        "Check the folder's permissions; what was there before is untouched.",
    )


@contextlib.contextmanager
def locked(root: Path, timeout_s: float) -> Iterator[None]:
    """Exclude other writers below `root` for the length of the block.

    The lock is the kernel's (``flock``), so a writer that dies releases it. The
    lock file itself is removed at the end; a waiter that then holds the lock of a
    removed file notices by its inode and tries again.

    Raises:
        MissingError: another writer kept the lock for `timeout_s` seconds, or the
            folder cannot be written.
    """
    import fcntl  # POSIX only; reading needs no lock and works everywhere.

    path = root / _LOCK
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            root.mkdir(parents=True, exist_ok=True)
            # A link in a project from elsewhere must not lead us to write another file.
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            handle = os.open(path, flags, 0o666)
        except OSError as error:
            raise _refused(path, error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same_file(handle, path):
                break
            os.close(handle)
            continue
        except OSError as error:
            holder = _holder(handle)
            os.close(handle)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise _refused(path, error) from error
            if time.monotonic() >= deadline:
                raise MissingError(
                    f"another process{holder} is writing below {root}",
                    f"Wait for it to end and repeat the command (waited {timeout_s:g} s).",
                ) from error
            time.sleep(0.02)
    try:
        # Only for the waiter's message: a full disk must not stop us here.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(handle)


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _holder(handle: int) -> str:
    with contextlib.suppress(OSError):
        text = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
        if text.isdigit():
            return f" (pid {text})"
    return ""


def replace_file(target: Path, data: bytes) -> None:
    """Replace a file that can be made again: whole or not at all, but not at once on the disk.

    A crash of the machine may leave it empty; who makes such files keeps their sizes.

    Raises:
        MissingError: no space, or no permission; the old file is still there.
    """
    temporary = target.with_name(f".{target.name}{_TEMPORARY}")
    try:
        try:
            temporary.write_bytes(data)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(data)
        temporary.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise _refused(target, error) from error


def write_files(files: Mapping[Path, bytes | None]) -> None:
    """Replace several files together; None removes one.

    All new content is on the disk before the first rename, so that what can run
    out of space has happened before anything is replaced. Renames follow the
    mapping's order. Temporary files that a killed writer left in the same folders
    are removed; call under `locked`, which is what makes them surely stale.

    Raises:
        MissingError: no space, or no permission; every old file is still there.
    """
    written: list[tuple[Path, Path]] = []
    target = Path()
    try:
        for target in files:
            target.parent.mkdir(parents=True, exist_ok=True)
            _remove_stale(target.parent)
        for target, data in files.items():
            if data is not None:
                temporary = target.with_name(f".{target.name}{_TEMPORARY}")
                written.append((temporary, target))
                _write_durable(temporary, data)
        for target, data in files.items():
            if data is None:
                target.unlink(missing_ok=True)
        for temporary, target in written:
            temporary.replace(target)
        for folder in {target.parent for target in files}:
            _sync_folder(folder)
    except OSError as error:
        for temporary, _ in written:
            with contextlib.suppress(OSError):
                temporary.unlink()
        raise _refused(target, error) from error


def _write_durable(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    # Without this the rename itself may be lost in a power cut. Some network file
    # systems refuse to sync a folder; the file's content is safe there all the same.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove_stale(folder: Path) -> None:
    for path in folder.glob(f".*{_TEMPORARY}"):
        with contextlib.suppress(OSError):
            path.unlink()
