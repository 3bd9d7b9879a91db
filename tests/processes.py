"""What tests ask about processes of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def runs(pid: int) -> bool:
    """Whether a process is alive; one that has ended and was not waited for is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something is so; fail if it does not become so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
