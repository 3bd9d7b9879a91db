"""What every command says of itself, and every document, held against golden files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from tests import goldens
from tests.factories import make_project
from workbench import language
from workbench.cli import COMMANDS, app

DOCUMENTS = {"list": ["list"], "show": ["show", "v3"], "diff": ["diff", "v2", "v3"]}


#: What a person reads at 80 columns, in Chinese.
CHINESE = {
    "list": ["list"],
    "list_whole": ["list", "--study", "demo"],
    "show": ["show", "v3"],
    "diff": ["diff", "v2", "v3"],
}


#: Of which commands there is a golden in Chinese; of the others the language's tests.
CHINESE_HELP = ("workbench", "profile", "new", "tune")


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    """What ``--help`` prints at 80 columns of each command, and of all of them."""
    return asked("en", *COMMANDS)


def asked(lang: str, *names: str) -> dict[str, str]:
    """What ``--help`` prints, in a language.

    One process of their own: click keeps the help option that a command was first asked with.
    """
    code = """
import contextlib, io, json, sys
from workbench.cli import main
texts = {}
for name in ("workbench", *sys.argv[1:]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([*name.removeprefix("workbench").split(), "--help"]) == 0
    texts[name] = out.getvalue()
print(json.dumps(texts))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *names],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80", "WORKBENCH_LANG": lang},
    )
    texts: dict[str, str] = json.loads(done.stdout)
    return texts


@pytest.mark.parametrize("name", ["workbench", *COMMANDS])
def test_help(name: str, helps: dict[str, str]) -> None:
    text = helps[name]
    # At 80 columns no name is broken at its hyphen.
    assert not re.search(r"\w-$", text, re.M)
    goldens.same(f"help/{name.replace(' ', '-')}.txt", text)


def test_help_in_chinese() -> None:
    for name, text in asked("zh", *CHINESE_HELP[1:]).items():
        goldens.same(f"zh/help_{name}.80.txt", text)


def test_there_is_help_for_every_command_and_no_other() -> None:
    names = ("workbench", *COMMANDS)
    goldens.no_others("help", {f"{name.replace(' ', '-')}.txt" for name in names})


@pytest.mark.parametrize(
    ("name", "format_"),
    [(name, each) for name in DOCUMENTS for each in ("json", "csv", "markdown")],
)
def test_documents(
    name: str, format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = [*DOCUMENTS[name], "--format", format_]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    assert result.stdout
    goldens.same(f"{format_}/{name}.{format_.replace('markdown', 'md')}", result.stdout)


@pytest.mark.parametrize("name", CHINESE)
def test_in_chinese(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        app, ["--lang", "zh", *CHINESE[name]], env={"COLUMNS": "80"}, catch_exceptions=False
    )
    language.use("en")
    assert result.exit_code == 0, result.stderr
    # A Chinese letter takes two columns of a terminal.
    assert max(map(cell_len, result.stdout.splitlines())) <= 80
    goldens.same(f"zh/{name}.80.txt", result.stdout)
