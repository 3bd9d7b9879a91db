"""Run another program so that none of its processes outlives us.

ncu starts helpers and the application, the application may start more. All of them share the
session that we give the first one, so ending the group ends them all: at a time limit, on Ctrl-C,
on SIGTERM to us, after a normal end, and if we are killed.

A user's own program runs as a shell would run it (`run_foreground`): with our streams, our
terminal, our signals. Its input and output do not pass through us, except for a pipe as standard
input, which is recorded so that the program can be run again. On a terminal its process group is in
the foreground, so that Ctrl-C, Ctrl-Z and reading from the terminal work as they do without us.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

from workbench.errors import MissingError
from workbench.model import Record
from workbench.processes.bounds import Deadline, overdue
from workbench.processes.ending import GRACE_S, end_group, guarded, members

#: The number of last output lines that are kept; they hold the error.
KEPT_LINES = 4000
#: Seconds between two polls of a program in the foreground, and bytes fed to it at once.
_LOOK_S, _CHUNK = 0.05, 1 << 16


class Finished(Record, frozen=True):
    """The end of a program. `code` is negative for a signal, as in `subprocess`."""

    code: int
    output: str
    timed_out: bool
    seconds: float


class HaltedError(Exception):
    """A program was ended because its `Halt` said so."""


class Halt:
    """Ends programs that other threads wait for, because signals do not reach those threads."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self.said = False

    def fileno(self) -> int:
        """Return a descriptor to poll; it hangs up when the stop is requested."""
        return self._reading

    def say(self) -> None:
        """End the programs: every `run_group` with this stop raises `HaltedError`."""
        if not self.said:
            self.said = True
            os.close(self._writing)

    def close(self) -> None:
        """Close the handles, when no thread waits any more."""
        self.say()
        os.close(self._reading)


class Interrupts:
    """Lets SIGTERM and SIGHUP unwind the stack as Ctrl-C does, so that children end.

    Signals are delayed until `release`: a signal between the child's start and the moment we hold
    its handle would otherwise leave it running.
    """

    def __init__(self) -> None:
        self._held = True
        self._pending = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGXCPU):
                # A signal that the user ignores (nohup) stays ignored.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None:
            self.release()

    def hold(self) -> None:
        """Delay signals: a second Ctrl-C must not interrupt the ending of children."""
        self._held = True

    def _caught(self, number: int, _frame: FrameType | None) -> None:
        self._pending = number
        if not self._held:
            self.release()

    def release(self) -> None:
        """Raise for a signal that arrived meanwhile, and from now on immediately."""
        self._held = False
        number, self._pending = self._pending, 0
        if number == signal.SIGXCPU:
            overdue()
            return
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number:
            raise SystemExit(128 + number)


def _wait(
    process: subprocess.Popen[bytes], timeout_s: float | None, stop: Halt | None = None
) -> None:
    """Wait for a process to end or a request to stop (raises TimeoutExpired, HaltedError).

    `Popen.wait` with a limit polls every 50 ms; the kernel can wake us (pidfd, Linux 5.3 and
    later).
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
    limit: Deadline | None,
    moved: Callable[[], float],
    stop: Halt | None,
) -> None:
    """Wait for the end; every sign of progress restarts the time limit.

    Raises TimeoutExpired without progress in time, HaltedError on `stop`; the process runs on.
    """
    begin = time.monotonic()
    while True:
        try:
            _wait(process, None if limit is None else limit.left(max(begin, moved())), stop)
        except subprocess.TimeoutExpired:
            if limit is None or not limit.left(max(begin, moved())):
                raise
        else:
            return


def run_group(
    argv: Sequence[str],
    *,
    cwd: Path,
    limit: Deadline | None = None,
    moved: Callable[[], float] = lambda: 0.0,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    stop: Halt | None = None,
) -> Finished:
    """Run a program in its own session and wait for it.

    `limit`: when to end the whole group. `moved`: when it last made progress, by `time.monotonic`:
    the next piece of work began then. `env` None: our own. `on_line` is called with every line that
    it prints. `stop` ends it from another thread.

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
    # This precedes the start of the program: a signal right after must already end it.
    with guarded() as guard, Interrupts() as interrupts:
        process = _start(argv, cwd, {**(os.environ if env is None else env), **guard.mark})
        guard.tell(process.pid)
        try:
            interrupts.release()
            reader = threading.Thread(target=pump, args=(process.stdout,), daemon=True)
            reader.start()
            _wait_while_moving(process, limit, moved, stop)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            interrupts.hold()
            _end(process, timed_out)
        # Another process may still hold the pipe open; it must not block us.
        reader.join(timeout=2.0)
    return Finished(
        code=process.returncode,
        output="\n".join(lines),
        timed_out=timed_out,
        seconds=time.monotonic() - begin,
    )


def _end(process: subprocess.Popen[bytes], timed_out: bool) -> None:
    """End the rest of a group, after a normal end too: a helper may outlive its leader."""
    if timed_out or process.poll() is None or members(process.pid):
        end_group(process.pid, process.poll)
        process.wait()


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


