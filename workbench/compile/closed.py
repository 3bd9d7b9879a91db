"""Restrict the files that a compiler can open for a program's request, by means of Linux.

An include has a dozen spellings, and more than one pass of a compiler reads directives: nvcc's
front end acts on those that the preprocessor made from macros, and its own list of dependencies
(``-M``) does not name them. All of them open a file in the end. So the compiler runs under a
restriction (Landlock, since Linux 5.13): it can open only files of the toolkit and the system, the
folders that its user's own variables name, and the copies of the sources in a folder of its own. A
message cannot quote an unreadable file.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from workbench.errors import MissingError

T = TypeVar("T")

# The system calls have these numbers on every Linux that runs a CUDA toolkit.
_CREATE, _ADD, _RESTRICT, _NO_NEW_PRIVILEGES = 444, 445, 446, 38
_RUN, _WRITE, _READ, _LIST = 1, 2, 4, 8
#: All rights of Landlock's first version; every later version knows them too.
_ALL = (1 << 13) - 1
#: The system's folders: a compiler needs their shared libraries, headers and a shell.
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"),
    *("/nix/store", "/gnu/store", "/etc/alternatives", "/etc/ld.so.cache"),
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_HOST_COMPILERS = ("g++", "gcc", "c++", "cc", "clang++")
#: Variables in which a user names folders of headers and libraries, or the toolkit.
_NAMED = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LD_LIBRARY_PATH"),
    *("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"),
)
_FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")


def reach(root: Path, *more: Path) -> tuple[str, ...]:
    """Return the folders and files that a compiler may read.

    `root` is the project's root, of whose files it sees only copies; `more` is its own folder.
    """
    # The user, not a file in the project, sets folders of headers in the environment.
    named = [each for name in _NAMED for each in os.environ.get(name, "").split(os.pathsep)]
    for flag in " ".join(os.environ.get(name, "") for name in _FLAGS).replace("=", " ").split():
        named.append(flag.removeprefix("-I"))
    hosts = [Path(found) for name in _HOST_COMPILERS if (found := shutil.which(name))]
    wanted = [
        *(each for each in map(Path, named) if each.is_absolute()),
        *(each.resolve().parent.parent for each in hosts),
        *more,
    ]
    hidden = [root.resolve(), Path(os.path.expanduser("~")).resolve(), Path("/")]  # noqa: PTH111
    own = [each for path in wanted if not _holds(each := path.resolve(), hidden)]
    system = [each for path in _SYSTEM for each in _around(Path(path), hidden)]
    return tuple(dict.fromkeys(map(str, [*own, *system])))


def _holds(path: Path, hidden: list[Path]) -> bool:
    return any(each.is_relative_to(path) for each in hidden)


def _around(path: Path, hidden: list[Path]) -> Iterator[Path]:
    """The path itself if no hidden files are below it, else its visible entries."""
    path = path.resolve()
    if not _holds(path, hidden):
        yield path
    elif path not in hidden and path.is_dir():
        for child in path.iterdir():
            yield from _around(child, hidden)


def required() -> None:
    """Require a system that can restrict a compiler's files; MissingError: it cannot."""
    if _call(_CREATE, None, 0, 1) < 1:
        raise MissingError(
            "this system cannot limit the files that a compiler reads (it has no Landlock)",
            "Update to Linux 5.13 or later with Landlock, or let versions include any file that "
            "you may read: workbench serve mcp --allow verify,files.",
        )


def restrict(reading: Iterable[str], writing: str) -> None:
    """Permanently restrict this thread, and all that it starts, to opening these paths.

    `reading` are folders and files that may be read and run, `writing` a folder that may also be
    written. Raises OSError: the system cannot restrict them.
    """
    ruleset = _checked(_call(_CREATE, struct.pack("=Q", _ALL), 8, 0))
    try:
        for path in reading:
            _allow(ruleset, path, _RUN | _READ | _LIST)
        for path in _DEVICES:
            _allow(ruleset, path, _READ | _WRITE)
        _allow(ruleset, writing, _ALL)
        library = ctypes.CDLL(None, use_errno=True)
        _checked(library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _checked(_call(_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a missing path cannot be read
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - it may be a device
            access &= _RUN | _READ | _WRITE
        _checked(_call(_ADD, ruleset, 1, struct.pack("=Qi", access, handle), 0))
    finally:
        os.close(handle)


def within(act: Callable[[], T], reading: Iterable[str], writing: str) -> T:
    """Run `act` so that it and its children open nothing else (`restrict`; raises OSError)."""

    def closed() -> T:
        restrict(reading, writing)
        return act()

    with ThreadPoolExecutor(1) as thread:  # only this thread is restricted, and it ends
        return thread.submit(closed).result()


def _call(number: int, *given: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "syscall"):
        return -1
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in given]
    return int(library.syscall(ctypes.c_long(number), *words))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
