"""Links, pipes and names that climb, in every place where a command writes or removes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.factories import make_profile
from workbench.errors import WorkbenchError
from workbench.store import Store
from workbench.views.html.site import MANIFEST

pytestmark = [pytest.mark.attack, pytest.mark.timeout(170)]

#: Where a link or a pipe is put, and the command that comes across it.
PLACES = {
    "profiles/.lock": "save",
    "profiles": "save",
    "profiles/h200": "save",
    "profiles/h200/demo": "save",
    "profiles/h200/demo/v2": "save",
    "profiles/h200/demo/v2/n1024.ncu.json.zst": "save",
    "reports": "report",
    "reports/.lock": "report",
    "reports/.manifest.json": "report",
    "reports/index.html": "report --force",
    "reports/assets": "report --force",
    "reports/assets/workbench.css": "report --force",
    "reports/studies": "report --force",
    "reports/studies/demo": "report --force",
    "kernels": "new v30",
    "kernels/demo": "new v30",
    "kernels/demo/v30.cu": "new v30",
    "build": "run",
    "build/runs": "run",
    "build/runs/x": "run",
    "build/runs/x/.lock": "run",
}
KINDS: dict[str, Callable[[Path, Path], None]] = {
    "link to a folder": lambda path, outside: path.symlink_to(outside),
    "link to a file": lambda path, outside: path.symlink_to(outside / "precious"),
    "link to nothing": lambda path, outside: path.symlink_to(outside / "new"),
    "pipe": lambda path, _: os.mkfifo(path),
    "folder": lambda path, _: path.mkdir(),
}


def act(line: str, root: Path) -> object:
    from workbench.engines.host.workspace import workspace

    try:
        if line == "save":
            Store(root / "profiles").save(make_profile(version="v2"))
        elif line == "run":
            with workspace(root, "x") as folder:
                (root / folder / "made").write_text("")
        else:
            return harness.command(line)()
    except WorkbenchError as error:
        return error.exit_code
    return 0


@pytest.mark.parametrize("kind", KINDS)
def test_places(root: Path, kind: str) -> None:
    outside = root.parent / "outside"
    (outside / "demo").mkdir(parents=True)
    (outside / "precious").write_text("kept")
    (outside / "demo" / "v0.cu").write_text("kept")
    assert harness.run("report", root).code == 0
    whole = root.parent / "whole"
    shutil.copytree(root, whole)
    for place, line in PLACES.items():
        shutil.rmtree(root)
        shutil.copytree(whole, root)
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        KINDS[kind](path, outside)
        log = root.parent / "log"
        with harness.untouched(outside):
            ended = harness.finish(
                harness.start(lambda line=line: act(line, root), root, log),  # type: ignore[misc]
                log,
            )
        harness.counts["hostile files"] += 1
        assert ended.code in (0, 2, 3, 5), (place, kind, ended)


@pytest.mark.parametrize("name", ["../../outside/precious", "/{}", "a/../../../outside/precious"])
def test_manifests(root: Path, name: str) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    assert harness.run("report", root).code == 0
    path = root / "reports" / MANIFEST
    before = path.read_bytes()
    name = name.replace("{}", str(outside / "precious").lstrip("/"))
    mine = {"key": "x", "owner": "ladder:demo", "size": 4}
    for kind in ("pages", "beside", "assets"):
        kept = json.loads(before)
        if kind == "beside":
            kept["pages"]["gone.html"] = {**mine, "beside": {name: 4}}
        else:
            kept[kind][name] = mine if kind == "pages" else "x"
        path.write_text(json.dumps(kept))
        for line in ("report", "report --force", "report demo"):
            with harness.untouched(outside):
                ended = harness.run(line, root)
            harness.counts["hostile manifests"] += 1
            assert ended.code == 5 and "not to be trusted" in ended.text, ended
