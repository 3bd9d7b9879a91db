"""A launch that was lifted is a study: v0 runs from its image, v1 from its source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests import lifted_maker as made
from tests.lifted_maker import needs_nvcc
from workbench.cli import app
from workbench.project import Project
from workbench.session.lifts import make_study


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    root = tmp_path / "project"
    (root / "kernels").mkdir(parents=True)
    (root / "workbench.toml").write_text('default_study = "scaling"\n')
    monkeypatch.chdir(root)
    return Project(root=root, default_study="scaling")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


@needs_nvcc
def test_a_launch_becomes_a_study(tmp_path: Path, project: Project) -> None:
    made.scaled(tmp_path, project)
    make_study(project, "scaling")
    for words in (
        ("verify", "v0", "--engine", "emulator"),
        ("profile", "v0", "--engine", "emulator"),
        ("show", "v0"),
        ("new", "v1", "--from", "v0"),
        ("verify", "v1", "--engine", "emulator"),
        ("profile", "v1", "--engine", "emulator"),
        ("diff", "v0", "v1"),
        ("list",),
    ):
        done = run(*words)
        os.write(1, f"===== {words} {done.exit_code}\n{done.output}\n".encode())
