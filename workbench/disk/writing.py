"""Writing files so that a crash, a full disk or a second writer loses nothing.

A file is written beside its target under an unused random name, flushed to the disk, and only then
renamed over the target: a reader sees the old content or the new one, never a part. All names are
relative to a folder, and no link is followed (`opening`).
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from workbench.disk.opening import FILE, Opened, folder, linked, parts_of, refused
from workbench.errors import UsageError

_BEFORE, _AFTER = ".workbench-", ".tmp"
#: Another host's half-written file counts as abandoned after this many seconds.
_FORGOTTEN_S = 24 * 3600.0
#: Folders, by device and inode, from which this process has removed killed writers' files.
_tidied: set[tuple[int, int]] = set()
#: The same for folders of temporary files.
_left_by_killed: set[tuple[int, int]] = set()
_PRIVATE = "workbench-"
#: Bytes of a file's end read at once to find its last whole line.
_TAIL = 1 << 16


def is_temporary(name: str) -> bool:
    """Test whether a name belongs to a file that a killed writer left half-written."""
    return name.startswith(_BEFORE) and name.endswith(_AFTER)


def replace_file(root: Path, name: str, data: bytes, *, durable: bool = False) -> None:
    """Replace one file: whole or not at all.

    `name`, with forward slashes, is relative to `root`, which is made if it is missing. `durable`:
    it is on the disk before the old one is removed. Otherwise a crash of the machine may leave it
    empty: for files that can be made again, and whose sizes are recorded. Permissions stay.

    Raises:
        MissingError: no space, or no permission; the old file is still there.
        DataError: a link on the way, or a name that leads out of `root`.
    """
    with _at(root, name) as (place, file):
        temporary = _temporary()
        try:
            _written(place, temporary, data, durable=durable, like=place.status(file))
            _renamed(place, temporary, file)
        except OSError:
            _drop(place, temporary)
            raise


def append_file(root: Path, name: str, data: bytes) -> None:
    """Add whole lines to the end of a file, durably; call under a lock.

    First removes a killed writer's unfinished line; without space for all lines, the file is
    unchanged. `root` and `name` are as for `replace_file`; each line of `data` ends with a newline.
    Raises MissingError, DataError: as `replace_file`.
    """
    with _at(root, name) as (place, file):
        handle = open_locked(place, file)
        try:
            end = _end_of_lines(handle)
            os.ftruncate(handle, end)
            os.lseek(handle, end, os.SEEK_SET)
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(handle, rest) :]
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, end)
                raise
        finally:
            os.close(handle)


def _end_of_lines(handle: int) -> int:
    end = os.fstat(handle).st_size
    while end:
        begin = max(0, end - _TAIL)
        os.lseek(handle, begin, os.SEEK_SET)
        found = os.read(handle, end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


@contextlib.contextmanager
def replacing(root: Path, name: str) -> Iterator[BinaryIO]:
    """A file to write in the block; it then replaces another, whole or not at all.

    For content too large to be held as bytes; `root` and `name` are as for `replace_file`. Raises
    MissingError, DataError: as `replace_file`.
    """
    with _at(root, name) as (place, file):
        temporary = _temporary()
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE
            handle = os.open(place.at(temporary), flags, 0o666, dir_fd=place.handle)
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(handle)
            _renamed(place, temporary, file)
        except BaseException:
            _drop(place, temporary)
            raise


@contextlib.contextmanager
def new_folder(root: Path, name: str) -> Iterator[Path]:
    """Yield a folder to fill in the block, which then gets its name: whole or not at all.

    The next writer beside it removes a killed writer's remains. `root` and `name` are as for
    `replace_file`; the folder must not exist.

    Raises:
        UsageError: it exists.
        MissingError, DataError: as `replace_file`.
    """
    with _at(root, name) as (place, file):
        taken = UsageError(
            f"{root / name} already exists", "Nothing was overwritten; choose another name."
        )
        if place.status(file) is not None:
            raise taken
        temporary = _temporary()
        os.mkdir(place.at(temporary), dir_fd=place.handle)
        try:
            yield place.path / temporary
            if place.status(file) is not None:
                raise taken
            _renamed(place, temporary, file)
        finally:
            _drop(place, temporary)


def create_files(root: Path, files: Mapping[str, bytes]) -> None:
    """Write files that must not exist yet: all of them whole, or none.

    Raises:
        UsageError: one of them exists.
        MissingError, DataError: as `replace_file`.
    """
    made: list[str] = []
    try:
        for name, data in files.items():
            _created(root, name, data)
            made.append(name)
    except BaseException:
        for done in made:
            remove_file(root, done)
        _prune(root, name.split("/")[:-1])
        raise


def _created(root: Path, name: str, data: bytes) -> None:
    with _at(root, name) as (place, file):
        taken = UsageError(
            f"{root / name} already exists", "Nothing was overwritten; choose another name."
        )
        if place.status(file) is not None:
            raise taken
        temporary = _temporary()
        try:
            _written(place, temporary, data, durable=True)
            old, new = place.at(temporary), place.at(file)
            try:
                # Unlike a rename, a hard link fails if the name was taken meanwhile.
                os.link(old, new, src_dir_fd=place.handle, dst_dir_fd=place.handle)
            except FileExistsError:
                raise taken from None
            except (OSError, NotImplementedError):  # a file system without hard links
                _renamed(place, temporary, file)
        finally:
            _drop(place, temporary)


def write_files(root: Path, files: Mapping[str, bytes | None]) -> None:
    """Replace several files together; None removes one. Call under `locked`.

    All new content is on the disk before the first rename, so that a lack of space is found before
    anything is replaced. Renames follow the mapping's order. Temporary files that a killed writer
    left in the same folders are removed; under the lock they are certainly stale.

    Raises:
        MissingError: no space, or no permission; every old file is still there.
        DataError: a link on the way, or a name that leads out of `root`.
    """
    with contextlib.ExitStack() as held:
        places: dict[str, Opened] = {}
        targets = {}
        for name in files:
            home, _, file = name.rpartition("/")
            if home not in places:
                places[home] = held.enter_context(_at(root, name))[0]
                _tidy(places[home])
            targets[name] = places[home], parts_of(root, name)[-1]
        written: dict[str, str] = {}
        name = ""
        try:
            for name, data in files.items():
                if data is not None:
                    place = targets[name][0]
                    written[name] = _temporary()
                    _written(place, written[name], data, durable=True)
            for name, data in files.items():
                place, file = targets[name]
                if data is None:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(place.at(file), dir_fd=place.handle)
            for name, temporary in written.items():
                place, file = targets[name]
                _renamed(place, temporary, file)
            for place in places.values():
                _sync_folder(place)
        except OSError as error:
            for each, temporary in written.items():
                _drop(targets[each][0], temporary)
            raise refused(root / name, error) from error


def remove_file(root: Path, name: str) -> None:
    """Remove a file, and the folders below `root` that it leaves empty.

    A missing file is not an error: another process may have removed it meanwhile.

    Raises:
        MissingError: no permission.
        DataError: a link on the way, or a name that leads out of `root`.
    """
    parts = parts_of(root, name)
    try:
        with folder(root, parts[:-1]) as place:
            os.unlink(place.at(parts[-1]), dir_fd=place.handle)
    except FileNotFoundError:
        return
    except OSError as error:
        raise refused(root / name, error) from error
    _prune(root, parts[:-1])


def _prune(root: Path, parts: list[str]) -> None:
    """Remove a folder below `root`, and those above it, as long as they are empty."""
    for depth in range(len(parts), 0, -1):
        try:
            with folder(root, parts[: depth - 1]) as place:
                os.rmdir(place.at(parts[depth - 1]), dir_fd=place.handle)
        except OSError:
            return  # not empty: the usual case


def clear_folder(root: Path, name: str, *, keep: str = "") -> None:
    """Make the folder `name` below `root`, and remove all its entries.

    `root` and `name` are as for `replace_file`; the entry `keep` stays.

    Raises:
        DataError: a link on the way; links inside are removed, not followed.
        OSError: it cannot be made or cleared.
    """
    with folder(root, parts_of(root, name), create=True) as place:
        for entry in place.names():
            if entry == keep:
                continue
            status = place.status(entry)
            if status is not None and stat.S_ISDIR(status.st_mode):
                _remove_tree(place.at(entry), place.handle)
            elif status is not None:
                os.unlink(place.at(entry), dir_fd=place.handle)


def _remove_tree(path: str, handle: int | None = None) -> None:
    import shutil  # slow to load, and needed only here

    shutil.rmtree(path, dir_fd=handle)


def tidy_folder(root: Path, name: str = "") -> None:
    """Remove files that killed writers left half-written in a folder; call under its lock."""
    with contextlib.suppress(OSError), folder(root, parts_of(root, name) if name else []) as place:
        _tidy(place)


def open_locked(place: Opened, name: str) -> int:
    """Open (or make) a small file of a folder for reading and writing, such as a lock.

    Raises:
        DataError: it is a link, or not a regular file of its own.
        OSError: it cannot be opened.
    """
    try:
        handle = os.open(place.at(name), os.O_RDWR | os.O_CREAT | FILE, 0o666, dir_fd=place.handle)
    except OSError as error:
        status = place.status(name)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise linked(place.path / name, status) from error
        raise
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(handle)
        raise linked(place.path / name, status)
    return handle


@contextlib.contextmanager
def _at(root: Path, name: str) -> Iterator[tuple[Opened, str]]:
    """The folder of a file, made if it is missing, and the file's name in it."""
    parts = parts_of(root, name)
    try:
        with folder(root, parts[:-1], create=True) as place:
            _tidy_once(place)
            yield place, parts[-1]
    except OSError as error:
        raise refused(root / name, error) from error


