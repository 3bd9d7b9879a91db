"""``workbench serve mcp``: what it refuses before it serves anybody."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.factories import make_project
from workbench.agents.fence import PERMITS, need, read_permits
from workbench.cli import app
from workbench.errors import MissingError, UsageError


def refused(*words: str) -> BaseException | None:
    return CliRunner().invoke(app, ["serve", "mcp", *words]).exception


def test_without_the_sdk_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.delitem(sys.modules, "workbench.agents.command", raising=False)
    error = refused()
    assert isinstance(error, MissingError) and error.exit_code == 3
    assert "pip install '.[mcp]'" in error.hint


def test_it_needs_a_project(tmp_path: Path) -> None:
    error = refused("--project", str(tmp_path))
    assert isinstance(error, UsageError) and "workbench init" in error.hint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--allow", "verfy"), "Did you mean `verify`"),
        (("--allow", ""), "Known permits"),
        (("--allow", "python"), "Write --allow write,python"),
    ],
)
def test_a_permit_that_there_is_not(words: tuple[str, ...], said: str) -> None:
    error = refused(*words)
    assert isinstance(error, UsageError) and said in error.hint


def test_permits_add_up() -> None:
    found = read_permits(["verify, write", "python"])
    assert found == {"verify", "write", "python"}
    assert read_permits([]) == frozenset()
    need(found, "verify", "verify")
    need(frozenset(), None, "show")
    with pytest.raises(UsageError, match="allows python, verify, write") as caught:
        need(found, "time", "time")
    assert caught.value.hint.endswith("--allow verify,time,write,python.")
    assert set(PERMITS) > found
