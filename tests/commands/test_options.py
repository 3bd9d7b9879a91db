"""Spellings of the last release, which a target replaces: they work, and say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from tests.factories import make_project
from workbench.cli import _MOVED, COMMANDS

OLD_AND_NEW = {
    "list --study demo --device h200": "list demo@h200",
    "show --problem n1024 v3": "show v3:n1024",
    "diff --study demo --problem n1024 v2 v3": "diff demo/v2 v3:n1024",
    "verify --study demo --problem n6 v3": "verify demo/v3:n6",
    "profile --study demo --problem n6 v3": "profile demo/v3:n6",
    "time --problem n6 v3": "time v3:n6",
    "report --single-file --problem n6 v3": "report --single-file v3:n6",
    "check --study demo --problem n1024 v3": "check demo/v3:n1024",
    "export times --study demo --version v3": "export times demo/v3",
    "plot ladder demo:n6": "export figure ladder demo:n6",
    "publish demo:n6": "export readme demo:n6",
    "jobs --format json": "list jobs --format json",
    "mcp --allow nothing": "serve mcp --allow nothing",
    "time --recorded --all --problem n1024": "time --recorded demo:n1024",
    "tune --problem n6 v3": "tune v3:n6",
    "import x.ncu-rep --version v3 --problem n6": "import x.ncu-rep v3:n6",
    "schema show": "docs schema show",
}


@pytest.mark.parametrize("old", OLD_AND_NEW)
def test_a_spelling_of_the_last_release_works_and_says_so_once(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str
) -> None:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    new = OLD_AND_NEW[old].split()
    if old.split()[0] not in {*COMMANDS, *_MOVED}:
        pytest.skip("a feature that is not here")
    before, after = cli(*old.split()), cli(*new)
    note, _, rest = before[2].partition("\n")
    assert note.startswith("note: ")
    assert (*before[:2], rest) == after
