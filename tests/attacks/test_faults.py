"""A disk that is full at every single call: below open, write, fsync, rename, link and mkdir."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.attacks import harness

pytestmark = [pytest.mark.attack, pytest.mark.timeout(170)]

CALLS = ("open", "write", "fsync", "replace", "link", "mkdir")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def failing(act: Callable[[], object], at: int) -> Callable[[], object]:
    """The same with a full disk from the `at`-th call on, of those that write."""
    seen = 0

    def full(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            counts = name != "open" or bool(args[1] & WRITES)
            if name == "write" and args[0] in (1, 2):
                counts = False
            if counts:
                seen += 1
                if seen > at:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return plain(*args, **kwargs)

        return called

    def attacked() -> object:
        for name in CALLS:
            setattr(os, name, full(name, getattr(os, name)))
        result = act()
        return result or (100 if seen <= at else 0)  # 100: it has done without the calls that fail

    return attacked


@pytest.mark.parametrize("line", ["report", "new v5", "new --study other", "report --force"])
def test_full(root: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.views.html.pool._processors", lambda: 1)
    log = root.parent / "log"
    made = sorted((root / "kernels").rglob("*"))
    if "--force" in line:
        assert harness.run("report", root).code == 0
    at = 0
    while True:
        act = failing(harness.command(line), at)
        ended = harness.finish(harness.start(act, root, log), log)
        harness.counts["full disks"] += 1
        harness.check_whole(root)
        if ended.code == 100:
            break
        assert ended.code in (0, 3), ended
        if ended.code == 3:
            assert "no space left" in ended.text, ended.text
            if line.startswith("new"):
                assert sorted((root / "kernels").rglob("*")) == made, "a part is left"
        elif line.startswith("new"):
            made = sorted((root / "kernels").rglob("*"))
            line = line.replace("v5", f"v{50 + at}").replace("other", f"other{at}")
        # Every call of a short command, and ever fewer of a long one.
        at += 1 + at // 8
    assert at > 3
    assert harness.run("report", root).code == 0
    harness.check_whole(root)
