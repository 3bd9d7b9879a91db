"""What tests ask about processes of this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from workbench.processes.starting import Start, own_module


def runs(pid: int) -> bool:
    """Whether a process is alive; one that has ended and was not waited for is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something is so; fail if it does not become so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def instead(code: str) -> Callable[..., Start]:
    """What starts a text of Python where one of our modules would be started."""

    def started(_: str, *arguments: str, **options: object) -> Start:
        start = own_module("none", **options)  # type: ignore[arg-type]
        return start._replace(argv=[sys.executable, "-c", code, *arguments])

    return started
