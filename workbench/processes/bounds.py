"""Bound the time of work by a deadline that is passed along, and its memory by a limit.

A child is ended at its `Deadline`. An alarm interrupts our own work (`Deadline.kept`) as Ctrl-C
would, even a study's own function.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from workbench.processes import OverError

if sys.platform == "linux":
    import resource  # Windows has none


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time at which work is stopped.

    `seconds` bounds each piece of work; `end`, by `time.monotonic`, bounds all of it; None: no end.
    """

    seconds: float = 300.0
    end: float | None = None

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """A deadline for all work, this many seconds from now."""
        return cls(seconds, time.monotonic() + seconds)

    def begun(self) -> Deadline:
        """The deadline of a piece of work that begins now."""
        return Deadline(self.seconds, time.monotonic() + self.left())

    def left(self, since: float | None = None) -> float:
        """Seconds left for a piece of work that began at `since` (`time.monotonic`; None: now)."""
        now = time.monotonic()
        piece = (now if since is None else since) + self.seconds
        return max(0.0, min(piece, math.inf if self.end is None else self.end) - now)

    @property
    def over(self) -> bool:
        """True if no time is left for all of it."""
        return self.end is not None and time.monotonic() >= self.end

    def __str__(self) -> str:
        return f"{self.seconds:g} s"

    @contextlib.contextmanager
    def kept(self, error: Callable[[], BaseException], last_words_s: float = 0.0) -> Iterator[None]:
        """Raise `error` in the block, whatever it is doing, once its time is over.

        Works in the main thread only; a running call of a C library is not interrupted. The alarm
        comes `last_words_s` late, so that code that notices the end of time itself comes first.
        """
        if threading.current_thread() is not threading.main_thread() or not _SIGNAL:
            yield
            return
        wait = max(self.left() + last_words_s, 1e-3)  # a timer of 0 never rings
        alarm = _Alarm(time.monotonic() + wait)
        timer = threading.Timer(wait, _ring)
        timer.daemon = True
        before = signal.signal(_SIGNAL, lambda *_signal: overdue())
        _ALARMS.append(alarm)
        timer.start()
        try:
            with _continued(wait) if sys.platform == "linux" else contextlib.nullcontext():
                yield
        except OverError as over:
            if over.alarm is not alarm:
                raise
            raise error() from None
        finally:
            _ALARMS.remove(alarm)
            timer.cancel()
            signal.signal(_SIGNAL, before)


#: A clock may ring this much too early.
_EARLY_S = 0.05
#: The timer repeats, so a process that stops itself again also continues again.
_AGAIN_NS = 100_000_000
#: The signal that means "your time is over", and nothing else.
_SIGNAL = getattr(signal, "SIGXCPU", None)


@dataclass(frozen=True, eq=False)
class _Alarm:
    at: float


#: The deadlines of the active blocks, the outermost first.
_ALARMS: list[_Alarm] = []


@contextlib.contextmanager
def _continued(after_s: float) -> Iterator[None]:
    """Resume this process if it is stopped after this time; ring before it can stop again."""
    libc, made = ctypes.CDLL(None), list[ctypes.c_void_p]()
    at = int(after_s), int(after_s % 1 * 1e9)
    try:
        for number, again_ns in ((_SIGNAL, 0), (signal.SIGCONT, _AGAIN_NS)):
            timer = ctypes.c_void_p()
            # A sigevent has a value, a signal and SIGEV_SIGNAL; an itimerspec: interval, start.
            event = struct.pack("Pii48x", 0, number, 0)
            if libc.timer_create(time.CLOCK_MONOTONIC, event, ctypes.byref(timer)) == 0:
                libc.timer_settime(timer, 0, struct.pack("4l", 0, again_ns, *at), None)
                made.append(timer)
        yield
    finally:
        for timer in made:
            libc.timer_delete(timer)


def _ring() -> None:
    main = threading.main_thread().ident
    if _ALARMS and _SIGNAL and main is not None:
        signal.pthread_kill(main, _SIGNAL)  # this also interrupts waiting calls


def overdue() -> None:
    """Interrupt the outermost block whose time is over, if there is one."""
    for alarm in _ALARMS:
        if alarm.at <= time.monotonic() + _EARLY_S:
            raise OverError(alarm)


@contextlib.contextmanager
def within_memory(size: int) -> Iterator[None]:
    """Let this process allocate at most this many more bytes; beyond that, raise `MemoryError`.

    Children forked in the block inherit the limit. Memory that processes share is not counted: see
    `sharing`.
    """
    if sys.platform != "linux":
        yield
        return
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    with _data_limit(pages * resource.getpagesize() + size):
        yield


@contextlib.contextmanager
def sharing(size: int) -> Iterator[None]:
    """Count bytes that processes share towards the limit of `within_memory`."""
    if sys.platform != "linux":
        yield
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    with _data_limit(soft - size if soft != resource.RLIM_INFINITY else soft):
        yield


@contextlib.contextmanager
def _data_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [each for each in (size, soft, hard) if each != resource.RLIM_INFINITY]
    if limits:
        resource.setrlimit(resource.RLIMIT_DATA, (max(0, min(limits)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
