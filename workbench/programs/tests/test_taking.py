"""`workbench capture` from end to end, around a program and an ncu that stand in."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from tests.processes import runs, until
from workbench.programs.capture.capture_store import Shelf
from workbench.programs.capture.records import ProgramCapture
from workbench.store import codec

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "tests" / "data" / "ncurep"
PROGRAM = (sys.executable, str(HERE / "fake_program.py"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, a tracer that the fake program stands for, and a fake ncu."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(HERE.parents[2]))
    monkeypatch.setenv("FAKE_REPORT", str(DATA / "sgemm_v3.ncu-rep.zst"))
    monkeypatch.setenv("FAKE_ARGV", str(tmp_path / "argv.json"))
    monkeypatch.setenv("FAKE_PIDS", str(tmp_path / "pids"))
    ncu = tmp_path / "ncu"
    ncu.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / "ncu_stand_in.py"} "$@"\n')
    ncu.chmod(0o755)
    monkeypatch.setenv("WORKBENCH_NCU", str(ncu))
    monkeypatch.setattr("workbench.programs.capture.survey.tracer", lambda: tmp_path / "tracer.so")
    monkeypatch.setattr("workbench.programs.cli.capture.find_gpus", lambda: ([None], ""))
    return folder


def kept(place: Path, name: str = "before") -> ProgramCapture:
    return Shelf(place).load(name)


def test_a_capture_holds_the_survey_and_the_kernels_that_matter(
    place: Path, cli: Cli, tmp_path: Path
) -> None:
    code, _, said = cli("capture", "before", "--", *PROGRAM)
    assert code == 0, said
    capture = kept(place)
    assert [(w.name, w.launches, w.kind) for w in capture.survey.works] == [
        ("sgemm_v1", (10,), "kernel"),
        ("sgemm_v3", (40,), "kernel"),
        ("[fill]", (4,), "fill"),
    ]
    assert capture.survey.totals == (10 * 5000 + 45 + 40 * 900 + 780 + 406,)
    detail = Shelf(place).detail(capture)
    assert detail is not None and [x.kernel for x in detail.launches] == ["sgemm_v3"]
    assert [capture.survey.works[place].name for place in capture.detail] == ["sgemm_v3"]
    argv = json.loads((tmp_path / "argv.json").read_text())
    names, _, numbers = argv[argv.index("--kernel-id") + 1].rpartition(":")
    assert names == "::regex:^(sgemm_v1|sgemm_v3)$"
    chosen = [int(number) for number in numbers.split("|")]
    assert len(chosen) == 3 and min(chosen) <= 10 and max(chosen) <= 40
    code, _, said = cli("capture", "after", "--top", "1", "--like", "@before", "--", *PROGRAM)
    assert code == 0, said
    argv = json.loads((tmp_path / "argv.json").read_text())
    assert "sgemm_v3" in argv[argv.index("--kernel-id") + 1], "it was looked at before"


def test_an_ncu_that_compresses_its_reports(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NCU", "repz")
    code, _, said = cli("capture", "before", "--", *PROGRAM)
    assert code == 0, said
    detail = Shelf(place).detail(kept(place))
    assert detail is not None and [x.kernel for x in detail.launches] == ["sgemm_v3"]


def test_what_is_kept_names_no_host_no_user_and_no_environment(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada.lovelace")
    monkeypatch.setenv("LOGNAME", "adalovelace")
    monkeypatch.setenv("SECRET_TOKEN", "hunter2-hunter2")
    monkeypatch.setattr("socket.gethostname", lambda: "enchantress")
    words = ("/home/ada.lovelace/data.bin", "/scratch/adalovelace/x", str(place / "in.bin"))
    assert cli("capture", "before", "--", *PROGRAM, *words)[0] == 0
    files = list((place / ".workbench").rglob("*.zst"))
    assert len(files) == 2
    for path in files:
        plain = codec.unpack(path.read_bytes()).decode()
        for private in ("ada.lovelace", "adalovelace", "hunter2", "enchantress", str(place)):
            assert private not in plain, (path.name, private)
    assert kept(place).command[2:] == ("~/data.bin", "/scratch/user/x", "in.bin")


@pytest.mark.parametrize(
    ("case", "code", "words"),
    [
        ("exit3", 3, "exit code 3"),
        ("crash", 128 + signal.SIGSEGV, "SIGSEGV"),
        ("no-cuda", 2, "never initialized CUDA"),
        ("no-launch", 2, "launched no kernel"),
    ],
)
def test_a_program_that_fails_keeps_nothing_and_its_code_is_passed_on(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, case: str, code: int, words: str
) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", case)
    found, _, said = cli("capture", "before", "--", *PROGRAM)
    assert found == code and words in said
    assert not (place / ".workbench").exists()


def test_a_program_that_hangs_is_ended_in_time(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", "hang")
    code, _, said = cli("capture", "before", "--timeout", "2", "--", *PROGRAM)
    assert code == 4 and "within 2 s" in said
    assert not runs(int((tmp_path / "pids").read_text()))
    assert not (place / ".workbench").exists()


@pytest.mark.parametrize(
    ("case", "code", "notice"),
    [
        ("denied", 0, "counters-denied"),
        ("nothing", 0, "detail-empty"),
        ("broken", 4, "detail-empty"),
        ("unprepared", 4, "detail-empty"),
        ("crash", 4, "detail-failed"),
        ("damaged", 4, "detail-unread"),
    ],
)
def test_the_survey_is_kept_where_ncu_gives_nothing(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, case: str, code: int, notice: str
) -> None:
    monkeypatch.setenv("FAKE_NCU", case)
    found, _, said = cli("capture", "before", "--", *PROGRAM)
    assert found == code, said
    capture = kept(place)
    assert [x.code for x in capture.notices] == [notice] and f"[{notice}]" in said
    assert capture.detail == () and Shelf(place).detail(capture) is None
    if case == "unprepared":
        assert "could not set up the counters" in said and "Unknown Error on device 0" in said
        assert "kernels that were picked" not in said
    if case == "denied":
        assert "NVreg_RestrictProfilingToAdminUsers" in said
        assert "`workbench profile --engine emulator`" in said and "needs only times" in said
        code, out, _ = cli("show", "@before")  # and goes on with it
        assert code == 0 and "sgemm_v3" in out
        assert cli("diff", "@before", "@before")[0] == 0
        code, _, said = cli("capture", "again", "--survey", "ncu", "--", *PROGRAM)
        assert code == 3 and "Tracing needs no counters" in said


def test_the_survey_is_kept_where_the_run_under_ncu_does_not_end(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that waits for another process, replayed alone, waits for ever."""
    monkeypatch.setenv("FAKE_NCU", "hang")
    code, _, said = cli("capture", "before", "--timeout", "3", "--", *PROGRAM)
    assert code == 4 and "did not end within 3 s" in said and "kept as @before" in said
    assert kept(place).survey.launches == 50 and not kept(place).detail
    assert [notice.code for notice in kept(place).notices] == ["detail-timeout"]


