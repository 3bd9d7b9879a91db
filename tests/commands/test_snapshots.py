"""What every command says of itself, and every JSON document, held against golden files."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import golden
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
    text = said("--help") if name == "workbench" else said(name, "--help")
    golden.same(f"help/{name}.txt", text)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    golden.same(f"json/{name}.json", said(*DOCUMENTS[name], "--format", "json"))