def _temporary() -> str:
    return f"{_BEFORE}{_host()}-{os.getpid()}-{os.urandom(8).hex()}{_AFTER}"


def _host() -> str:
    """Return a mark of this host or container, eight hexadecimal digits that hide its name."""
    import socket  # commands that only read do not pay for it

    words = socket.gethostname()
    with contextlib.suppress(OSError):
        words += os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    return f"{zlib.crc32(words.encode()):08x}"


def _is_gone(pid: str) -> bool:
    """Test whether this host has no process of that number; False for other hosts."""
    if os.name == "nt" or not pid.isdecimal() or len(pid) > 9:
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def _tidy_once(place: Opened) -> None:
    """Remove half-written files of processes that no longer run; once per process and folder."""
    with contextlib.suppress(OSError):
        status = os.stat(place.path if place.handle is None else place.handle)  # noqa: PTH116
        if (known := (status.st_dev, status.st_ino)) in _tidied:
            return
        _tidied.add(known)
        for name in filter(is_temporary, place.names()):
            host, _, rest = name.removeprefix(_BEFORE).partition("-")
            if host == _host() and _is_gone(rest.partition("-")[0]):
                _drop(place, name)


@contextlib.contextmanager
def private_folder() -> Iterator[str]:
    """A fresh temporary folder that no other user may enter, removed at the end of the block.

    The first call in a process removes those that our killed processes left: folders of this
    user whose names give this host and a process that no longer runs. Raises OSError: no folder for
    temporary files is writable.
    """
    import tempfile  # code without temporary folders does not pay for it

    place = Path(tempfile.gettempdir())
    with contextlib.suppress(OSError):
        status = place.stat()
        if (known := (status.st_dev, status.st_ino)) not in _left_by_killed:
            _left_by_killed.add(known)
            _tidy_private(place)
    with tempfile.TemporaryDirectory(prefix=f"{_PRIVATE}{_host()}-{os.getpid()}-") as made:
        yield made


