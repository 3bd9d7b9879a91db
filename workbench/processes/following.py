"""Children running our own code that die with their parent, even if it is killed.

On Linux the kernel kills the child, whatever it is doing (``PR_SET_PDEATHSIG``); elsewhere a thread
of the child checks whether it was adopted. Importing this module is enough for every process forked
afterwards; a started program calls `follow_parent` itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

#: From <sys/prctl.h>.
_PR_SET_PDEATHSIG = 1
_LOOK_EVERY_S = 0.5
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
#: The pid of the process that is forking.
_forking = 0


def follow_parent(parent: int | None = None) -> None:
    """End this process as soon as its parent has ended.

    The kernel watches the thread that started us, so a thread must not end before its forks. A
    parent that waits for its children, as all here do, is safe. `parent`: its pid, if known,
    because it may have ended before this call.
    """
    here = os.getppid() if parent is None else parent
    if _LIBC is not None and _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0:
        if os.getppid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
    elif os.name == "posix":
        threading.Thread(target=_look, args=(here,), daemon=True).start()


def _look(parent: int) -> None:
    # An orphan is adopted by init, or by a process that asked for orphans.
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _before() -> None:
    """Runs in the parent: the child cannot determine its parent's pid safely."""
    global _forking
    _forking = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=lambda: follow_parent(_forking))
