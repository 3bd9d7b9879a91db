"""A verdict that must arrive: code of a study may end the process that it runs in."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable

from workbench.processes.following import follow_parent

_TOLD = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def awaited(work: Callable[[], int]) -> int | None:
    """Do work in a child; return its result or exit code, or None if it gave neither."""
    if not hasattr(signal, "sigwaitinfo"):
        return work()
    sys.stdout.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_TOLD, signal.SIGCHLD})
    ours, theirs, parent = *os.pipe(), os.getpid()
    child = os.fork()
    if child == 0:
        follow_parent(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(ours)
        try:
            code = work()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        os.write(theirs, bytes([code]))
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a study's thread may raise SIGINT
        return code
    os.close(theirs)
    while not (state := os.waitpid(child, os.WNOHANG))[0]:
        told = signal.sigwaitinfo({*_TOLD, signal.SIGCHLD})
        # A terminal has signalled the whole group, and so the child as well.
        if told.si_signo in _TOLD and told.si_pid:
            os.kill(child, told.si_signo)
    if os.WIFSIGNALED(state[1]):
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        with contextlib.suppress(OSError):  # SIGKILL cannot be handled
            signal.signal(os.WTERMSIG(state[1]), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(state[1]))
    os.set_blocking(ours, False)
    with contextlib.suppress(BlockingIOError):
        for code in os.read(ours, 1):
            return code
    return None
