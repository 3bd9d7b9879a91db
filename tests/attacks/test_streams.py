"""Output that cannot be written, inputs that no parser likes: named errors, and never a fault."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, book, dealt
from tests.engines.stand_ins import THERE

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1200)]

LINES = (
    "list",
    "list --format json",
    "show v2",
    "show v2 --format csv",
    "diff v2 v3",
    "diff v2 v3 --format markdown",
    "check --all",
    "time --all --recorded",
    "export launches",
    "report",
    "new v{}",
    "doctor",
    "verify double/v0 --engine emulator",
    "profile double/v0 --engine emulator",
    f"time double/v0 --again --limit 0.2 {' '.join(THERE)}",
    "import sgemm_v3.ncu-rep --study double --version v0 --force",
    "--help",
    "no_such_command",
)


def fill(*numbers: int) -> None:
    for number in numbers:
        handle = os.open("/dev/full", os.O_WRONLY)
        os.dup2(handle, number)
        os.close(handle)


def closed_pipe() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.dup2(writing, 1)
    os.close(writing)


STREAMS: dict[str, Callable[[], object]] = {
    "stdout is full": lambda: fill(1),
    "stderr is full": lambda: fill(2),
    "both are full": lambda: fill(1, 2),
    "stdout is closed": lambda: os.close(1),
    "stderr is closed": lambda: os.close(2),
    "stdin is closed": lambda: os.close(0),
    "all are closed": lambda: os.closerange(0, 3),
    "nobody reads": closed_pipe,
}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("portion", dealt("streams", len(STREAMS) * len(LINES), 6))
def test_streams(root: Path, portion: Portion) -> None:
    for turn in book.turns(portion):
        streams = list(STREAMS)[turn.number // len(LINES)]
        line = LINES[turn.number % len(LINES)].format(turn.number)
        # A program of its own: what Python does with its streams at the end counts as well.
        try:
            code = subprocess.run(
                [sys.executable, "-m", "workbench.cli", *line.split()],
                cwd=root,
                preexec_fn=STREAMS[streams],
                timeout=harness.HANG_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            book.found(turn.kind, "hangs", f"{streams}: {line}")
            continue
        book.tried(turn.kind)
        book.ended(turn.kind, code)
        if code == harness.INTERNAL:
            book.found(turn.kind, "exits of 70", f"{streams}: {line}")
        full = streams in ("stdout is full", "both are full") and "no_such" not in line
        book.must(code in ((3, 4) if full else range(7)), turn.kind, (streams, line, code))
    harness.check_whole(root, "streams")


CODINGS = ("iso-8859-1", "ascii", "cp1252", "utf-16", "koi8-r:strict", "utf-8:surrogateescape")


@pytest.mark.parametrize("portion", dealt("character sets", len(CODINGS) * len(LINES), 3))
def test_a_character_set_without_our_signs(
    root: Path, portion: Portion, monkeypatch: pytest.MonkeyPatch
) -> None:
    for turn in book.turns(portion):
        monkeypatch.setenv("PYTHONIOENCODING", CODINGS[turn.number // len(LINES)])
        line = LINES[turn.number % len(LINES)].format(turn.number)
        ended = harness.run(line, root, turn.kind)
        book.must(ended.code in range(7), turn.kind, (line, ended))


DEEP = 5000
ODD = {
    "deep settings": ("pyproject.toml", "[tool.workbench]\na = " + "[" * DEEP + "]" * DEEP, 2),
    "a number of 5,000 digits": ("pyproject.toml", "[tool.workbench]\na = " + "9" * DEEP, 2),
    "deep front matter": ("kernels/demo/v8.cu", f"/* ---\na = {'[' * 3000}\n--- */\n", 0),
    "digits in front matter": ("kernels/demo/v8.cu", f"/* ---\na = {'9' * DEEP}\n--- */\n", 0),
    "a deep helper": ("kernels/demo/helper.py", "x = " + "(" * 3000 + ")" * 3000, 0),
    "a helper of signs": ("kernels/demo/helper.py", "x = " + "-" * 100_000 + "1", 0),
}


@pytest.mark.parametrize("portion", dealt("odd texts", len(ODD)))
def test_texts_that_no_parser_likes(root: Path, portion: Portion) -> None:
    for turn in book.turns(portion):
        name, text, code = list(ODD.values())[turn.number]
        settings = (root / "workbench.toml").read_text()
        if name == "pyproject.toml":
            (root / "workbench.toml").unlink()
        (root / name).write_text(text)
        ended = harness.run("list", root, turn.kind)
        told = ended.code == code and name.rpartition("/")[2] in ended.text
        book.must(told, turn.kind, (name, ended))
        (root / name).unlink()
        (root / "workbench.toml").write_text(settings)


@pytest.mark.parametrize("portion", dealt("removed folders", len(LINES) - 2))
def test_a_working_folder_that_is_gone(root: Path, portion: Portion) -> None:
    for turn in book.turns(portion):
        gone = root / "gone"
        gone.mkdir()
        line = LINES[turn.number].format(turn.number)

        def act(line: str = line, gone: Path = gone) -> object:
            os.chdir(gone)
            gone.rmdir()
            return harness.command(line)()

        ended = harness.run(act, root, turn.kind)
        told = ended.code == 3 and "working folder no longer exists" in ended.text
        book.must(told or line == "doctor", turn.kind, (line, ended))


EVIL = "\x1b]0;owned\x07"
SHOWN = (*LINES[:10], "list --format csv", "list --format markdown", f"show {EVIL}", f"new {EVIL}")


@pytest.mark.parametrize("portion", dealt("escapes", len(SHOWN)))
def test_no_escape_reaches_a_terminal(root: Path, portion: Portion) -> None:
    """From the title of a version, the name of a file, or what an error quotes."""
    path = next((root / "kernels/demo").glob("v2*.cu"))
    path.write_text(path.read_text().replace('title = "', 'title = "\\u001b]0;owned\\u0007', 1))
    for turn in book.turns(portion):
        ended = harness.run(SHOWN[turn.number], root, turn.kind)
        book.must("\x1b]" not in ended.text and "\x07" not in ended.text, turn.kind, ended)
