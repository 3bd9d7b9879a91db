"""Settings, projects, studies and captures of another user, met by every command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, book, dealt
from tests.attacks.test_settings import act, lines_of
from workbench.cli import COMMANDS

pytestmark = [
    pytest.mark.attack,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
    ),
]

OTHER = 54321
#: What another user owns, from the folder above the project; and whether it decides what runs.
PLACES = {
    "project/workbench.toml": True,
    "project": True,
    "project/pyproject.toml": True,
    "above/workbench.toml": True,
    "above/pyproject.toml": True,
    "project/kernels": False,
    "project/kernels/double/study.py": False,
    "project/profiles": False,
    "project/reports": False,
}
#: Commands that look at no project; all others must refuse what decides.
WITHOUT = (["docs"], ["init"], ["import"], ["run"], ["serve", "lsp"])
TRIED = [(place, line) for place in PLACES for name in COMMANDS for line in lines_of(name)]
HOSTILE = '[check]\nunknown = 3\n[capture]\nbuild = "touch ../outside/pwned"\n'


@pytest.mark.parametrize("portion", dealt("foreign owners", len(TRIED), 4))
def test_foreign_owners(root: Path, portion: Portion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKBENCH_TRUST", raising=False)
    outside = root.parent / "outside"
    settings = root / "workbench.toml"
    before = settings.read_text()
    for turn in book.turns(portion):
        place, line = TRIED[turn.number]
        above, _, name = place.partition("/")
        path = root if place == "project" else root / name if above == "project" else None
        path = path or root.parent / name
        if path.suffix == ".toml":
            settings.unlink()
            table = HOSTILE.replace("[", "[tool.workbench.") if "pyproject" in name else HOSTILE
            path.write_text(table)
        if not path.suffix:
            path.mkdir(exist_ok=True)  # pages are there once they were written
        os.chown(path, OTHER, OTHER)
        words = line.format(turn.number).split()
        with harness.untouched(outside, turn.kind):
            ended = harness.run(act(words), root, turn.kind)
        stays = ended.code == 130 and words[0] == "serve"
        book.must(ended.code in range(7) or stays, turn.kind, (place, line, ended))
        if PLACES[place] and words[:1] not in WITHOUT and words[:2] not in WITHOUT:
            told = ended.code == 2 and "belongs to another user" in ended.text
            book.must(told, turn.kind, (place, line, ended))
        os.chown(path, os.geteuid(), os.getegid())
        if path.suffix == ".toml":
            path.unlink()
            settings.write_text(before)
