"""``check --against`` and ``check --baseline``: versions and their own past."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.commands.test_without_gpu import SURFACE
from tests.engines.stand_ins import THERE, VERSION, Cli
from tests.factories import H200, make_timing
from workbench.compile import compilers
from workbench.model import Notice
from workbench.project import Project
from workbench.store import Store
from workbench.study.folder import Study, source_hash

Edit = Callable[[str, str, str], None]


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def committed(project: Project) -> Project:
    """The small project, as a repository's first commit."""
    git(project.root, "init", "-q")
    git(project.root, "add", ".")
    git(project.root, "commit", "-qm", "first")
    return project


def slower(edit: Edit, factor: float) -> None:
    edit("v0_plain.cu", "--- */", f"--- */\n// takes {factor}")


# --- a revision, on a GPU ---------------------------------------------------------------------


@pytest.mark.usefixtures("committed", "stand_in")
@pytest.mark.parametrize(
    ("noise", "code", "words"),
    [
        ("0.005", 1, "slower than allowed (0.500%)"),
        ("0.5", 6, "neither within 2.50% nor beyond 0.500%"),  # a deliberately noisy machine
    ],
)
def test_three_percent_are_found_unless_the_machine_is_noisy(
    cli: Cli, project_file: Edit, monkeypatch: pytest.MonkeyPatch, noise: str, code: int, words: str
) -> None:
    slower(project_file, 1.03)
    monkeypatch.setenv("FAKE_CLOCK", f"0.001 {noise}")
    monkeypatch.setenv("FAKE_SEED", "7")
    got, out, err = cli("check", "--against", "HEAD", *THERE)
    out = " ".join(out.split())
    assert (got, words in out) == (code, True), out + err
    assert "the GPU, both states in turn" in err and "n1000 on NVIDIA Stand-In 1" in out


