"""Running a user's own program as a shell would: its streams, its terminal, its signals.

Nothing of what it reads or prints passes through us, but a pipe as standard input, which is
remembered so that the program can be run again. It gets a process group of its own, so that
all of it can be ended; on a terminal that group is the one in the foreground, so that Ctrl-C,
Ctrl-Z and reading from the terminal work as they do without us.
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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from workbench.engines.host.process import Interrupts
from workbench.errors import MissingError
from workbench.model import Record
from workbench.processes.ending import GRACE_S, end_group, guarded, members

_LOOK_S = 0.05
_CHUNK = 1 << 16


class Ended(Record, frozen=True):
    """How a program ended. `code` is negative for a signal; `seconds` are of its wall time."""

    code: int
    seconds: float
    timed_out: bool = False

    @property
    def exit_code(self) -> int:
        """As a shell gives it: 128 and the signal's number where a signal ended it."""
        return 128 - self.code if self.code < 0 else self.code


class Input:
    """Our standard input, for every run of the program the same. Use as a context manager.

    A file is read again from where it stood. What comes out of a pipe is handed on as it comes
    and remembered; later runs read what was remembered. A terminal cannot be read twice.
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
            self._kept.close()  # else a feeder that waits for our own input still has it

    @contextlib.contextmanager
    def opened(self) -> Iterator[int | None]:
        """What a run is given as standard input: a descriptor, or None for our own."""
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
    """Our terminal, lent to a program while that runs; nothing where we have none."""

    def __init__(self) -> None:
        self.lent = False
        self._before: object = None
        with contextlib.suppress(OSError):
            self.lent = os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()

    def lend(self, group: int) -> None:
        """Let `group` read from the terminal, and get its signals."""
        if not self.lent:
            return
        if self._before is None:
            # Whoever stands behind may not touch the terminal, but we must, to take it back.
            self._before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with contextlib.suppress(OSError):
            os.tcsetpgrp(0, group)
            os.killpg(group, signal.SIGCONT)  # it may have asked before it was allowed to

    def take_back(self) -> None:
        """Stand in the foreground ourselves again."""
        if self.lent:
            with contextlib.suppress(OSError):
                os.tcsetpgrp(0, os.getpgrp())

    def close(self) -> None:
        """Take it back for good."""
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
) -> Ended:
    """Run a program with our own streams and wait for it.

    Args:
        argv: Program and arguments.
        given: What it reads.
        cwd: Its working folder.
        env: Its environment.
        timeout_s: End all of it after this many seconds; None: never.

    Raises:
        MissingError: the program cannot be started.
        KeyboardInterrupt: Ctrl-C ended it, or us; nothing of it is left.
    """
    terminal = _Foreground()
    with guarded() as guard, Interrupts() as interrupts, given.opened() as reading:
        begin = time.monotonic()
        try:
            process = subprocess.Popen(
                list(argv), stdin=reading, cwd=cwd, env={**env, **guard.mark}, process_group=0
            )
        except OSError as error:
            raise MissingError(
                f"{argv[0]} cannot be started: {error.strerror or error}",
                "Write the command behind -- as you would without workbench.",
            ) from error
        guard.tell(process.pid)
        timed_out = False
        try:
            terminal.lend(process.pid)
            interrupts.release()
            timed_out = not _waited(process, terminal, timeout_s)
        except KeyboardInterrupt:
            interrupts.hold()
            # As from the terminal: it may want to leave in an orderly way.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            raise
        finally:
            interrupts.hold()
            if timed_out or process.poll() is None or members(process.pid):
                end_group(process.pid, process.poll)
                process.wait()
            terminal.close()
    if process.returncode == -signal.SIGINT:
        raise KeyboardInterrupt
    return Ended(code=process.returncode, seconds=time.monotonic() - begin, timed_out=timed_out)


def _waited(
    process: subprocess.Popen[bytes], terminal: _Foreground, timeout_s: float | None
) -> bool:
    """Wait for the end; whether it came in time. Where it is stopped (Ctrl-Z), we are too."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    with contextlib.ExitStack() as held:
        watch = select.poll()
        with contextlib.suppress(AttributeError, OSError):  # not before Linux 5.3
            handle = os.pidfd_open(process.pid)
            held.callback(os.close, handle)
            watch.register(handle, select.POLLIN)
        while not watch.poll(1e3 * _LOOK_S) and process.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                return False
            if terminal.lent and _stopped(process.pid):
                terminal.take_back()
                os.kill(os.getpid(), signal.SIGSTOP)
                terminal.lend(process.pid)
    process.wait()
    return True


def _stopped(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        flags = os.WSTOPPED | os.WNOHANG
        return os.waitid(os.P_PID, pid, flags) is not None
    return False
