"""Several writers at once: nobody's work is lost, and who waits in vain is told so."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.factories import make_profile
from workbench.store import Store

pytestmark = [pytest.mark.attack, pytest.mark.timeout(170)]

ROUNDS = 12


def together(root: Path, *lines: str) -> list[harness.Ended]:
    logs = [root.parent / f"{number}.log" for number in range(len(lines))]
    pids = [
        harness.start(harness.command(line), root, log)
        for line, log in zip(lines, logs, strict=True)
    ]
    harness.counts["rounds of writers"] += 1
    return [harness.finish(pid, log) for pid, log in zip(pids, logs, strict=True)]


def test_reports(root: Path) -> None:
    for number in range(ROUNDS):
        lines = ["report --force", "report", "report demo --force"][: 2 + number % 2]
        ends = together(root, *lines)
        assert all(
            end.code == 0 or (end.code == 3 and "another process" in end.text) for end in ends
        ), ends
        harness.check_whole(root)
    ended = harness.run("report", root)
    assert ended.code == 0 and ended.text.startswith("0 pages written")


def test_new_versions(root: Path) -> None:
    for number in range(ROUNDS):
        ends = together(root, *[f"new v{40 + number}"] * (2 + number % 3))
        assert sorted(end.code for end in ends) == [0] + [2] * (len(ends) - 1), ends
        assert len(list((root / "kernels/demo").glob(f"v{40 + number}*.cu"))) == 1


def save(root: Path, version: str) -> None:
    store = Store(root / "profiles", lock_timeout_s=50)
    for number in range(5):
        store.save(make_profile(version=version, captured=f"{version} {number}"))


def test_the_store(root: Path) -> None:
    for number in range(ROUNDS):
        log = root.parent / "log"
        writers = [f"v{number}{each}" for each in range(2 + number % 3)]
        pids = [harness.start(partial(save, root, name), root, log) for name in writers]
        harness.counts["rounds of writers"] += 1
        assert [harness.finish(pid, log).code for pid in pids] == [0] * len(pids)
        store = Store(root / "profiles")
        for name in writers:
            found = store.get(study="demo", version=name, problem="n1024", engine="ncu")
            assert found.captured == f"{name} 4"
    harness.check_whole(root)
