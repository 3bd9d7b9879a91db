"""A feature is one folder: without it the core stands, and says nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.without import copy_without
from workbench.features import FEATURES, Feature

#: Tests that look at every command, page, module and text: what a leftover would break.
WIDE = (
    *("tests/test_cli.py", "tests/test_documentation.py", "tests/test_house.py"),
    *("tests/test_security.py", "tests/test_starting.py", "tests/commands/test_in_chinese.py"),
)
#: Imports every module of the package, tests of features too.
IMPORT_ALL = """
import importlib, pathlib
for path in sorted(pathlib.Path("workbench").rglob("*.py")):
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    if not name.endswith("__main__"):
        importlib.import_module(name)
"""
#: Counts of docs/security.md are of all commands together.
NOT = "not test_as_many_attacks_are_made_as_it_says"


def in_copy(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python where the copy is what is imported."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)


#: Each feature alone, and all of them.
TAKEN = {**{each.name: (each,) for each in FEATURES}, "all": FEATURES}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("taken", TAKEN.values(), ids=TAKEN)
def test_without_it_the_core_stands(taken: tuple[Feature, ...], tmp_path: Path) -> None:
    copy_without(taken, tmp_path)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    told = in_copy(tmp_path, "-m", "workbench", "--help").stdout
    assert "  diff " in told
    names = in_copy(tmp_path, "-c", "from workbench.cli import COMMANDS as all; print(list(all))")
    assert not [name for each in taken for name in each.commands if f"'{name}'" in names.stdout]
    pages = in_copy(tmp_path, "-m", "workbench", "docs").stdout
    assert "front-matter" in pages
    own = [
        (page, each.folder / "docs") for each in taken for page in each.folder.rglob("docs/**/*.md")
    ]
    assert not [page for page, at in own if f"{page.relative_to(at).as_posix()[:-3]} " in pages]
    imported = in_copy(tmp_path, "-c", IMPORT_ALL)
    assert imported.returncode == 0, imported.stderr[-3000:]
    if taken == FEATURES:
        every = in_copy(tmp_path, "-m", "pytest", "-q", "--collect-only", "-m", "not gpu")
        assert every.returncode == 0, every.stdout[-3000:]
        wide = in_copy(tmp_path, "-m", "pytest", "-q", "-m", "not slow", "-k", NOT, *WIDE)
        assert wide.returncode == 0, wide.stdout[-3000:]


def test_every_feature_is_a_folder_of_its_own() -> None:
    for feature in FEATURES:
        assert (feature.folder / "tests").is_dir() and (feature.folder / "docs").is_dir()
        for module, text in feature.commands.values():
            path = feature.folder.joinpath(*module.split(".")).with_suffix(".py")
            assert path.is_file() and text.endswith(".")
