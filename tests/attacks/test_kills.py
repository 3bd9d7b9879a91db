"""Writers killed at random moments: whole files, free locks, nothing left running."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.factories import make_profile
from tests.processes import runs, until
from workbench.disk.writing import is_temporary
from workbench.store import Store

pytestmark = [pytest.mark.attack, pytest.mark.timeout(170)]

KILLS = 24  # of each command


def lasts(line: str, root: Path) -> float:
    begin = time.monotonic()
    harness.run(line, root)
    return time.monotonic() - begin


def test_report(root: Path) -> None:
    """The first one, and those that write everything again."""
    longest = lasts("report --force --out reports", root)
    for number, after in zip(range(KILLS), harness.moments(1, longest), strict=False):
        first = number % 4 == 0
        if first:
            for path in sorted((root / "reports").rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
        harness.counts["kills"] += harness.killed(
            harness.command("report" if first else "report --force"), root, after
        )
        harness.check_whole(root)
        if number % 8 == 0:
            ended = harness.run("report", root)  # goes on, and is not locked out
            assert ended.code == 0, ended.text
            harness.check_whole(root)
    assert harness.run("report", root).code == 0
    assert not [p for p in (root / "reports").rglob("*") if is_temporary(p.name)]


def test_new(root: Path) -> None:
    longest = lasts("new v9", root)
    for number, after in zip(range(KILLS), harness.moments(2, longest), strict=False):
        name, study = f"v{20 + number}", f"made{number}"
        line = f"new {name}" if number % 2 else f"new --study {study}"
        harness.counts["kills"] += harness.killed(harness.command(line), root, after)
        made = list((root / "kernels/demo").glob(f"{name}*.cu"))
        assert all(path.read_text().startswith("/* ---") for path in made)
        files = list((root / "kernels" / study).glob("*"))
        assert all(path.read_bytes() for path in files), "an empty file"
    assert harness.run("list", root).code == 0


def save_often(root: Path) -> None:
    store = Store(root / "profiles")
    for number in range(1000):
        store.save(make_profile(captured=str(number)), raw=str(number).encode())


def test_the_store(root: Path) -> None:
    store = Store(root / "profiles")
    before = len(list((root / "profiles").rglob("*.zst")))
    for _, after in zip(range(KILLS), harness.moments(3, 0.3), strict=False):
        harness.counts["kills"] += harness.killed(lambda: save_often(root), root, after)
        harness.check_whole(root)
    store.save(make_profile(captured="last"))  # nobody holds the lock
    assert len(list((root / "profiles").rglob("*.zst"))) >= before
    assert harness.run("list", root).code == 0


def none_runs(pids: list[int]) -> bool:
    return not any(map(runs, pids))


def test_a_command_that_has_started_a_program(root: Path) -> None:
    """As a launcher does: what it started ends with us, and so do its children."""
    from workbench.engines.host.process import run_group

    pids = root / "pids"

    def act() -> None:
        run_group(["/bin/sh", "-c", "sleep 99 & echo $! $$ > pids; wait"], cwd=root)

    for _, after in zip(range(8), harness.moments(4, 0.5), strict=False):
        pids.unlink(missing_ok=True)
        harness.counts["kills"] += harness.killed(act, root, 0.1 + after)
        left = [int(word) for word in pids.read_text().split()] if pids.exists() else []
        until(partial(none_runs, left))
