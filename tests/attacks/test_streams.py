"""Output that cannot be written, inputs that no parser likes: named errors, and never a fault."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks import harness

pytestmark = [pytest.mark.attack, pytest.mark.timeout(170)]

LINES = (
    "list",
    "list --format json",
    "show v2",
    "show v2 --format csv",
    "diff v2 v3",
    "diff v2 v3 --format markdown",
    "check --all",
    "sweep --recorded",
    "report",
    "new v7",
    "no_such_command",
)


def fill(*numbers: int) -> None:
    for number in numbers:
        os.dup2(os.open("/dev/full", os.O_WRONLY), number)


STREAMS: dict[str, Callable[[], object]] = {
    "stdout is full": lambda: fill(1),
    "both are full": lambda: fill(1, 2),
    "stdout is closed": lambda: os.close(1),
    "all are closed": lambda: os.closerange(0, 3),
}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("streams", STREAMS)
def test_streams(root: Path, streams: str) -> None:
    for line in LINES:
        # A program of its own: what Python does with its streams at the end counts as well.
        ended = subprocess.run(
            [sys.executable, "-m", "workbench.cli", *line.split()],
            cwd=root,
            preexec_fn=STREAMS[streams],
            timeout=harness.HANG_S,
            check=False,
        )
        harness.counts["streams"] += 1
        full = "full" in streams and "no_such" not in line
        assert ended.returncode in ((3,) if full else (0, 1, 2, 6)), (line, ended.returncode)
    harness.check_whole(root)


ODD = {
    "deep settings": ("pyproject.toml", "[tool.workbench]\na = " + "[" * 5000 + "]" * 5000, 2),
    "a number of 5,000 digits": ("pyproject.toml", "[tool.workbench]\na = " + "9" * 5000, 2),
    "deep front matter": ("kernels/demo/v8.cu", f"/* ---\na = {'[' * 3000}\n--- */\n", 2),
    "digits in front matter": ("kernels/demo/v8.cu", f"/* ---\na = {'9' * 5000}\n--- */\n", 2),
    "a deep helper": ("kernels/demo/helper.py", "x = " + "(" * 3000 + ")" * 3000, 2),
    "a helper of signs": ("kernels/demo/helper.py", "x = " + "-" * 100_000 + "1", 2),
}


@pytest.mark.parametrize("odd", ODD)
def test_texts_that_no_parser_likes(root: Path, odd: str) -> None:
    name, text, code = ODD[odd]
    if name == "pyproject.toml":
        (root / "workbench.toml").unlink()
    (root / name).write_text(text)
    ended = harness.run("list", root)
    harness.counts["odd texts"] += 1
    assert ended.code == code and name.rpartition("/")[2] in ended.text, ended


def test_a_working_folder_that_is_gone(root: Path) -> None:
    for line in LINES[:-1]:
        gone = root / "gone"
        gone.mkdir()

        def act(line: str = line, gone: Path = gone) -> object:
            os.chdir(gone)
            gone.rmdir()
            return harness.command(line)()

        log = root.parent / "log"
        ended = harness.finish(harness.start(act, root, log), log)
        harness.counts["removed folders"] += 1
        assert ended.code == 3 and "working folder is gone" in ended.text, ended


def test_a_character_set_without_our_signs(root: Path) -> None:
    for line in LINES[:-1]:
        ended = subprocess.run(
            [sys.executable, "-m", "workbench.cli", *line.split()],
            cwd=root,
            env={**os.environ, "PYTHONIOENCODING": "iso-8859-1"},
            capture_output=True,
            timeout=harness.HANG_S,
            check=False,
        )
        harness.counts["streams"] += 1
        assert ended.returncode in (0, 1, 6), (line, ended)


def test_no_escape_reaches_a_terminal(root: Path) -> None:
    """From the title of a version, the name of a file, or what an error quotes."""
    evil = "\x1b]0;owned\x07"
    path = next((root / "kernels/demo").glob("v2*.cu"))
    path.write_text(path.read_text().replace('title = "', 'title = "\\u001b]0;owned\\u0007', 1))
    for line in (*LINES[:9], "list --format csv", "list --format markdown", f"show {evil}"):
        ended = harness.run(line, root)
        harness.counts["escapes"] += 1
        assert "\x1b]" not in ended.text and "\x07" not in ended.text, line
