"""The command line itself: help without imports, clear words, documented exit codes."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import pytest

from workbench import cli
from workbench.project import Project


def run(
    *arguments: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workbench.cli", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **variables},
    )


#: What help does without; Chinese takes the widths of its letters from rich.
HEAVY = {"en": {"rich"}, "zh": {"rich.console"}}


@pytest.mark.parametrize("lang", HEAVY)
def test_help_lists_every_command_and_imports_none(lang: str) -> None:
    code = (
        "import sys; from workbench import cli\n"
        f"try: cli.main(['--lang', {lang!r}, '--help'])\n"
        "except SystemExit: pass\n"
        f"heavy = {HEAVY[lang]} | {{'pandas', 'numpy', 'jinja2', 'ncu_report', 'plotly'}}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"\w-$", done.stdout, re.M)
    shown = cli.app.list_commands(click.Context(cli.app))
    assert len(shown) <= 18
    for name in shown:
        assert re.search(rf"^  {name}\s", done.stdout, re.M), name


def test_an_unknown_command_names_the_nearest() -> None:
    done = run("shwo")
    assert done.returncode == 2
    assert "show" in done.stderr


def test_no_command_is_answered_with_the_help_once() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == run("--help").stdout


def test_a_shell_completes_commands_and_options() -> None:
    for words, one in (
        ("workbench ve", "plain,verify"),
        ("workbench report --si", "plain,--single-file"),
    ):
        done = run(
            _WORKBENCH_COMPLETE="bash_complete",
            COMP_WORDS=words,
            COMP_CWORD=str(words.count(" ")),
            WORKBENCH_LANG="zh",
        )
        assert (done.stdout.split(), done.stderr) == ([one], "")


def test_what_others_call_it_is_understood() -> None:
    assert "Did you mean `diff`?" in run("compare", "v1", "v2").stderr


def test_an_error_prints_what_and_hint_and_no_traceback(tmp_path: Path) -> None:
    done = run("show", "x.ncu-rep", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: no such report: x.ncu-rep\n  hint: Check the path.\n"


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = run("--debug", "show", "x.ncu-rep", cwd=tmp_path)
    assert "Traceback" in done.stderr
    assert done.returncode != 0


def test_a_fault_of_our_own_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(cli.app, "main", broken)
    with pytest.raises(SystemExit) as ended:
        cli.main(["list"])
    assert ended.value.code == cli.INTERNAL
    assert "an internal error of workbench: ZeroDivisionError" in capsys.readouterr().err


UNWRITTEN = {
    "the answer": (OSError(errno.ENOSPC, "No space left on device"), "cannot write the answer: No"),
    "a file": (OSError(errno.ENOSPC, "No space", "x/y"), "no space left to write x/y"),
    "a disk that became read-only": (
        OSError(errno.EROFS, "Read-only", "x/y"),
        "cannot write x/y: R",
    ),
    "a failing disk": (OSError(errno.EIO, "Input/output error", "x/y"), "cannot write x/y: Input"),
}


@pytest.mark.parametrize("what", UNWRITTEN)
def test_what_cannot_be_written_is_named(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error, words = UNWRITTEN[what]

    def full(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli.app, "main", full)
    with pytest.raises(SystemExit) as ended:
        cli.main(["list"])
    assert ended.value.code == 3 and words in capsys.readouterr().err


LONG = OSError(errno.ENAMETOOLONG, "File name too long", "n" * 256)
NOT_OURS = {
    "memory": (MemoryError("Unable to allocate 4 TiB"), 3, "not enough memory: unable to allocate"),
    "memory without words": (MemoryError(), 3, "memory: the system could not provide more"),
    "memory of the system": (OSError(errno.ENOMEM, "Cannot allocate memory"), 3, "enough memory"),
    "a name": (LONG, 2, f"the name {'n' * 40}…{'n' * 20} (256 bytes) is longer"),
    "a name in a group": (ExceptionGroup("tasks", [LONG]), 2, "longer than a file system allows"),
    "a folder": (PermissionError(errno.EACCES, "Permission denied", "p"), 3, "p: permission"),
    "files": (OSError(errno.EMFILE, "Too many open files", "x"), 3, "open files or processes"),
}


@pytest.mark.parametrize("what", NOT_OURS)
def test_what_the_system_does_not_give_is_no_fault_of_ours(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error, code, words = NOT_OURS[what]

    def short(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli.app, "main", short)
    with pytest.raises(SystemExit) as ended:
        cli.main(["list"])
    assert (ended.value.code, words in (told := capsys.readouterr().err)) == (code, True)
    assert "hint:" in told


def test_no_room_for_temporary_files_is_told_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def looks(**_: object) -> None:
        tempfile.mkdtemp()

    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/no/such/folder"])
    monkeypatch.setattr(cli.app, "main", looks)
    with pytest.raises(SystemExit) as ended:
        cli.main(["list"])
    told = capsys.readouterr().err
    assert ended.value.code == 3
    assert "no folder for temporary files" in told and "TMPDIR" in told


def test_ctrl_c_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.app, "main", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main(["list"])
    assert ended.value.code == 130
    assert "interrupted" in capsys.readouterr().err


NUMBA = "import numpy as np\nfrom numba import cuda\n\n\n@cuda.jit\ndef f(x):\n    x[0] = 1\n"
IN_PYTHON = {
    "numba": NUMBA,
    "cupy": "import cupy as cp\n\nx = cp.zeros(3)\n",
    "triton": "import triton\nimport triton.language as tl\n",
}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("numba", "run bench.py"),
        ("cupy", "run v0 bench.py"),
        ("triton", "run bench.py"),
        ("numba", "capture bench.py"),
        ("numba", "new --from-launch bench.py"),
        ("numba", "new --from-cu bench.py"),
        ("cupy", "new v1 --from bench.py"),
        ("numba", "verify bench.py"),
        ("cupy", "show bench.py"),
        ("numba", "diff bench.py other.py"),
        ("cupy", "verify v5"),
        ("numba", "profile v5"),
    ],
)
def test_a_program_in_python_is_sent_to_the_command_that_serves_it(
    project: Project, capsys: pytest.CaptureFixture[str], kind: str, words: str
) -> None:
    if {"run" if "--from-" in words else words.split()[0]} - cli.COMMANDS.keys():
        pytest.skip("its feature is not here")
    file = "kernels/double/v5_bench.py" if words.endswith("v5") else "bench.py"
    (project.root / file).write_text(IN_PYTHON[kind])
    with pytest.raises(SystemExit) as ended:
        cli.main(words.split())
    hint = capsys.readouterr().err.partition("hint: ")[2]
    assert ended.value.code in (2, 3)
    assert f"`workbench capture NAME -- python {file}`" in " ".join(hint.split())
    assert ("`workbench run -- python" in hint) == (kind != "cupy")


@pytest.mark.parametrize("words", ["run plain.py", "show gone.py", "verify v6", "capture -- ./no"])
def test_other_files_keep_the_hint_of_their_error(
    project: Project, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    (project.root / "plain.py").write_text("print(1)\n")
    front = '"""A kernel.\n\n---\ntitle = 3\n---\n"""\n'
    (project.kernels / "double" / "v6_triton.py").write_text(front + IN_PYTHON["triton"])
    with pytest.raises(SystemExit):
        cli.main(words.split())
    assert "are in Python" not in capsys.readouterr().err
