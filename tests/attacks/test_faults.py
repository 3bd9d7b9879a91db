"""A disk that fails at every single call: opening, writing, syncing, renaming, linking, making.

What C code opens is seen by Python's audit hooks, what is written and synced by `os` itself.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, Turn, book, dealt
from tests.engines.stand_ins import THERE

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1200)]

PARTS = 8
#: In place of 0 where it was done before the call that was to fail.
DONE = 100
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_EVENTS = {"os.rename", "os.link", "os.mkdir"}
_FULL = (errno.ENOSPC, errno.EDQUOT)
ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
_THERE = " ".join(THERE)
#: A command, and at how many calls it fails at most: `{}` is a number that no other attack has.
LINES = {
    "report": 130,
    "report --force": 130,
    "export counters --out counters.csv": 10,
    "new v{}": 12,
    "new --study made{}": 20,
    "init fresh{} --study mine": 40,
    "import sgemm_v3.ncu-rep --study double --version v0 --force": 24,
    "profile double/v0 --engine emulator": 24,
    "verify double/v0 --engine emulator": 12,
    f"verify double/v0 --engine gpu {_THERE}": 24,
    f"profile double/v0 --engine ncu --raw {_THERE}": 40,
    f"time double/v0 --again --limit 0.2 {_THERE}": 24,
    f"time double/v0 --all-problems --again --limit 0.2 {_THERE}": 24,
}


def failing(act: Callable[[], object], at: int, error: int, *, once: bool) -> Callable[[], object]:
    """The same where the `at`-th call that writes fails, and all after it unless it is `once`."""
    seen = 0

    def count(*name: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == at + 1 or (seen > at and not once):
            raise OSError(error, os.strerror(error), *name)

    def heard(event: str, given: tuple[Any, ...]) -> None:
        if event in _EVENTS or (
            event == "open"
            and given[2] & _WRITES
            and not str(given[0]).startswith(("/dev/", "/proc/"))
            and not isinstance(given[0], int)
        ):
            count(given[0])

    def counted(plain: Callable[..., Any]) -> Callable[..., Any]:
        def called(handle: int, *rest: Any) -> Any:
            if handle > 2 and stat.S_ISREG(os.fstat(handle).st_mode):
                count()
            return plain(handle, *rest)

        return called

    def attacked() -> object:
        os.write, os.fsync = counted(os.write), counted(os.fsync)
        sys.addaudithook(heard)
        result = act()
        return result or (DONE if seen <= at else 0)

    return attacked


CALLS = [(line, at) for line, most in LINES.items() for at in range(most)]


@pytest.mark.parametrize("portion", dealt("full disks", len(CALLS), PARTS))
def test_full(root: Path, portion: Portion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.views.html.pool._processors", lambda: 1)
    ended = harness.run("report", root)
    for turn in book.turns(portion):
        full(root, *CALLS[turn.number], turn)
    ended = harness.run("report", root)
    book.must(ended.code == 0, portion.kind, ended)


def full(root: Path, line: str, at: int, turn: Turn) -> None:
    """One failure, and what is left after it."""
    if line == "report":
        shutil.rmtree(root / "reports", ignore_errors=True)  # the first one of all
    before, made = harness.records(root), set((root / "kernels").rglob("*"))
    error, once = turn.rng.choice(ERRORS), turn.rng.random() < 0.3
    line = line.format(1000 + turn.number)
    if line.startswith("init"):
        (root / line.split()[1]).mkdir()
    act = harness.command(line)
    with harness.untouched(root.parent / "outside", turn.kind):
        ended = harness.run(failing(act, at, error, once=once), root, turn.kind)
    harness.check_whole(root, turn.kind, before)
    told = "cannot write the answer" not in ended.text
    if error in _FULL and not once:
        told = told and "space" in ended.text.lower()
    good = ended.code in (0, DONE) or (ended.code == 3 and told)
    book.must(good, turn.kind, (line, at, error, once, ended))
    if ended.code == 3 and line.startswith("new"):
        left = set((root / "kernels").rglob("*")) - made
        book.must(not left, turn.kind, f"a part is left: {left}")
