"""What the attacks share: a project, and the counts at the end."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.attacks.book import book
from tests.engines import stand_ins
from tests.views import site_data
from workbench.project import Project
from workbench.study.folder import run_study

REPO = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def ready() -> None:
    """Everything imported once, for all processes that are forked from here."""
    for module in pkgutil.walk_packages([str(REPO / "workbench")], "workbench."):
        with contextlib.suppress(ImportError):
            importlib.import_module(module.name)
    importlib.import_module("pandas")


@pytest.fixture(autouse=True)
def told(record_property: Callable[[str, object], None], ready: None) -> Iterator[None]:
    """What was attacked, and what came of it; the end of the test run sums it up."""
    book.clear()
    harness.adopt(True)
    yield
    harness.adopt(False)
    record_property("attacks", dict(book.counts))
    assert not book.findings, "\n".join(book.findings)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds of all attacks of a process."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def root(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fake_ncu: Path,
    cache: Path,
    report: Callable[[str], Path],
) -> Path:
    """A project with studies, profiles of several problems, and pages for more than one process.

    ``demo`` is recorded, ``double`` can be run: in the emulator, or by `stand_ins.THERE`.
    Nothing of this machine is used: no GPU, no cache of its user.
    """
    root = tmp_path / "project"
    site_data.wide(root)
    run_study(Project(root=root, default_study="demo"), "demo")
    folder = root / "kernels" / "double"
    folder.mkdir()
    (folder / "study.py").write_text(stand_ins.STUDY.replace('("verify",)', '("verify", "sweep")'))
    (folder / "v0_plain.cu").write_text(stand_ins.VERSION)
    (folder / "library.py").write_text(stand_ins.BASELINE)
    shutil.copy(report("sgemm_v3"), root)
    (tmp_path / "outside" / "demo").mkdir(parents=True)
    (tmp_path / "outside" / "precious").write_text("kept")
    (tmp_path / "outside" / "demo" / "v0.cu").write_text("kept")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    stand_ins.put_in(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", f"{fake_ncu.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("workbench.views.html.pool._MANY_PAGES", 2)
    monkeypatch.setattr("workbench.views.html.pool._processors", lambda: 2)
    monkeypatch.setattr("workbench.engines.host.presence.find_gpus", lambda: ([], "no driver"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return root
