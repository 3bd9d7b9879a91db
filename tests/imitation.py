"""Runs ``workbench`` as if on another system: ``python imitation.py windows "show v3"``.

What that system's Python lacks is taken out of what modules of `workbench` see of the standard
library; libraries of others see all of it, since their authors try them on those systems.
An imitation is no test on the system itself: paths stay POSIX's.
"""

from __future__ import annotations

import builtins
import errno
import importlib
import multiprocessing
import os
import signal
import subprocess  # noqa: F401 - it would take our msvcrt for Windows' own
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

#: Modules, and names of `os` and `signal`, that the system lacks.
LACKS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "windows": (
        {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "posix", "readline"},
        {
            *("fork", "forkpty", "register_at_fork", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY"),
            *("O_CLOEXEC", "O_SYNC", "setsid", "getsid", "killpg", "getpgid", "setpgid", "getuid"),
            *("geteuid", "getgid", "getegid", "getgroups", "uname", "sysconf", "mkfifo", "mknod"),
            *("chown", "lchown", "fchown", "fchmod", "chroot", "wait", "wait3", "wait4", "waitid"),
            *("WNOHANG", "sched_getaffinity", "sched_yield", "nice", "pipe2", "sendfile"),
            *("memfd_create", "pidfd_open", "getloadavg", "statvfs", "sync", "pread", "pwrite"),
        },
        {
            *(
                "SIGKILL",
                "SIGHUP",
                "SIGALRM",
                "SIGUSR1",
                "SIGUSR2",
                "SIGCHLD",
                "SIGPIPE",
                "SIGQUIT",
            ),
            *("alarm", "setitimer", "pthread_sigmask", "pthread_kill", "SIG_BLOCK", "SIG_SETMASK"),
        },
    ),
    "macos": (
        set(),
        {
            *("sched_getaffinity", "sched_setaffinity", "memfd_create", "pidfd_open", "O_TMPFILE"),
            *("copy_file_range", "posix_fadvise", "eventfd", "getrandom", "splice", "pipe2"),
        },
        {"SIGRTMIN", "SIGSTKFLT", "SIGPWR", "sigtimedwait"},
    ),
}
_NAMES = {"windows": ("nt", "win32"), "macos": ("posix", "darwin")}


class Seen(ModuleType):
    """A module of the standard library without some of its names."""

    def __init__(self, real: ModuleType, lacks: set[str], instead: dict[str, Any]) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(_real=real, _lacks=lacks, _instead=instead)

    def __getattr__(self, name: str) -> Any:
        if name in self._lacks:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} here")
        return self._instead[name] if name in self._instead else getattr(self._real, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._real, name, value)


def _of_no_folder(plain: Any) -> Any:
    """The same, which knows no ``dir_fd`` and no handle of a folder."""

    def called(*given: Any, **named: Any) -> Any:
        for name in ("dir_fd", "src_dir_fd", "dst_dir_fd"):
            if named.pop(name, None) is not None:
                raise NotImplementedError(f"{name} unavailable on this platform")
        return plain(*given, **named)

    return called


def _open_here(path: object) -> bool:
    """Whether this process holds a file open, which Windows does not remove or replace."""
    try:
        wanted = os.stat(os.fspath(path), follow_symlinks=False)  # type: ignore[call-overload]  # noqa: PTH116
    except OSError:
        return False
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            if os.path.samestat(os.fstat(int(name)), wanted):
                return True
        except OSError:
            continue
    return False


def _of_closed_files(plain: Any) -> Any:
    def called(*given: Any, **named: Any) -> Any:
        if any(isinstance(each, (str, os.PathLike)) and _open_here(each) for each in given):
            raise PermissionError(errno.EACCES, "The process cannot access the file")
        return _of_no_folder(plain)(*given, **named)

    return called


def _windows() -> dict[str, Any]:
    """What `os` has in another way."""
    out: dict[str, Any] = {"name": "nt", "supports_dir_fd": set(), "supports_fd": {os.stat}}
    for name in ("open", "stat", "mkdir", "link", "utime", "chmod"):
        out[name] = _of_no_folder(getattr(os, name))
    for name in ("unlink", "remove", "replace", "rename", "rmdir"):
        out[name] = _of_closed_files(getattr(os, name))
    return out


def _locks() -> ModuleType:
    """``msvcrt`` as far as `workbench` uses it; the region is the whole file."""
    fcntl = importlib.import_module("fcntl")
    module = ModuleType("msvcrt")

    def locking(handle: int, mode: int, size: int) -> None:
        assert (mode, size) == (2, 1)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PermissionError(errno.EACCES, "Permission denied") from error

    module.__dict__.update(locking=locking, LK_NBLCK=2)
    return module


def imitate(system: str) -> None:
    """Show everything that is imported from here on another system."""
    assert not any(name.partition(".")[0] == "workbench" for name in sys.modules)
    modules, of_os, of_signal = LACKS[system]
    name, platform = _NAMES[system]
    instead = _windows() if system == "windows" else {"name": name}
    if system == "windows":
        sys.modules["msvcrt"] = _locks()
        multiprocessing.get_all_start_methods = lambda: ["spawn"]
    seen: dict[str, ModuleType] = {
        "os": Seen(os, of_os, instead),
        "signal": Seen(signal, of_signal, {}),
        "sys": Seen(sys, set(), {"platform": platform}),
    }
    plain, load = builtins.__import__, importlib.import_module

    def lacking(name: str) -> None:
        if name.partition(".")[0] in modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def imported(name: str, *given: Any, **named: Any) -> Any:
        scope = given[0] if given else named.get("globals")
        if str((scope or {}).get("__name__", "")).partition(".")[0] == "workbench":
            lacking(name)
            if name in seen:
                return seen[name]
        return plain(name, *given, **named)

    def loaded(name: str, package: str | None = None) -> ModuleType:
        lacking(name)
        return load(name, package)

    builtins.__import__ = imported
    importlib.import_module = loaded
    # A text that is read or written without saying how would be of cp1252 there.
    warnings.filterwarnings("error", category=EncodingWarning, module="workbench")


def main() -> None:
    """Run command lines as on the system that is named first; a line that ends in .py is a file."""
    system, *lines = sys.argv[1:]
    imitate(system)
    for line in lines:
        print(f"$ {line}", flush=True)  # noqa: T201
        if line.endswith(".py"):
            text = Path(line).read_text(encoding="utf-8")
            exec(compile(text, line, "exec"), {"__name__": "workbench"})
            continue
        from workbench.cli import main as run

        code: object
        try:
            code = run(line.split())
        except SystemExit as ended:
            code = ended.code
        sys.stdout.flush()
        print(f"-> {code}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
