"""Links, pipes, devices and names that climb, wherever a command reads, writes or removes."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, book, dealt
from tests.factories import make_profile
from workbench.disk.writing import append_file
from workbench.errors import WorkbenchError
from workbench.store import Store
from workbench.views.html.site import MANIFEST

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1200)]

PARTS = 6
#: Where something hostile is put, and the command that comes across it.
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
    "profiles/h200/double/v0": "import sgemm_v3.ncu-rep --study double --version v0 --force",
    "build/runs/double-v0-n1000": "profile double/v0 --engine emulator",
    # What is only read may be a link, and may not hold anybody up.
    "workbench.toml": "list",
    "kernels/demo/study.py": "verify v2 --engine emulator",
    "kernels/demo/v2_tile.cu": "show v2",
    "kernels/demo/helper.cuh": "list",
    "kernels/demo/v3_padded.cu": "diff v2 v3",
    "profiles/.studies/demo.json": "report",
    "profiles/h200/demo/v3/n1024.ncu.json.zst": "show v3",
    "profiles/h200/demo/v3/n1024.time.json.zst": "list",
    "x.ncu-rep": "show x.ncu-rep",
    "y.ncu-rep": "import y.ncu-rep --study double --version v0",
    "z.ncu-rep": "report z.ncu-rep",
    # What `tune` and `capture` keep.
    "profiles/h200/demo/tuned": "list",
    "profiles/h200/demo/tuned/v3": "report",
    "profiles/h200/demo/tuned/v3/gpu.jsonl": "show v3",
    "profiles/h200/demo/tuned/v2/gpu.jsonl": "tune",
    ".workbench": "capture x -- /bin/true",
    ".workbench/captures": "list",
    ".workbench/captures/x": "capture x -- /bin/true",
    ".workbench/captures/x/capture.json.zst": "show @x",
    ".workbench/captures/x/detail.ncu.json.zst": "report @x",
}


def listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(path.parent)  # the whole name is longer than a socket's may be
        try:
            server.bind(path.name)
        finally:
            os.chdir(before)


KINDS: dict[str, Callable[[Path, Path], object]] = {
    "link to a folder": lambda path, outside: path.symlink_to(outside),
    "link to a file": lambda path, outside: path.symlink_to(outside / "precious"),
    "link to nothing": lambda path, outside: path.symlink_to(outside / "new"),
    "link to itself": lambda path, _: path.symlink_to(path),
    "link to a device": lambda path, _: path.symlink_to("/dev/zero"),
    "second name": lambda path, outside: os.link(outside / "precious", path),
    "pipe": lambda path, _: os.mkfifo(path),
    "socket": lambda path, _: listen(path),
    "folder": lambda path, _: path.mkdir(),
}


def act(line: str, root: Path) -> object:
    from workbench.engines.host.client import workspace

    try:
        if line == "save":
            Store(root / "profiles").save(make_profile(version="v2"))
        elif line == "run":
            with workspace(root, "x") as folder:
                (root / folder / "made").write_text("")
        elif line == "tune":
            name = "h200/demo/tuned/v2/gpu.jsonl"
            append_file(root / "profiles", name, b"{}\n")
        else:
            return harness.command(line)()
    except WorkbenchError as error:
        return error.exit_code
    return 0


HOSTILE = [(kind, place) for kind in KINDS for place in PLACES]


@pytest.mark.parametrize("portion", dealt("hostile files", len(HOSTILE), PARTS))
def test_places(root: Path, portion: Portion) -> None:
    outside = root.parent / "outside"
    assert harness.run("report", root).code == 0
    whole = root.parent / "whole"
    shutil.copytree(root, whole)
    for turn in book.turns(portion):
        kind, place = HOSTILE[turn.number]
        line = PLACES[place]
        shutil.rmtree(root)
        shutil.copytree(whole, root)
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        KINDS[kind](path, outside)
        with harness.untouched(outside, turn.kind):
            ended = harness.run(partial(act, line, root), root, turn.kind)
        book.must(ended.code in range(7), turn.kind, (kind, place, ended))


NAMES = (
    "../../outside/precious",
    "/{}",
    "a/../../../outside/precious",
    "studies/../../../outside/precious",
    "..",
    "./../../outside/precious",
    "studies//../../../outside/precious",
    "..\\..\\outside\\precious",
    "\0",
    "",
)


ENTRIES = [(entry, name) for entry in ("pages", "beside", "assets") for name in NAMES]


@pytest.mark.parametrize("portion", dealt("hostile manifests", len(ENTRIES), 2))
def test_manifests(root: Path, portion: Portion) -> None:
    outside = root.parent / "outside"
    assert harness.run("report", root).code == 0
    path = root / "reports" / MANIFEST
    before = path.read_bytes()
    mine = {"key": "x", "owner": "ladder:demo", "size": 4}
    for turn in book.turns(portion):
        entry, name = ENTRIES[turn.number]
        name = name.replace("{}", str(outside / "precious").lstrip("/"))
        kept = json.loads(before)
        if entry == "beside":
            kept["pages"]["gone.html"] = {**mine, "beside": {name: 4}}
        else:
            kept[entry][name] = mine if entry == "pages" else "x"
        path.write_text(json.dumps(kept))
        with harness.untouched(outside, turn.kind):
            line = turn.rng.choice(("report", "report --force", "report demo"))
            ended = harness.run(line, root, turn.kind)
        told = ended.code == 5 and "cannot be trusted" in ended.text
        book.must(told, turn.kind, (name, ended))
