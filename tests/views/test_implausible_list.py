"""A stored time that no run can have is marked in every form of the list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.factories import make_project, make_timing
from workbench.cli import app
from workbench.store import Store


@pytest.mark.parametrize("wrong", [True, False])
def test_a_time_of_forty_terabytes_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    project = make_project(tmp_path)
    moved = 40_000_000_000 if wrong else 400_000_000
    Store.of(project).save_timing(replace(make_timing(1e-3), bytes=moved))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    said = {
        form: CliRunner().invoke(app, ["list", "--format", form]).output
        for form in ("table", "markdown", "json")
    }
    for form in ("table", "markdown"):
        assert ("(!)" in said[form] and "not plausible" in said[form]) == wrong, said[form]
    versions = json.loads(said["json"])["studies"][0]["versions"]
    reasons = [text for one in versions for time in one["times"] for text in time["implausible"]]
    assert bool(reasons) == wrong