def _tidy_private(place: Path) -> None:
    before = f"{_PRIVATE}{_host()}-"
    with os.scandir(place) as entries:
        for entry in entries:
            if not entry.name.startswith(before):
                continue
            if _is_gone(entry.name.removeprefix(before).partition("-")[0]):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    with contextlib.suppress(OSError):
                        _remove_tree(entry.path)


def _written(
    place: Opened, name: str, data: bytes, *, durable: bool, like: os.stat_result | None = None
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE
    handle = os.open(place.at(name), flags, 0o666, dir_fd=place.handle)
    try:
        if like is not None and stat.S_ISREG(like.st_mode) and os.chmod in os.supports_fd:
            os.chmod(handle, like.st_mode & 0o777)  # noqa: PTH101 - no path holds a handle
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)


def _renamed(place: Opened, old: str, new: str) -> None:
    os.replace(place.at(old), place.at(new), src_dir_fd=place.handle, dst_dir_fd=place.handle)


def _drop(place: Opened, name: str) -> None:
    with contextlib.suppress(OSError):
        status = place.status(name)
        if status is not None and stat.S_ISDIR(status.st_mode):
            _remove_tree(place.at(name), place.handle)
        elif status is not None:
            os.unlink(place.at(name), dir_fd=place.handle)


def _tidy(place: Opened) -> None:
    """Remove half-written files, unless a writer on another host may still write them.

    Not every network file system enforces our lock on other hosts.
    """
    for name in filter(is_temporary, place.names()):
        marked = name.removeprefix(_BEFORE).partition("-")
        status = place.status(name) if marked[1] and marked[0] != _host() else None
        if status is None or status.st_mtime < time.time() - _FORGOTTEN_S:
            _drop(place, name)


def _sync_folder(place: Opened) -> None:
    # Without this the rename itself may be lost in a power cut. Some network file
    # systems refuse to sync a folder; the file's content is safe there all the same.
    if place.handle is not None:
        with contextlib.suppress(OSError):
            os.fsync(place.handle)
