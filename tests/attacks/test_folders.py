"""Folders whose files have the names of modules and programs, under every command and its children.

The commands are real processes: a fork of ours has loaded already what these would shadow.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, book, dealt
from tests.engines.stand_ins import THERE
from workbench.cli import COMMANDS

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1800)]

PARTS = 16
EMULATED = "--engine emulator --arch sm_90"
#: What each command is given; one that is not named here is tried by its name alone.
GIVEN: dict[str, tuple[str, ...]] = {
    "show": ("sgemm_v3.ncu-rep", "demo/v2", "@HEAD"),
    "diff": ("sgemm_v3.ncu-rep sgemm_v3.ncu-rep --force", "demo/v2 demo/v3", "@HEAD @HEAD~1"),
    "check": ("demo/v3", "--study double --against HEAD " + EMULATED),
    "report": ("sgemm_v3.ncu-rep", "demo --force"),
    "import": ("sgemm_v3.ncu-rep --study double --version v0 --force",),
    "verify": (f"double/v0 {EMULATED}", f"double/v0 {' '.join(THERE)}"),
    "profile": (
        f"double/v0 {EMULATED}",
        f"double/v0 {' '.join(THERE)}",
        f"double/v0 --dry-run {' '.join(THERE)}",
    ),
    "time": (f"double/v0 {' '.join(THERE)}", f"double --all-problems {' '.join(THERE)}"),
    "capture": ("--timeout 20 -- /bin/true", "--at HEAD -- /bin/true"),
    "export": ("counters", "lines --out exported"),
    "export readme": ("demo", "demo --chart x.svg"),
    "export figure": ("ladder demo --out x.svg", "step v2 v3 --out x.png"),
    "new": ("v30 --study demo",),
    "init": (".",),
    "docs": ("ci",),
    "list jobs": ("",),
    "serve mcp": ("", "--allow verify"),
    "serve": ("--no-open", ""),
}
LINES = [(name, given) for name in COMMANDS for given in GIVEN.get(name, ("",))]
#: Modules of the library, of what we depend on, and of ours: nothing imports one of these folders.
MODULES = (
    *("json", "contextlib", "numpy", "runpy", "msgspec", "enum", "ctypes", "signal", "tempfile"),
    *("subprocess", "threading", "dataclasses", "re", "typing", "pathlib", "nvtx", "zstandard"),
    *("ncu_report", "cuda", "triton", "pandas", "click", "rich", "secrets", "tomllib", "ptxemu"),
)
PROGRAMS = ("python", "python3", "git", "nvcc", "ncu", "cc", "gcc", "nvidia-smi", "sbatch", "ptxas")
PLACES = ("root", "study", "included")


def plant(folder: Path, kind: str, mark: Path) -> None:
    """Files of a kind: each writes its name into `mark` when it is run."""

    def module(path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"open({str(mark)!r}, 'a').write({path.name!r} + ' ')\n")

    if kind == "modules":
        for name in MODULES:
            module(folder / f"{name}.py")
    elif kind == "startup":
        for name in ("sitecustomize", "usercustomize", "_distutils_hack"):
            module(folder / f"{name}.py")
        module(folder / "encodings" / "__init__.py")
        module(folder / "__main__.py")
        (folder / "evil.pth").write_text(f"import os; open({str(mark)!r}, 'a').write('pth')\n")
        (folder / "pyvenv.cfg").write_text(
            f"home = {folder}\ninclude-system-site-packages = true\n"
        )
        (folder / "python3._pth").write_text(f"{folder}\nimport site\n")
    elif kind == "ours":
        for package in ("workbench", "tests"):
            module(folder / package / "__init__.py")
            module(folder / package / "cli.py")
        module(folder / "worker.py")
    else:
        for name in PROGRAMS:
            path = folder / name
            path.write_text(f'#!/bin/sh\necho "$0 $@" >> "{mark}"\nexit 1\n')
            path.chmod(0o755)


KINDS = ("modules", "startup", "ours", "programs")
CASES = [(kind, place, line) for kind in KINDS for place in PLACES for line in LINES]


@pytest.mark.parametrize("portion", dealt("hostile folders", len(CASES), PARTS))
def test_folders(root: Path, portion: Portion, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = root.parent / "outside"
    whole = root.parent / "whole"
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        who = ["-c", "user.name=x", "-c", "user.email=x@y.invalid"]
        subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)
    with (root / "kernels" / "double" / "v0_plain.cu").open("a") as version:
        version.write("// changed\n")
    shutil.copytree(root, whole)
    path = os.environ["PATH"]
    for turn in book.turns(portion):
        kind, place, (name, given) = CASES[turn.number]
        shutil.rmtree(root)
        shutil.copytree(whole, root)
        monkeypatch.setenv("XDG_CACHE_HOME", str(root.parent / f"cache{turn.number}"))
        # As somebody has it who wants to start what lies in a folder by its name.
        monkeypatch.setenv("PATH", f".:{path}:" if kind == "programs" else path)
        plant(root, kind, outside / "pwned")
        if place == "study":
            plant(root / "kernels" / "double", kind, outside / "pwned")
        if place == "included":
            file = root / "kernels" / "double" / "v0_plain.cu"
            files = [each.name for each in root.iterdir() if each.suffix == ".py"]
            lines = "".join(f'#if 0\n#include "../../{each}"\n#endif\n' for each in files)
            file.write_text(file.read_text() + lines)
        folder = root / "kernels" / "double" if place == "study" else root
        monkeypatch.chdir(folder)
        calls = (
            ("show", {"version": "demo/v2"}),
            ("verify" if given else "list", {"version": "double/v0"} if given else {}),
        )
        words = [*name.split(), *given.split()]
        with harness.untouched(outside, turn.kind):
            ended = harness.run(harness.real(words, calls), folder, turn.kind)
        expected = (*range(8), 124, 130) if words[0] == "serve" else range(8)
        book.must(ended.code in expected, turn.kind, (kind, place, words, ended))