@pytest.mark.usefixtures("stand_in")
def test_equal_states_pass_and_nothing_is_left_of_the_earlier_one(
    cli: Cli,
    committed: Project,
    project_file: Edit,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    slower(project_file, 1.0)
    monkeypatch.setenv("FAKE_CLOCK", "0.001 0.005")
    monkeypatch.setenv("FAKE_SEED", "7")
    before = subprocess.check_output(["git", "status", "--porcelain"], cwd=committed.root)
    code, out, _ = cli("check", "--against", "HEAD", *THERE, "--also", f"json={tmp_path}/x.json")
    assert code == 0 and "no slow-down of more than 2.50%" in " ".join(out.split())
    assert subprocess.check_output(["git", "status", "--porcelain"], cwd=committed.root) == before
    trees = subprocess.check_output(["git", "worktree", "list"], cwd=committed.root)
    assert trees.count(b"\n") == 1
    assert not Store.of(committed).timings()
    (measured,) = json.loads((tmp_path / "x.json").read_text())["measured"]
    assert len(measured["old_s"]) == len(measured["new_s"]) == measured["slowdown"]["n"] >= 100


@pytest.mark.usefixtures("committed", "stand_in")
def test_what_nobody_changed_is_not_measured(cli: Cli, add_version: Callable[..., None]) -> None:
    code, out, err = cli("check", "--against", "HEAD", *THERE)
    assert code == 0 and "engine" not in err and "the same sources as at" in out
    add_version("v1", "new")
    code, out, err = cli("check", "--all", "--against", "HEAD", *THERE)
    assert "engine: the GPU" in err and "v0 on n1000" not in err
    assert "new since" in out and "the same sources" not in out


# --- everything is judged -----------------------------------------------------------------------


@pytest.mark.usefixtures("stand_in")
def test_an_annotation_stands_in_the_header_that_was_changed(
    cli: Cli, committed: Project, project_file: Edit, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = committed.kernels / "double" / "part.cuh"
    header.write_text("// one\n// two\n")
    project_file("v0_plain.cu", "--- */", '--- */\n#include "part.cuh"\n// takes 1.0')
    git(committed.root, "add", ".")
    git(committed.root, "commit", "-qm", "with a header")
    header.write_text("// one\n// 2\n")
    monkeypatch.setenv("FAKE_CLOCK", "0.001 0.5")
    monkeypatch.setenv("FAKE_SEED", "1")  # another may pass by chance
    code, out, _ = cli("check", "--against", "HEAD", *THERE, "--format", "github")
    assert code == 6 and "::warning file=kernels/double/part.cuh,line=2," in out


@pytest.mark.usefixtures("committed", "stand_in")
def test_a_broken_version_fails_at_its_line(cli: Cli, project_file: Edit) -> None:
    project_file("v0_plain.cu", "title =", "title = =")
    code, out, _ = cli("check", "--against", "HEAD", *THERE, "--format", "github")
    assert code == 1 and "::error file=kernels/double/v0_plain.cu,line=2," in out


@pytest.mark.usefixtures("stand_in")
def test_a_version_that_is_gone_is_told_and_a_renamed_one_is_judged(
    cli: Cli, committed: Project, project_file: Edit
) -> None:
    folder = committed.kernels / "double"
    slower(project_file, 1.0)
    (folder / "v0_plain.cu").rename(folder / "v3_plain.cu")
    code, out, err = cli("check", "--against", "HEAD", *THERE)
    assert code == 0 and "double/v3" in out and "engine: the GPU, both states" in err, out + err
    assert re.search(r"double/v0\s+pass\s+was at \w{7}, now named v3", out), out
    assert "new since" not in out
    (folder / "v3_plain.cu").unlink()
    code, out, _ = cli("check", "--against", "HEAD", *THERE)
    assert code == 6 and "now missing; --accept takes it" in out
    assert cli("check", "--against", "HEAD", "--accept", *THERE)[0] == 0


@pytest.mark.usefixtures("stand_in")
def test_a_new_study_is_judged_beside_the_default_one(cli: Cli, committed: Project) -> None:
    shutil.copytree(committed.kernels / "double", committed.kernels / "other")
    code, out, _ = cli("check", "--against", "HEAD", *THERE)
    assert code == 0 and "other/v0" in out and "right on n1000, n7" in out
    (committed.kernels / "other" / "study.py").write_text("raise ValueError")
    code, out, _ = cli("check", "--against", "HEAD", *THERE)
    assert code == 1 and "ValueError while it was loaded" in out
    shutil.rmtree(committed.kernels / "double")
    code, out, _ = cli("check", "--against", "HEAD", *THERE)
    assert code == 1 and "was at" in out


@pytest.mark.usefixtures("stand_in")
def test_the_limits_are_those_of_the_revision(
    cli: Cli, committed: Project, project_file: Edit, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower(project_file, 1.2)
    monkeypatch.setenv("FAKE_CLOCK", "0.001 0.005")
    with (committed.root / "workbench.toml").open("a") as file:
        file.write('[check]\nmax_regression = "50%"\n')
    code, out, _ = cli("check", "--against", "HEAD", *THERE)
    assert code == 1 and "max_regression 0.0 → 50.0" in out and "slower than allowed" in out
    assert cli("check", "--against", "HEAD", "--accept", *THERE)[0] == 0


@pytest.mark.usefixtures("committed", "stand_in")
def test_another_tolerance_or_problem_asks_to_be_accepted(
    cli: Cli, project: Project, project_file: Edit
) -> None:
    wide = VERSION.replace("[[launch]]", 'tolerance = 0.7\ntolerance_why = "so"\n[[launch]]')
    (project.kernels / "double" / "v1.cu").write_text(wide)
    project_file("study.py", "tolerance = 1e-6", "tolerance = 0.5")
    code, out, _ = cli("check", "--against", "HEAD", *THERE)
    assert code == 6 and "tolerance of v0 1e-06 → 0.5" in out and "of v1 1e-06 → 0.7" in out
    assert "with another study.py: right on" in out
    assert cli("check", "--against", "HEAD", "--accept", *THERE)[0] == 0
    (project.kernels / "double" / "v1.cu").unlink()
    project_file("study.py", "tolerance = 0.5", "tolerance = 1e-6  # as it was")
    assert cli("check", "--against", "HEAD", *THERE)[0] == 0
    project_file("study.py", "rng.standard_normal(", "0 * rng.standard_normal(")
    code, out, _ = cli("check", "--against", "HEAD", *THERE)
    assert code == 6 and "(study.py); --accept takes them" in out


@pytest.mark.usefixtures("committed")
def test_a_library_is_looked_at_and_a_version_does_not_become_one(
    cli: Cli, project: Project, project_file: Edit, stand_in: Callable[[str], None]
) -> None:
    project_file("v0_plain.cu", "title =", "baseline = true\ntitle =")
    project_file("library.py", "x, y = ", "y, x = ")
    code, out, _ = cli("check", "--against", "HEAD", *THERE)
    assert code == 1 and "baseline of v0" in out and "library gives a wrong result" in out
    project_file("library.py", "y, x = ", "x, y  = ")
    code, out, _ = cli("check", "--against", "HEAD", "--accept", *THERE)
    assert code == 0 and "double/library" in out and "right on n1000, n7" in out
    library = project.kernels / "double" / "library.py"
    library.write_text(library.read_text().replace("y  =", "y ="))
    library.rename(library.with_name("cublas.py"))
    assert "now named cublas" in cli("check", "--against", "HEAD", *THERE)[1]


#: Interrupts Python's own end, which waits for the thread.
LATE = "lambda: (threading.main_thread().join(), _thread.interrupt_main())"


@pytest.mark.parametrize(
    "line",
    ["os._exit(0)", "atexit.register(os._exit, 0)", f"threading.Thread(target={LATE}).start()"],
)
def test_a_study_cannot_end_the_process_as_a_pass(committed: Project, line: str) -> None:
    study = committed.kernels / "double" / "study.py"
    study.write_text(f"import atexit, os, threading, _thread; {line}\n{study.read_text()}")
    words = (sys.executable, "-m", "workbench", "verify", "v0", *THERE)
    done = subprocess.run(words, cwd=committed.root, capture_output=True, text=True, check=False)
    assert done.returncode not in (0, 70) and "Traceback" not in done.stderr
    assert ("the process ended without a verdict" in done.stderr) is (line == "os._exit(0)")


@pytest.mark.usefixtures("committed")
def test_a_version_that_is_wrong_now_fails_and_one_that_was_wrong_is_inconclusive(
    cli: Cli, project_file: Edit, stand_in: Callable[[str], None]
) -> None:
    slower(project_file, 1.0)
    stand_in("wrong v0")
    code, out, _ = cli("check", "--against", "HEAD", *THERE)
    assert code == 1 and "gives a wrong result" in out


@pytest.mark.usefixtures("committed", "stand_in")
def test_what_did_not_compile_then_is_no_failure_now(
    cli: Cli, committed: Project, project_file: Edit
) -> None:
    project_file("v0_plain.cu", "--- */", "--- */\n// does not compile")
    git(committed.root, "commit", "-qam", "broken")
    project_file("v0_plain.cu", "does not compile", "mended")
    code, out, _ = cli("check", "--against", "HEAD", *THERE)
    assert code == 6 and "its state at" in out and "expected a ;" in out


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--against", "nowhere"), "nowhere is not a Git revision"),
        (("--against", "HEAD", "new.ncu-rep"), "is a report, which cannot"),
        (("--against", "HEAD", "@before"), "is a capture, which cannot"),
        (("--against", "--output=/x"), "not a Git revision"),
        (("--against", "kernels"), "kernels is not a workbench project"),
        (("--against", "HEAD", "--baseline", "main"), "separate gates"),
        (("--keep",), "Add --baseline"),
        (("--also", "html=x"), "Formats are"),
        (("--also", "json"), "not FORMAT=FILE"),
        (("--also", "html=x.html"), "`html` is not one of its formats"),
        (("--baseline", "../x"), "cannot be named"),
        (("v9", "--baseline", "main"), "v9"),
        (("v0", "--baseline", "main"), "no time for double/v0 on n1000 is recorded"),
    ],
)
def test_wrong_usage(cli: Cli, words: tuple[str, ...], said: str) -> None:
    code, _, err = cli("check", *words)
    assert code == 2 and said in err


def test_verify_refuses_an_unknown_format_before_it_runs(cli: Cli) -> None:
    code, out, err = cli("verify", "v0", *THERE, "--also", "html=x")
    assert (code, out) == (2, "") and "Formats are" in err and "build" not in err


# --- a baseline ---------------------------------------------------------------------------------


@pytest.fixture
def recorded(project: Project, study: Study) -> Callable[..., None]:
    """``recorded(1e-4, 3)``: the time of v0 on n1000, taken on the third day."""

    def record(seconds: float, day: int, *notices: str, width: float = 0.002, **more: Any) -> None:
        timing = make_timing(
            seconds,
            width,
            study="double",
            version="v0",
            problem="n1000",
            captured=f"2026-11-{day:02}T00:00:00Z",
            source_hash=source_hash(project, study.version("v0")),
            notices=tuple(Notice(code=code, message=f"({code})") for code in notices),
            **more,
        )
        Store.of(project).save_timing(timing)

    return record


def kept(project: Project) -> list[dict[str, object]]:
    (path,) = (project.root / ".workbench" / "baselines").rglob("*.json")
    assert path.relative_to(project.root).as_posix() == (
        ".workbench/baselines/main/h200/double/v0/n1000.json"
    )
    return list(json.loads(path.read_text())["runs"])


def filled(cli: Cli, recorded: Callable[..., None], days: int) -> list[int]:
    """Runs of 100 µs ± 0.2% on so many days, each kept; how each check ended."""
    codes = []
    for day in range(1, days + 1):
        recorded(1e-4 * (1 + 0.002 * (-1) ** day), day)
        codes.append(cli("check", "--baseline", "--keep")[0])
    return codes


def test_a_baseline_is_built_up_and_then_judges(
    cli: Cli, project: Project, recorded: Callable[..., None]
) -> None:
    codes = filled(cli, recorded, 8)
    assert codes[:2] == [6, 6]  # nothing, or one run, is no baseline
    assert codes[-3:] == [0, 0, 0] and 1 not in codes
    recorded(1.03e-4, 9)
    code, out, _ = cli("check", "--baseline", "main", "--keep")
    assert code == 1 and "slower than allowed" in out and len(kept(project)) == 8
    recorded(1.03e-4, 9, width=0.02)  # one that nobody can rely on
    assert cli("check", "--baseline")[0] == 6
    recorded(0.9e-4, 10)
    assert cli("check", "--baseline")[0] == 0 and len(kept(project)) == 8
    code, out, _ = cli("check", "v0", "--baseline", "other")
    assert code == 6 and "0 runs to compare with" in out


def test_old_runs_go_and_a_run_counts_once(
    cli: Cli, project: Project, recorded: Callable[..., None]
) -> None:
    with (project.root / "workbench.toml").open("a") as file:
        file.write("[check]\nbaseline_runs = 5\n")
    filled(cli, recorded, 7)
    assert [run["captured"] for run in kept(project)] == [
        f"2026-11-{day:02}T00:00:00Z" for day in range(3, 8)
    ]
    recorded(1.001e-4, 8)
    for _ in range(2):  # the same job, started twice
        assert cli("check", "--baseline", "--keep", "--run", "job-8")[0] == 0
    recorded(0.999e-4, 9)
    cli("check", "--baseline", "--keep", "--run", "job-8")
    names = [run["name"] for run in kept(project)]
    assert names.count("job-8") == 1 and len(names) == 5


def test_one_measurement_is_one_run_whatever_the_job_is_called(
    cli: Cli, project: Project, recorded: Callable[..., None]
) -> None:
    filled(cli, recorded, 4)
    cli("check", "--baseline", "--keep", "--run", "job-9")  # took no time of its own
    assert len(kept(project)) == 4


def test_times_of_another_device_are_another_matter(
    cli: Cli, recorded: Callable[..., None]
) -> None:
    filled(cli, recorded, 6)
    recorded(2e-4, 1, device=msgspec.structs.replace(H200, name="NVIDIA H100", slug="h100"))
    code, out, _ = cli("check", "--baseline")
    assert code == 0 and "H100" not in out
    code, out, _ = cli("check", "--baseline", "--device", "h100")
    assert code == 6 and "H100" in out and "0 runs" in out


def test_what_was_slower_on_purpose_is_accepted(
    cli: Cli, project: Project, recorded: Callable[..., None]
) -> None:
    filled(cli, recorded, 6)
    recorded(1.2e-4, 7)
    assert cli("check", "--baseline", "--accept")[0] == 1
    assert [run["captured"][8:10] for run in kept(project)] == ["07"]  # type: ignore[index]


@pytest.mark.parametrize(
    "code", ["throttled", "clock-moved", "not-converged", "drift", "unsettled"]
)
def test_a_disturbed_run_is_neither_judged_nor_kept(
    cli: Cli, project: Project, recorded: Callable[..., None], code: str
) -> None:
    filled(cli, recorded, 6)
    for seconds in (1e-4, 2e-4):
        recorded(seconds, 7, code)
        got, out, _ = cli("check", "--baseline", "--keep")
        assert got == 6 and f"({code})" in out and len(kept(project)) == 6


def test_a_time_of_other_sources_is_not_judged(
    cli: Cli, project_file: Edit, recorded: Callable[..., None]
) -> None:
    filled(cli, recorded, 6)
    project_file("v0_plain.cu", "2 * x[i]", "x[i] + x[i]")
    code, out, _ = cli("check", "--baseline")
    assert code == 6 and "a different state of kernels/double/v0_plain.cu" in out


@pytest.mark.parametrize(
    "content", ["{", '{"runs": [{"name": 1}]}', '{"runs": [], "schema_version": 2}']
)
def test_a_damaged_baseline_is_named(
    cli: Cli, project: Project, recorded: Callable[..., None], content: str
) -> None:
    filled(cli, recorded, 3)
    (path,) = (project.root / ".workbench").rglob("*.json")
    path.write_text(content)
    code, _, err = cli("check", "--baseline", "--keep")
    assert code == 5 and "n1000.json" in err and path.read_text() == content


def test_runs_that_were_measured_otherwise_do_not_count(
    cli: Cli, project: Project, recorded: Callable[..., None]
) -> None:
    filled(cli, recorded, 6)
    store = Store.of(project)
    (timing,) = store.timings()
    store.save_timing(
        msgspec.structs.replace(timing, cache="warm", captured="2026-11-20T00:00:00Z")
    )
    code, out, _ = cli("check", "--baseline")
    assert code == 6 and "0 runs to compare with" in out


@pytest.mark.nvcc
@pytest.mark.skipif(not compilers.available(), reason="no CUDA compiler here")
def test_what_the_emulator_refuses_is_not_judged(
    cli: Cli, committed: Project, project_file: Edit
) -> None:
    project_file("v0_plain.cu", "2 * x[i];", SURFACE)
    code, out, err = cli("check", "--against", "HEAD", "--engine", "emulator")
    assert code == 6 and "inconclusive" in out and "suld" in out, out + err
