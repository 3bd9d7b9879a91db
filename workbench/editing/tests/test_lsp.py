"""``workbench serve lsp``: what it says where it cannot serve."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from click.testing import CliRunner

from workbench.cli import app
from workbench.errors import MissingError


def test_without_pygls_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.delitem(sys.modules, "workbench.editing.command", raising=False)
    error = CliRunner().invoke(app, ["serve", "lsp"]).exception
    assert isinstance(error, MissingError) and error.exit_code == 3
    assert "pip install '.[lsp]'" in error.hint
