"""Several writers at once: nobody's work is lost, and who waits in vain is told so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, Turn, book, dealt
from tests.engines.stand_ins import THERE
from tests.factories import make_profile
from workbench.store import Store

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1200)]

ROUNDS = 200
PARTS = 4
_IMPORT = "import sgemm_v3.ncu-rep --study double --version v0 --force"
_MIXED = (
    "report",
    "report --force",
    "report demo",
    _IMPORT,
    "profile double/v0 --engine emulator",
    "verify double/v0 --engine emulator",
    f"time double/v0 --again --limit 0.2 {' '.join(THERE)}",
    "check --all",
    "list",
    "show v3",
)


def busy_or_done(ended: harness.Ended) -> bool:
    return ended.code == 0 or (ended.code == 3 and "another process" in ended.text)


def reports(root: Path, turn: Turn, many: int) -> None:
    """Pages of all are in the manifest, and there is nothing left to write."""
    lines = ["report --force", *turn.rng.choices(["report", "report demo --force"], k=many - 1)]
    ends = harness.together([harness.command(line) for line in lines], root, turn.kind)
    book.must(all(map(busy_or_done, ends)), turn.kind, ends)
    ended = harness.run("report", root)
    quiet = ended.code == 0 and ended.text.startswith("0 pages written")
    book.must(quiet or "report --force" not in lines[1:], turn.kind, ended)


def versions(root: Path, turn: Turn, many: int) -> None:
    """Of several that take one name one has it."""
    name = f"v{1000 + turn.number}"
    ends = harness.together([harness.command(f"new {name}")] * many, root, turn.kind)
    book.must(sorted(end.code for end in ends) == [0] + [2] * (many - 1), turn.kind, ends)
    found = len(list((root / "kernels/demo").glob(f"{name}*.cu")))
    book.must(found == 1, turn.kind, f"{found} files")


def save(root: Path, version: str) -> None:
    store = Store(root / "profiles", lock_timeout_s=50)
    for number in range(5):
        store.save(make_profile(version=version, captured=f"{version} {number}"))


def saves(root: Path, turn: Turn, many: int) -> None:
    """Everybody's last record is the one that is kept."""
    names = [f"v{turn.number}{each}" for each in range(many)]
    ends = harness.together([partial(save, root, name) for name in names], root, turn.kind)
    book.must(all(end.code == 0 for end in ends), turn.kind, ends)
    store = Store(root / "profiles")
    for name in names:
        with book.watched(turn.kind, "lost or half"):
            found = store.get(study="demo", version=name, problem="n1024", engine="ncu")
            assert found.captured == f"{name} 4", found.captured


def mixed(root: Path, turn: Turn, many: int) -> None:
    lines = turn.rng.choices(_MIXED, k=many)
    ends = harness.together([harness.command(line) for line in lines], root, turn.kind)
    book.must(all(map(busy_or_done, ends)), turn.kind, list(zip(lines, ends, strict=True)))


SORTS: tuple[Callable[[Path, Turn, int], None], ...] = (reports, versions, saves, mixed)


@pytest.mark.parametrize("portion", dealt("rounds of writers", ROUNDS, PARTS))
def test_rounds(root: Path, portion: Portion) -> None:
    for turn in book.turns(portion):
        before = harness.records(root)
        with harness.untouched(root.parent / "outside", turn.kind):
            SORTS[turn.number % len(SORTS)](root, turn, 2 + turn.rng.randrange(3))
        harness.check_whole(root, turn.kind, before)
    book.must(harness.run("report", root).code == 0, portion.kind, "no report afterwards")
