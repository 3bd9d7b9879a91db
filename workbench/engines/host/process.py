"""Running another program so that nothing of it outlives us.

ncu starts helpers and the application, the application may start more. All of them
share the session that we give the first one, so ending the group ends them all: on a
time limit, on Ctrl-C, on SIGTERM to us, and after a normal end as well.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

from workbench.errors import MissingError
from workbench.model import Record

#: Lines of output that are kept: the last ones, which hold the error.
KEPT_LINES = 4000
#: Seconds between SIGTERM and SIGKILL: ncu needs a few to let go of the driver.
GRACE_S = 5.0
_POLL_S = 0.02


class Finished(Record, frozen=True):
    """How a program ended. `code` is negative for a signal, as in `subprocess`."""

    code: int
    output: str
    timed_out: bool
    seconds: float


def _members(group: int) -> list[int]:
    """Processes of a group that still run; zombies only wait to be reaped."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return []  # what nearly always holds, without a walk through /proc
    except PermissionError:
        pass
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        # The command name stands in parentheses and may itself hold some.
        state, _parent, group_of, *_rest = text.rpartition(")")[2].split()
        if int(group_of) == group and state not in ("Z", "X"):
            found.append(int(stat.parent.name))
    return found


def _descendants(root: int) -> set[tuple[int, str]]:
    """(pid, start time) of all children of a process, and of theirs."""
    children: dict[int, list[tuple[int, str]]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        # Field 4 of proc(5) is the parent, field 22 the start time; two are cut off here.
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
    """Start time of a process that runs; empty where it is gone or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process, its group, and children that left the group.

    SIGTERM first, so that ncu can detach from the driver; SIGKILL after the grace.
    """
    group = process.pid  # it leads the session that it was started in
    strangers = _descendants(group)
    _signal_group(group, signal.SIGTERM)
    end = time.monotonic() + GRACE_S
    while time.monotonic() < end:
        process.poll()  # reap it, or it would count as running
        if not _members(group):
            break
        time.sleep(_POLL_S)
    _signal_group(group, signal.SIGKILL)
    for pid, start in strangers:
        if _started(pid) == start:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    process.wait()
    # A process in the kernel's hands (the driver's, often) dies a moment later.
    end = time.monotonic() + GRACE_S
    while time.monotonic() < end and (
        _members(group) or any(_started(pid) == start for pid, start in strangers)
    ):
        time.sleep(_POLL_S)


class _Interrupts:
    """Lets SIGTERM and SIGHUP unwind the stack as Ctrl-C does, so that children end.

    Held back until `release`: a signal between the child's start and the moment we hold
    its handle would otherwise leave it behind.
    """

    def __init__(self) -> None:
        self._held = True
        self._pending = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                # What the user chose to ignore (nohup) stays ignored.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None:
            self.release()

    def hold(self) -> None:
        """Put signals off: a second Ctrl-C must not break off the ending of children."""
        self._held = True

    def _caught(self, number: int, _frame: FrameType | None) -> None:
        self._pending = number
        if not self._held:
            self.release()

    def release(self) -> None:
        """Raise for the signal that came meanwhile, and from now on at once."""
        self._held = False
        number, self._pending = self._pending, 0
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number:
            raise SystemExit(128 + number)


def _wait(process: subprocess.Popen[bytes], timeout_s: float | None) -> None:
    """Wait for the end of a process.

    `Popen.wait` with a time limit looks every 50 ms; the kernel can wake us (pidfd,
    Linux 5.3 and later).

    Raises:
        subprocess.TimeoutExpired: it still runs.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        process.wait(timeout_s)
        return
    try:
        watch = select.poll()
        watch.register(handle, select.POLLIN)
        ended = watch.poll(None if timeout_s is None else 1e3 * timeout_s)
    finally:
        os.close(handle)
    if not ended:
        raise subprocess.TimeoutExpired(process.args, timeout_s or 0.0)
    process.wait()


def _wait_while_moving(
    process: subprocess.Popen[bytes], timeout_s: float | None, moved: Callable[[], float] | None
) -> None:
    """Wait for the end; the time limit begins anew with every sign of progress.

    Raises:
        subprocess.TimeoutExpired: it still runs, and `timeout_s` passed without progress.
    """
    if timeout_s is None or moved is None:
        _wait(process, timeout_s)
        return
    begin = time.monotonic()
    while True:
        left = max(begin, moved()) + timeout_s - time.monotonic()
        try:
            _wait(process, max(0.0, left))
        except subprocess.TimeoutExpired:
            if max(begin, moved()) + timeout_s <= time.monotonic():
                raise
        else:
            return


def run_group(
    argv: Sequence[str],
    *,
    cwd: Path,
    timeout_s: float | None = None,
    moved: Callable[[], float] | None = None,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    """Run a program in a session of its own and wait for it.

    Args:
        argv: Program and arguments.
        cwd: Its working folder.
        timeout_s: End the whole group after this many seconds; None: never.
        moved: When it last made progress, by `time.monotonic`; `timeout_s` counts from there.
        env: Its environment; None: ours.
        on_line: Called with every line that it prints, as it comes.

    Raises:
        MissingError: the program cannot be started.
    """
    begin = time.monotonic()
    lines: deque[str] = deque(maxlen=KEPT_LINES)

    def pump(stream: IO[bytes]) -> None:
        for raw in stream:
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            lines.append(line)
            if on_line is not None:
                on_line(line)

    timed_out = False
    # Before the program starts: a signal right after must already end it.
    with _Interrupts() as interrupts:
        process = _start(argv, cwd, env)
        try:
            interrupts.release()
            reader = threading.Thread(target=pump, args=(process.stdout,), daemon=True)
            reader.start()
            _wait_while_moving(process, timeout_s, moved)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            interrupts.hold()
            # After a normal end too: the leader may be gone while a helper lingers.
            if timed_out or process.poll() is None or _members(process.pid):
                end_group(process)
        # A stranger may still hold the pipe; it must not hold us.
        reader.join(timeout=2.0)
    return Finished(
        code=process.returncode,
        output="\n".join(lines),
        timed_out=timed_out,
        seconds=time.monotonic() - begin,
    )


def _start(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env) if env is not None else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise MissingError(
            f"{argv[0]} cannot be started: {error.strerror or error}",
            "Check that it is installed and on PATH.",
        ) from error
