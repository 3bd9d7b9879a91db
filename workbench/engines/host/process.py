"""Running another program so that nothing of it outlives us.

ncu starts helpers and the application, the application may start more. All of them
share the session that we give the first one, so ending the group ends them all: on a
time limit, on Ctrl-C, on SIGTERM to us, after a normal end, and where we are killed.
"""

from __future__ import annotations

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
from workbench.processes.ending import end_group, guarded, members

#: Lines of output that are kept: the last ones, which hold the error.
KEPT_LINES = 4000


class Finished(Record, frozen=True):
    """How a program ended. `code` is negative for a signal, as in `subprocess`."""

    code: int
    output: str
    timed_out: bool
    seconds: float


class HaltedError(Exception):
    """A program was ended because its `Halt` said so."""


class Halt:
    """Ends programs that other threads wait for, which no signal reaches."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self.said = False

    def fileno(self) -> int:
        """What can be polled: it hangs up when the word comes."""
        return self._reading

    def say(self) -> None:
        """End them: every `run_group` with this stop raises `HaltedError`."""
        if not self.said:
            self.said = True
            os.close(self._writing)

    def close(self) -> None:
        """Give the handles back, after nobody waits any more."""
        self.say()
        os.close(self._reading)


class Interrupts:
    """Lets SIGTERM and SIGHUP unwind the stack as Ctrl-C does, so that children end.

    Held back until `release`: a signal between the child's start and the moment we hold
    its handle would otherwise leave it behind.
    """

    def __init__(self) -> None:
        self._held = True
        self._pending = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
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


def _wait(
    process: subprocess.Popen[bytes], timeout_s: float | None, stop: Halt | None = None
) -> None:
    """Wait for the end of a process, or for the word to stop.

    `Popen.wait` with a time limit looks every 50 ms; the kernel can wake us (pidfd,
    Linux 5.3 and later).

    Raises:
        subprocess.TimeoutExpired: it still runs.
        HaltedError: so does it then.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        process.wait(timeout_s)
        return
    try:
        watch = select.poll()
        watch.register(handle, select.POLLIN)
        if stop is not None:
            watch.register(stop, select.POLLIN)
        ended = watch.poll(None if timeout_s is None else 1e3 * timeout_s)
    finally:
        os.close(handle)
    if stop is not None and stop.said:
        raise HaltedError
    if not ended:
        raise subprocess.TimeoutExpired(process.args, timeout_s or 0.0)
    process.wait()


def _wait_while_moving(
    process: subprocess.Popen[bytes],
    timeout_s: float | None,
    moved: Callable[[], float] | None,
    stop: Halt | None,
) -> None:
    """Wait for the end; the time limit begins anew with every sign of progress.

    Raises:
        subprocess.TimeoutExpired: it still runs, and `timeout_s` passed without progress.
        HaltedError: it still runs, and `stop` has said so.
    """
    if timeout_s is None or moved is None:
        _wait(process, timeout_s, stop)
        return
    begin = time.monotonic()
    while True:
        left = max(begin, moved()) + timeout_s - time.monotonic()
        try:
            _wait(process, max(0.0, left), stop)
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
    stop: Halt | None = None,
) -> Finished:
    """Run a program in a session of its own and wait for it.

    Args:
        argv: Program and arguments.
        cwd: Its working folder.
        timeout_s: End the whole group after this many seconds; None: never.
        moved: When it last made progress, by `time.monotonic`; `timeout_s` counts from there.
        env: Its environment; None: ours.
        on_line: Called with every line that it prints, as it comes.
        stop: Ends it from another thread.

    Raises:
        MissingError: the program cannot be started.
        HaltedError: it was stopped.
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
    with guarded() as guard, Interrupts() as interrupts:
        process = _start(argv, cwd, {**(os.environ if env is None else env), **guard.mark})
        guard.tell(process.pid)
        try:
            interrupts.release()
            reader = threading.Thread(target=pump, args=(process.stdout,), daemon=True)
            reader.start()
            _wait_while_moving(process, timeout_s, moved, stop)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            interrupts.hold()
            # After a normal end too: the leader may be gone while a helper lingers.
            if timed_out or process.poll() is None or members(process.pid):
                end_group(process.pid, process.poll)
                process.wait()
        # A stranger may still hold the pipe; it must not hold us.
        reader.join(timeout=2.0)
    return Finished(
        code=process.returncode,
        output="\n".join(lines),
        timed_out=timed_out,
        seconds=time.monotonic() - begin,
    )


def _start(argv: Sequence[str], cwd: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=env,
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
