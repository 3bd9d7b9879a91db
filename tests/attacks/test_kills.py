"""Writers killed at random moments: whole files, free locks, nothing left running."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, Turn, book, dealt
from tests.engines.stand_ins import THERE
from tests.factories import make_profile
from workbench.disk.writing import is_temporary
from workbench.store import Store

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1200)]

KILLS = 200
PARTS = 8
#: Times that a command is started which had ended when it was to be killed.
_TRIES = 6
_THERE = " ".join(THERE)
#: Every command that writes; `{}` is a number that no other attack has.
LINES = (
    "report --force",
    "report",
    "new v{}",
    "new --study made{}",
    "init fresh{} --study mine",
    "import sgemm_v3.ncu-rep --study double --version v0 --force",
    "profile double/v0 --engine emulator",
    "verify double/v0 --engine emulator",
    f"verify double/v0 --engine gpu {_THERE}",
    f"profile double/v0 --engine ncu --raw {_THERE}",
    f"time double/v0 --again --limit 0.2 {_THERE}",
    f"time double/v0 --all-problems --again --limit 0.2 {_THERE}",
    "check --all",
    "export counters --out counters.csv",
    "save often",
    "start a program",
)


def act_of(line: str, root: Path) -> Callable[[], object]:
    if line == "save often":
        return partial(save_often, root)
    return partial(start_program, root) if line == "start a program" else harness.command(line)


def save_often(root: Path) -> None:
    store = Store(root / "profiles")
    for number in range(100):
        store.save(make_profile(captured=str(number)), raw=str(number).encode())


def start_program(root: Path) -> None:
    """As a launcher does: what it started ends with us, and so do its children."""
    from workbench.engines.host.process import run_group

    run_group(["/bin/sh", "-c", "sleep 99 & sleep 0.3"], cwd=root)


@pytest.mark.parametrize("portion", dealt("kills", KILLS, PARTS))
def test_kills(root: Path, portion: Portion) -> None:
    longest: dict[str, float] = {}
    for turn in book.turns(portion):
        line = LINES[turn.number % len(LINES)]
        if line not in longest:
            longest[line] = harness.lasts(act_of(line.format(turn.number), root), root)
        kill(root, line.format(1000 + turn.number), longest[line], turn)
    ended = harness.run("report", root)
    book.must(ended.code == 0, "kills", ended)
    left = [path for path in (root / "reports").rglob("*") if is_temporary(path.name)]
    book.must(not left, "kills", left)


def kill(root: Path, line: str, longest_s: float, turn: Turn) -> None:
    """One command killed; then everything is whole, and the same command ends well."""
    before = harness.records(root)
    if line == "report" and (root / "reports").exists():
        shutil.rmtree(root / "reports")  # the first one of all
    with harness.untouched(root.parent / "outside", turn.kind):
        for _ in range(_TRIES):
            after_s = turn.rng.uniform(0, longest_s)
            if harness.killed(act_of(line, root), root, after_s, turn.kind):
                break
            longest_s = after_s
    harness.check_whole(root, turn.kind, before)
    for made in (root / "kernels/demo").glob("v1*.cu"):
        book.must(made.read_text().startswith("/* ---"), turn.kind, f"half a version: {made}")
    for path in (root / "kernels").rglob("*"):
        whole = path.is_dir() or is_temporary(path.name) or path.stat().st_size > 0
        book.must(whole, turn.kind, f"an empty file: {path}")
    ended = harness.run(act_of(line, root), root)  # goes on, and is not locked out
    done = ended.code == 2 and line.startswith(("new", "init")) and "already" in ended.text
    stale = ended.code == 6 and line.startswith("check")  # of records that a killed writer made
    book.must(ended.code == 0 or done or stale, turn.kind, (line, ended))
    harness.check_whole(root, turn.kind, before)