def test_several_processes_are_one_program(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", "two")
    assert cli("capture", "before", "--no-detail", "--", *PROGRAM)[0] == 0
    capture = kept(place)
    assert capture.survey.runs[0].processes == 2
    assert {work.name for work in capture.survey.works} >= {"sgemm_v2", "sgemm_v3"}


def test_a_process_that_was_killed_is_told(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", "killed")
    assert cli("capture", "before", "--no-detail", "--", *PROGRAM)[0] == 0
    assert [x.code for x in kept(place).notices] == ["cut-processes"]


def test_every_run_reads_the_same_standard_input(place: Path, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(STARTER.format(tmp_path=tmp_path))
    environment = {**os.environ, "FAKE_PROGRAM": "reads"}
    words = [sys.executable, str(script), "capture", "before", "--", *PROGRAM]
    done = subprocess.run(
        words, input=b"words", capture_output=True, env=environment, check=True, timeout=60
    )
    # The program's output is its own, once a run; what we say goes elsewhere.
    assert done.stdout == 2 * b"out words\n" and b"capture: kept @before" in done.stderr
    (tmp_path / "in").write_bytes(b"skipped words")
    with (tmp_path / "in").open("rb") as file:
        os.lseek(file.fileno(), 8, os.SEEK_SET)
        again = subprocess.run(
            words, stdin=file, capture_output=True, env=environment, check=True, timeout=60
        )
    assert again.stdout == done.stdout


#: The command line with a tracer that the fake program stands for.
STARTER = """
import sys
from pathlib import Path
import workbench.programs.capture.survey
workbench.programs.capture.survey.tracer = lambda: Path({str(tmp_path)!r}) / "tracer.so"
import workbench.programs.cli.capture
workbench.programs.cli.capture.find_gpus = lambda: ([None], "")
from workbench.cli import main
main(sys.argv[1:])
""".replace("{str(tmp_path)!r}", "'{tmp_path}'")


def started(tmp_path: Path, pids: str, **env: str) -> tuple[subprocess.Popen[bytes], int]:
    """A capture that hangs, and the process that it waits for, whose number is in that file."""
    script = tmp_path / "run.py"
    script.write_text(STARTER.format(tmp_path=tmp_path))
    words = [sys.executable, str(script), "capture", "before", "--", *PROGRAM]
    ours = subprocess.Popen(
        words, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    until(lambda: (tmp_path / pids).is_file() and (tmp_path / pids).read_text() != "")
    return ours, int((tmp_path / pids).read_text())


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_the_program_ends_with_us_and_nothing_is_kept(
    place: Path, tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    ours, program = started(tmp_path, "pids", FAKE_PROGRAM="hang")
    ours.send_signal(sent)
    _, said = ours.communicate(timeout=60)
    assert ours.returncode == code, said
    until(lambda: not runs(program))
    assert not (place / ".workbench").exists()


def test_an_unwritable_folder_and_a_full_disk_are_told(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / ".workbench").write_text("in the way")
    code, _, said = cli("capture", "before", "--no-detail", "--", *PROGRAM)
    assert code in (3, 5) and ".workbench" in said
    (place / ".workbench").unlink()
    assert cli("capture", "before", "--no-detail", "--", *PROGRAM)[0] == 0
    old = kept(place)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workbench.disk.writing._written", full)
    code, _, said = cli("capture", "before", "--no-detail", "--", *PROGRAM)
    assert code == 3 and "no space left" in said
    monkeypatch.undo()
    assert Shelf(place).load("before") == old


def git(*words: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@b")
    done = subprocess.run(["git", *who, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_name_is_that_of_the_commit_and_of_the_change_on_top(place: Path, cli: Cli) -> None:
    git("init", "-q")
    Path("a.cu").write_text("one\n")
    git("add", "a.cu")
    git("commit", "-qm", "one")
    commit = git("rev-parse", "HEAD")
    assert cli("capture", "--no-detail", "--", *PROGRAM)[0] == 0
    shelf = Shelf(place)
    assert shelf.names() == [commit[:12]]
    assert shelf.find("HEAD").state.commit == commit
    Path("a.cu").write_text("two\n")
    assert cli("capture", "--no-detail", "--", *PROGRAM)[0] == 0
    changed = next(name for name in shelf.names() if "+" in name)
    assert "+two" in shelf.load(changed).state.patch
    assert shelf.find("HEAD").name == commit[:12]  # not the one with changes


def test_a_revision_is_captured_in_a_worktree_of_its_own(place: Path, cli: Cli) -> None:
    git("init", "-q")
    Path("workbench.toml").write_text('[capture]\nbuild = "cp a.txt built.txt"\n')
    Path("a.txt").write_text("one")
    git("add", ".")
    git("commit", "-qm", "one")
    Path("a.txt").write_text("two")
    git("commit", "-qam", "two")
    check = "import pathlib, runpy; assert pathlib.Path('built.txt').read_text() == 'one'; "
    check += f"runpy.run_path({PROGRAM[1]!r}, run_name='__main__')"
    words = ("capture", "--no-detail", "--at", "HEAD~1", "--", sys.executable, "-c", check)
    code, _, said = cli(*words)
    assert code == 0, said
    capture = Shelf(place).find("HEAD~1")
    assert capture.state.clean and capture.state.commit == git("rev-parse", "HEAD~1")
    assert len(git("worktree", "list").splitlines()) == 1
    Path("workbench.toml").write_text('[capture]\nbuild = "exit 9"\n')
    code, _, said = cli(*words)
    assert code == 4 and "does not build" in said


def test_without_a_tracer_ncu_lists_every_launch_and_names_its_price(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from workbench.errors import MissingError

    def none() -> Path:
        raise MissingError("no C compiler", "Install one.")

    monkeypatch.setattr("workbench.programs.capture.survey.tracer", none)
    monkeypatch.setattr("workbench.programs.cli.capture.find_gpus", lambda: ([None], ""))
    listing = tmp_path / "listing"
    head = '"ID","Process ID","Kernel Name","Stream","Block Size","Grid Size","Device",'
    listing.write_text(
        f'==PROF== Connected\n{head}"gpu__time_duration.sum"\n"","","","","","","","ns"\n'
        '"0","41","sgemm_v3","7","(32, 32, 1)","(32, 32, 1)","0","1,500"\n'
        '"1","41","sgemm_v3","7","(32, 32, 1)","(16, 32, 1)","0","1000"\n'
    )
    monkeypatch.setenv("FAKE_LISTING", str(listing))
    code, _, said = cli("capture", "before", "--no-detail", "--", *PROGRAM)
    assert code == 0 and "5.4 ms per launch" in said and "no C compiler" in said
    capture = kept(place)
    assert capture.survey.way == "ncu" and capture.survey.totals == (2500,)
    assert len(capture.survey.works[0].shapes) == 2
    code, _, said = cli("capture", "before", "--survey", "trace", "--", *PROGRAM)
    assert code == 3 and "no C compiler" in said


def test_a_folder_that_may_not_be_written_is_told(place: Path, cli: Cli) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    place.chmod(stat.S_IRUSR | stat.S_IXUSR)
    begin = time.monotonic()
    code, _, said = cli("capture", "before", "--no-detail", "--", *PROGRAM)
    place.chmod(0o755)
    assert code == 3 and "ermission" in said and time.monotonic() - begin < 100
