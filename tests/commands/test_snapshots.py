"""What every command says of itself, and every JSON document, held against golden files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import goldens
from tests.factories import make_project
from workbench.cli import COMMANDS, app

DOCUMENTS = {
    "list": ["list"],
    "show": ["show", "v3"],
    "diff": ["diff", "v2", "v3"],
    "check": ["check", "v2", "v3"],
}


def said(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, prog_name="workbench", terminal_width=80)
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    assert result.stdout, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", ["workbench", *COMMANDS])
def test_help(name: str) -> None:
    # A process of its own: click keeps the help option that a command was first asked with.
    text = subprocess.run(
        [sys.executable, "-m", "workbench.cli", *([] if name == "workbench" else [name]), "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    ).stdout
    goldens.same(f"help/{name}.txt", text)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    goldens.same(f"json/{name}.json", said(*DOCUMENTS[name], "--format", "json"))
