"""A file that is no version is named with its error, and all else works, in every command."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from workbench.cli import COMMANDS
from workbench.compile import compilers
from workbench.project import Project

pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.skipif(not compilers.available(), reason="no CUDA compiler here"),
]

#: How each command is asked for versions that are sound; None: it reads no version itself.
ASKED: dict[str, list[str] | None] = {
    "list": ["list"],
    "show": ["show", "v1"],
    "diff": ["diff", "v0", "v1"],
    "check": ["check", "v1"],
    "report": ["report"],
    "serve": None,  # the pages of `report`
    "capture": None,
    "run": None,  # a program, and no study
    "profile": ["profile", "v1", "--engine", "emulator", "--seed", "5"],
    "time": ["time", "v1"],
    "tune": ["tune", "v1", "--engine", "emulator"],  # refused: it names nothing to choose
    "verify": ["verify", "v0", "v1", "--engine", "emulator", "--seed", "5"],
    "list jobs": ["list", "jobs"],
    "export": ["export"],
    "export readme": ["export", "readme"],
    "export figure": ["export", "figure", "step", "v1", "v2"],
    "import": ["import", "nothing.ncu-rep", "v1"],
    "doctor": None,
    "serve mcp": None,  # runs the other commands
    "serve lsp": None,  # says of each file what is wrong with it
    "docs": None,
    "new": ["new", "v2"],
    "init": None,
}


def damage(folder: Path) -> dict[str, str]:
    """Files that are no versions, of every kind; what each is called, and what is said of it."""
    text = (folder / "v0_plain.cu").read_text()
    (folder / "v60.cu").write_text("")
    for name in ("v70_a.cu", "v70_b.cu"):
        (folder / name).write_text(text)
    (folder / "v81.cu").write_text(text.replace("[[launch]]", "[[launch]]\nkernel_ = 3", 1))
    (folder / "v82.cu").write_text(text.replace("/* ---", "/* ---\ntitel = 1", 1))
    (folder / "v83.cu").write_text(text.replace("/* ---", '/* ---\nparent = "v99"', 1))
    (folder / "v84.cu").write_bytes(b"/* ---\n\xff")
    (folder / "blas.cu").write_text("/* ---\ntitle = 'x'\n")
    return {
        "v60": "v60.cu:1: no front matter",
        "v70": "v70_b.cu: version v70 is also defined by kernels/double/v70_a.cu",
        "v81": "unknown key `kernel_`",
        "v82": "unknown key `titel`",
        "v83": "unknown parent `v99`",
        "v84": "not UTF-8",
        "blas": "the front matter is not closed",
    }


@pytest.mark.slow
def test_one_bad_file_stops_nothing_else(
    cli: Cli, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    add_version: object,
) -> None:  # fmt: skip
    add_version("v1", "again")  # type: ignore[operator]
    assert cli("profile", "v0", "v1", "--engine", "emulator", "--seed", "5")[0] == 0
    sound, broken = project.root, tmp_path / "broken"
    shutil.copytree(sound, broken)
    said = damage(broken / "kernels/double")
    assert ASKED.keys() >= COMMANDS.keys(), "a new command is asked here, too"
    for words in filter(None, ASKED.values()):
        answers = []
        for root in (sound, broken):
            monkeypatch.chdir(root)
            code, out, err = cli(*words)
            answers.append((code, re.sub(r"[\d.]+ m?s\b", "", out.replace(str(root), ""))))
        assert answers[0] == answers[1], words
        assert answers[0][0] != 70, err
    for version, error in said.items():
        code, _, err = cli("verify", version, "--engine", "emulator")
        assert code == 2 and error in err
    code, out, err = cli("verify", "--all", "--engine", "emulator", "--seed", "5")
    assert code == 2 and f"{len(said)} of " in err
    for version, error in said.items():
        assert f"{version}: error: kernels/double/" in err and error in err
    assert {"v0", "v1", "v2", *said} <= {line.split()[0] for line in out.splitlines()[2:]}
    code, out, _ = cli("verify", "v0", "v81", "--engine", "emulator", "--format", "csv")
    assert code == 2 and {line.split(",")[1] for line in out.splitlines()[1:]} == {"v0", "v81"}
    _, _, err = cli("list")
    assert all(f"note: {version} is left out: " in err for version in said)