class Ended(Record, frozen=True):
    """The end of a program. `code` is negative for a signal; `seconds` is wall time."""

    code: int
    seconds: float
    timed_out: bool = False

    @property
    def exit_code(self) -> int:
        """The code as a shell gives it: 128 plus the signal's number if a signal ended it."""
        return 128 - self.code if self.code < 0 else self.code


class Input:
    """Our standard input, the same for every run of the program. Use as a context manager.

    A file is read again from its first position. Data from a pipe are passed on as they arrive and
    recorded; later runs read the record. A terminal cannot be read twice.
    """

    def __init__(self) -> None:
        self._kept: IO[bytes] | None = None
        self._start: int | None = None
        self._feeder: threading.Thread | None = None

    def __enter__(self) -> Input:
        mode = os.fstat(0).st_mode
        if stat.S_ISREG(mode):
            self._start = os.lseek(0, 0, os.SEEK_CUR)
        elif stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            self._kept = tempfile.TemporaryFile()
        return self

    def __exit__(self, *_: object) -> None:
        if self._kept is not None and self._feeder is None:
            self._kept.close()  # otherwise a feeder that waits for our own input still uses it

    @contextlib.contextmanager
    def opened(self) -> Iterator[int | None]:
        """Yield a descriptor as a run's standard input, or None for our own."""
        if self._start is not None:
            os.lseek(0, self._start, os.SEEK_SET)
        if self._kept is None:
            yield None
            return
        if self._feeder is None:
            reading, writing = os.pipe()
            self._feeder = threading.Thread(
                target=self._feed, args=(self._kept, writing), daemon=True
            )
            self._feeder.start()
        else:
            reading = os.open(f"/proc/self/fd/{self._kept.fileno()}", os.O_RDONLY)
        try:
            yield reading
        finally:
            os.close(reading)

    @staticmethod
    def _feed(kept: IO[bytes], writing: int) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(0, _CHUNK):
                kept.write(data)
                kept.flush()
                with contextlib.suppress(BrokenPipeError):
                    rest = memoryview(data)
                    while rest:
                        rest = rest[os.write(writing, rest) :]
        os.close(writing)


class _Foreground:
    """Our terminal, lent to a program while it runs; does nothing if we have none."""

    def __init__(self) -> None:
        self.lent = False
        self._before: object = None
        with contextlib.suppress(OSError):
            self.lent = os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()

    def lend(self, group: int) -> None:
        """Let `group` read from the terminal and get its signals."""
        if not self.lent:
            return
        if self._before is None:
            # A background process may not control the terminal, but we must, to take it back.
            self._before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with contextlib.suppress(OSError):
            os.tcsetpgrp(0, group)
            os.killpg(group, signal.SIGCONT)  # it may have tried to read before it was allowed to

    def take_back(self) -> None:
        """Put ourselves into the foreground again."""
        if self.lent:
            with contextlib.suppress(OSError):
                os.tcsetpgrp(0, os.getpgrp())

    def close(self) -> None:
        self.take_back()
        if self._before is not None:
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)


def run_foreground(
    argv: Sequence[str],
    given: Input,
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float | None = None,
    stdout: int | None = None,
) -> Ended:
    """Run a program with our own streams and wait for it.

    `given` is its input. `timeout_s`: end all of it after this many seconds; None: never. `stdout`
    receives its output; None: our own does.

    Raises:
        MissingError: the program cannot be started.
        KeyboardInterrupt: Ctrl-C ended it, or us; none of its processes is left.
    """
    terminal = _Foreground()
    with guarded() as guard, Interrupts() as interrupts, given.opened() as reading:
        begin = time.monotonic()
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=reading,
                stdout=stdout,
                cwd=cwd,
                env={**env, **guard.mark},
                process_group=0,
            )
        except OSError as error:
            raise MissingError(
                f"{argv[0]} cannot be started: {error.strerror or error}",
                "Write the command after -- as you would without workbench.",
            ) from error
        guard.tell(process.pid)
        timed_out = False
        try:
            terminal.lend(process.pid)
            interrupts.release()
            timed_out = not _waited(process, terminal, timeout_s)
        except KeyboardInterrupt:
            interrupts.hold()
            # As from the terminal: the program may want to end in an orderly way.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            raise
        finally:
            interrupts.hold()
            _end(process, timed_out)
            terminal.close()
    if process.returncode == -signal.SIGINT:
        raise KeyboardInterrupt
    return Ended(code=process.returncode, seconds=time.monotonic() - begin, timed_out=timed_out)


def _waited(
    process: subprocess.Popen[bytes], terminal: _Foreground, timeout_s: float | None
) -> bool:
    """Wait for the end; return if it was in time. If the program is stopped (Ctrl-Z), so are we."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        try:
            _wait(process, _LOOK_S)
        except subprocess.TimeoutExpired:
            if deadline is not None and time.monotonic() > deadline:
                return False
            if terminal.lent and _stopped(process.pid):
                terminal.take_back()
                os.kill(os.getpid(), signal.SIGSTOP)
                terminal.lend(process.pid)
        else:
            return True


def _stopped(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        flags = os.WSTOPPED | os.WNOHANG
        return os.waitid(os.P_PID, pid, flags) is not None
    return False
