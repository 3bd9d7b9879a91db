"""End a program and all its children; run as a program, the guard that does so after our end.

The guard waits at the end of a pipe whose other end we hold. If we are killed, the kernel closes
our end, and the guard ends the group whose id it was given. It runs without ``site-packages``, so
that it starts within a few milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

if __name__ != "__main__":  # run as a program, this has no packages
    from workbench.processes.starting import own_file

#: Seconds between SIGTERM and SIGKILL: ncu needs a few to detach from the driver.
GRACE_S = 5.0
_POLL_S = 0.02
_MARK = "WORKBENCH_GUARDED"


def members(group: int) -> list[int]:
    """Processes of a group that still run; zombies only wait to be reaped."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return []  # the usual case, without a walk through /proc
    except PermissionError:
        pass
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        # The command name is in parentheses and may itself contain parentheses.
        state, _parent, group_of, *_rest = text.rpartition(")")[2].split()
        if int(group_of) == group and state not in ("Z", "X"):
            found.append(int(stat.parent.name))
    return found


def _descendants(root: int) -> set[tuple[int, str]]:
    """(pid, start time) of all descendants of a process."""
    children: dict[int, list[tuple[int, str]]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        # Field 4 of proc(5) is the parent, field 22 the start time; the first two are cut off here.
        children.setdefault(int(fields[1]), []).append((int(stat.parent.name), fields[19]))
    found: set[tuple[int, str]] = set()
    queue = [root]
    while queue:
        for child in children.get(queue.pop(), []):
            if child not in found:
                found.add(child)
                queue.append(child[0])
    return found


def _started(pid: int) -> str:
    """Start time of a running process; empty if it is gone or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def end_group(group: int, reap: Callable[[], object] = lambda: None) -> None:
    """End the leader of a group, its group, and children that left the group.

    SIGTERM first, so that ncu can detach from the driver; SIGKILL after the grace. `group` is the
    pid of its leader, which also leads its session. `reap` is called while waiting: an ended child
    of ours counts as running until then.
    """
    strangers = _descendants(group)
    _signal_group(group, signal.SIGTERM)
    end = time.monotonic() + GRACE_S
    while time.monotonic() < end:
        reap()
        if not members(group):
            break
        time.sleep(_POLL_S)
    _signal_group(group, signal.SIGKILL)
    for pid, start in strangers:
        if _started(pid) == start:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    # A process in a kernel call (often the driver's) dies a moment later.
    end = time.monotonic() + GRACE_S
    while time.monotonic() < end and (
        members(group) or any(_started(pid) == start for pid, start in strangers)
    ):
        reap()
        time.sleep(_POLL_S)


class Guard(NamedTuple):
    """Guards a program.

    `tell` is called with its pid, once that is known. `mark` is put into its environment, and
    identifies it if we were killed before.
    """

    tell: Callable[[int], None]
    mark: dict[str, str]


@contextlib.contextmanager
def guarded() -> Iterator[Guard]:
    """End a program that is started in the block even if we are killed; it leads its own group."""
    mark = {_MARK: os.urandom(8).hex()}
    reading, writing = os.pipe()
    try:
        # The guard starts before its program, so that telling it the pid later takes no time.
        start = own_file(__file__, mark[_MARK])
        guard = subprocess.Popen(
            start.argv,
            cwd=start.cwd,
            # An outer guard, which ends our children, must spare our guards: they end theirs.
            env={name: value for name, value in start.env.items() if name != _MARK},
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        os.close(writing)
        yield Guard(
            lambda _pid: None, mark
        )  # no more processes: starting the program itself reports that
        return
    finally:
        os.close(reading)

    def tell(pid: int) -> None:
        with contextlib.suppress(OSError):  # the guard was killed
            os.write(writing, f"{pid}\n".encode())

    try:
        yield Guard(tell, mark)
    finally:
        guard.kill()
        guard.wait()
        os.close(writing)


def _marked(mark: str) -> set[int]:
    """Groups of the processes whose environment has a mark."""
    wanted = f"{_MARK}={mark}".encode()
    found = set()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in environ.read_bytes().split(b"\0"):
                found.add(os.getpgid(int(environ.parent.name)))
    return found


def _end_marked(mark: str) -> None:
    """End the groups of all processes with a mark: a program whose pid is not known.

    It may be about to start, or may have ended while its children still run.
    """
    end, found = time.monotonic() + GRACE_S, False
    while time.monotonic() < end:
        groups = _marked(mark)
        if found and not groups:
            return
        for group in groups:
            end_group(group)
            found = True
        time.sleep(_POLL_S)


def _guard() -> None:
    told = sys.stdin.readline()
    group = int(told) if told.strip().isdigit() else 0
    start = _started(group) if group else ""
    sys.stdin.read()
    if not group:
        _end_marked(sys.argv[1])
    # Another process gets the number only after the leader and its whole group are gone.
    elif _started(group) in ("", start):
        end_group(group)


if __name__ == "__main__":
    _guard()
