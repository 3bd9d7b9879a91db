"""The table of docs/security.md: its tests exist, and every command stands in it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
from pathlib import Path

from tests import attacks
from tests.attacks.book import WHOLES
from tests.test_house import REPO
from workbench.cli import COMMANDS

PAGE = (REPO / "docs" / "security.md").read_text(encoding="utf-8")
_TEST = re.compile(r"((?:workbench/\w+/)?tests/[\w/]+\.py)::(\w+)")


def rows() -> list[list[str]]:
    """The cells of every line of the tables that name a test."""
    begin, end = PAGE.index("## Who may be hostile"), PAGE.index("What views need of a study")
    lines = [line for line in PAGE[begin:end].splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines if "| test |" not in line]


def test_every_line_has_a_test_that_exists() -> None:
    told = [cells for cells in rows() if not cells[0].startswith("---")]
    assert len(told) >= 20
    for cells in told:
        found = _TEST.findall(cells[3])
        assert len(cells) == 4 and found, cells
        for path, name in found:
            tree = ast.parse(Path(REPO, path).read_text(encoding="utf-8"))
            names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            assert name in names, f"{path} has no {name}"


def test_every_command_is_in_it() -> None:
    text = " ".join(cells[1] for cells in rows())
    missing = [name for name in COMMANDS if not re.search(rf"`{name}\b", text)]
    assert not missing, missing


def test_as_many_attacks_are_made_as_it_says() -> None:
    for module in pkgutil.iter_modules(attacks.__path__, f"{attacks.__name__}."):
        importlib.import_module(module.name)
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for path in REPO.glob("workbench/*/tests/test_*attacks.py"):  # of a feature
        if str(path) not in loaded:
            importlib.import_module(f"workbench.{path.parts[-3]}.tests.{path.stem}")
    begin, end = PAGE.index("| attack | times"), PAGE.index("## Where it does not hold")
    lines = [
        line.strip("| ").split(" | ")
        for line in PAGE[begin:end].splitlines()[2:]
        if line[:1] == "|"
    ]
    told = {tuple(cells[0].split(", ")): cells[1] for cells in lines}
    assert sorted(kind for kinds in told for kind in kinds) == sorted(WHOLES)
    assert told == {kinds: f"{sum(WHOLES[kind] for kind in kinds):,}" for kinds in told}
