"""What the attacks share: a project, and the counts at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.views import site_data
from workbench.project import Project
from workbench.study.seen import run_study


@pytest.fixture(autouse=True)
def told(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """What was attacked, and how often; the end of the test run sums it up."""
    harness.counts.clear()
    yield
    record_property("attacks", dict(harness.counts))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a study, profiles of several problems, and pages for more than one process."""
    root = tmp_path / "project"
    site_data.wide(root)
    run_study(Project(root=root, default_study="demo"), "demo")
    monkeypatch.setattr("workbench.views.html.pool._MANY_PAGES", 2)
    monkeypatch.setattr("workbench.views.html.pool._processors", lambda: 2)
    return root
