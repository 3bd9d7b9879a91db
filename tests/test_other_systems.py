"""Viewing on Windows and macOS, imitated: the same answers and pages without POSIX alone has."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from tests.views import site_data
from workbench.project import Project
from workbench.study.folder import run_study

IMITATION = Path(__file__).with_name("imitation.py")
LINES = ("list", "show v3", "diff v2 v3")
MORE = (
    "report",
    "report --force",
    "check --all",
    "list --format json",
    "show v3 --format csv",
    "diff v2 v3 --format markdown",
    "time --all --recorded",
    "show sgemm_v3.ncu-rep",
    "report sgemm_v3.ncu-rep --out other",
    "frames.py",
    "new v9",
    "init more",
)
FRAMES = """
from pathlib import Path
from workbench import frames
from workbench.store import Store

store = Store(Path("profiles"))
profiles = [store.load(entry.path) for entry in store.find()]
print(frames.counters(profiles).to_csv(), frames.lines(profiles).to_csv())
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and a copy of it beside it that stays as it is."""
    root = tmp_path / "project"
    site_data.wide(root)
    run_study(Project(root=root, default_study="demo"), "demo")
    (root / "frames.py").write_text(FRAMES, encoding="utf-8")
    (root / "more").mkdir()
    shutil.copytree(root, tmp_path / "copy")
    monkeypatch.chdir(root)
    return root


def imitated(system: str, folder: Path, *lines: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-X", "warn_default_encoding", str(IMITATION), system, *lines],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def plain(cli: Cli, lines: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    out = ""
    for line in lines:
        if line.endswith(".py"):
            exec(Path(line).read_text(encoding="utf-8"), {})
            out += f"$ {line}\n{capsys.readouterr().out}"
        else:
            code, text, _ = cli(*line.split())
            out += f"$ {line}\n{text}-> {code}\n"
    return out


def files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }


def check(
    system: str, root: Path, lines: tuple[str, ...], cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    said = imitated(system, root, *lines)
    made = files(root)
    for path in root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(root.parent / "copy", root, dirs_exist_ok=True)
    assert said == plain(cli, lines, capsys)
    assert made == files(root)


def test_views_on_windows(root: Path, cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    check("windows", root, LINES, cli, capsys)


LOCKED = """
import subprocess, sys
from pathlib import Path
from workbench.disk.lock import BusyError, locked

with locked(Path("x"), 0):
    try:
        with locked(Path("x"), 0):
            print("twice")
    except BusyError as error:
        print(error.message)
    print(sorted(each.name for each in Path("x").iterdir()))
print(list(Path("x").iterdir()))
"""


def test_a_lock_of_windows_keeps_others_out_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "lock.py").write_text(LOCKED, encoding="utf-8")
    _, first, *rest = imitated("windows", tmp_path, "lock.py").splitlines()
    assert first.startswith("another process") and first.endswith("writing below x")
    assert rest == ["['.lock']", "[]"]


LINKS = """
import os
from pathlib import Path
from workbench.disk.writing import clear_folder, create_files, replace_file
from workbench.errors import WorkbenchError

def tried(act, *given):
    try:
        act(Path("x"), *given)
        print("done")
    except WorkbenchError as error:
        print(error.message)

replace_file(Path("x"), "a/b", b"1")
replace_file(Path("x"), "a/b", b"2", durable=True)
print(Path("x/a/b").read_bytes())
tried(create_files, {"a/b": b"3"})
Path("x/link").symlink_to("../outside", target_is_directory=True)
tried(replace_file, "link/precious", b"")
tried(replace_file, "c:precious", b"")
tried(replace_file, "..\\\\outside\\\\precious", b"")
Path("x/junction").mkdir()
plain = os.stat  # without dir_fd
class Junction:
    def __init__(self, status): self.status = status
    def __getattr__(self, name):
        return 0xA0000003 if name == "st_reparse_tag" else getattr(self.status, name)
import stat
stat.IO_REPARSE_TAG_MOUNT_POINT = 0xA0000003
os._instead["stat"] = lambda path, **more: (
    Junction(plain(path, **more)) if str(path).endswith("junction") else plain(path, **more)
)
tried(replace_file, "junction/file", b"")
tried(clear_folder, "a")
print(sorted(each.name for each in Path("x").rglob("*")))
"""


def test_writing_on_windows_follows_no_link_and_no_junction(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("kept")
    (tmp_path / "write.py").write_text(LINKS, encoding="utf-8")
    said = imitated("windows", tmp_path, "write.py").splitlines()[1:]
    assert said == [
        "b'2'",
        "x/a/b already exists",
        "x/link is a link, and workbench does not write through it",
        "'c:precious' is not the name of a file below x",
        "'..\\\\outside\\\\precious' is not the name of a file below x",
        "x/junction is a link, and workbench does not write through it",
        "done",
        "['a', 'junction', 'link']",
    ]
    assert (tmp_path / "outside" / "precious").read_text() == "kept"


@pytest.mark.slow
@pytest.mark.parametrize("system", ["windows", "macos"])
def test_all_that_needs_no_gpu(
    system: str,
    root: Path,
    cli: Cli,
    capsys: pytest.CaptureFixture[str],
    report: Callable[[str], Path],
) -> None:
    for folder in (root, root.parent / "copy"):
        shutil.copy(report("sgemm_v3"), folder)
    check(system, root, (*LINES, *MORE), cli, capsys)
