"""``workbench verify``: exit codes, and what it says."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.engines.stand_ins import THERE, Cli
from workbench.engines import Subject, Verdict
from workbench.measure.experiment import Experiment
from workbench.model import Problem
from workbench.specs import Version
from workbench.study.folder import Study

pytestmark = pytest.mark.usefixtures("stand_in")
Manner = Callable[[str], None]


def test_a_right_version_is_ok_on_every_problem(cli: Cli) -> None:
    code, out, err = cli("verify", "v0", *THERE, "--seed", "5")
    assert code == 0
    assert out.startswith("study double, seed 5, tolerance 1e-06\n")
    assert [line.split()[:3] for line in out.splitlines()[2:]] == [
        ["v0", "n1000", "ok"],
        ["v0", "n7", "ok"],
    ]
    # The build is told once, not once a problem.
    assert err.count("build v0") == 1 and "verify v0 on 2 problems" in err


def test_json_has_a_result_each(cli: Cli) -> None:
    code, out, _ = cli("verify", "double", *THERE, "--seed", "5", "--format", "json")
    document = json.loads(out)
    assert code == 0 and document["study"] == "double" and document["seed"] == 5
    assert [(r["version"], r["problem"], r["ok"]) for r in document["results"]] == [
        ("v0", "n1000", True),
        ("v0", "n7", True),
        ("library", "n1000", True),
        ("library", "n7", True),
    ]
    assert document["results"][0]["error"] == 0.0 and document["findings"] == []


def test_a_wrong_result_ends_with_4_and_the_table(cli: Cli, stand_in: Manner) -> None:
    stand_in("wrong")
    code, out, err = cli("verify", "v0", *THERE, "--seed", "5")
    assert code == 4
    assert "WRONG" in out and "worst element: y[7]" in out
    assert "1 of 2 checks failed: v0 n1000" in err
    assert "workbench verify double/v0:n1000 --seed 5" in err


def test_a_single_check_is_its_own_error(cli: Cli, stand_in: Manner) -> None:
    stand_in("wrong")
    code, out, err = cli("verify", "v0:n1000", *THERE)
    assert code == 4 and "v0 gives a wrong result on n1000" in err
    assert "wrong result" not in out


def test_a_version_that_does_not_compile_leaves_the_others_their_turn(
    cli: Cli, add_version: Callable[[str, str], None]
) -> None:
    add_version("v1", "does not compile")
    add_version("v2", "fine")
    code, out, err = cli("verify", "v0", "v1", "v2", *THERE)
    assert code == 4
    rows = [tuple(line.split()[::2]) for line in out.splitlines()[2:8:2]]
    assert rows == [("v0", "ok", "0%"), ("v1", "FAILED", "—"), ("v2", "ok", "0%")]
    assert "kernels/double/v1_added.cu:9: error: expected a ;" in out
    assert "2 of 6 checks failed: v1 n1000, v1 n7" in err


def test_a_baseline_that_cannot_run_here_is_passed_over_with_all(
    cli: Cli, project_file: Callable[[str, str, str], None]
) -> None:
    project_file("library.py", 'return ""', 'return "no library here"')
    code, out, err = cli("verify", "--all", *THERE)
    assert code == 0 and "library" not in out
    assert "library: skipped" in err and "no library here" in err
    code, _, err = cli("verify", "library:n7", *THERE)
    assert code == 3 and "no library here" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("v00",), "v0"),
        (("nothing/v0",), "double"),
        ((), "no version was named"),
        (("",), "no version was named"),
        (("v0", "--all"), "cannot be used together"),
        (("v0:n100",), "n1000"),
        (("v0", "--launcher", "a 'b"), "cannot be split"),
    ],
)
def test_wrong_usage_ends_with_2_and_the_nearest_name(
    cli: Cli, words: tuple[str, ...], message: str
) -> None:
    code, out, err = cli("verify", *THERE, *words)
    assert code == 2 and message in err and out == ""


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_emulator_says_so_first(cli: Cli) -> None:
    _, _, err = cli("verify", "v0")
    assert err.startswith("engine: emulator, on this machine's CPU, watching for races")


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_it_says_what_lacks_and_what_works(cli: Cli) -> None:
    code, out, err = cli("verify", "v0", "--engine", "gpu")
    assert code == 3 and out == ""
    assert "no NVIDIA GPU can be used here: no driver" in err
    assert "show, diff, list and report work" in err


def test_without_the_feature_gate_also_is_wrong_usage(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.commands.verify.FEATURES", ())
    code, out, err = cli("verify", "v1", "--also", "junit=-")
    assert (code, out) == (2, "") and "no feature for gates" in err and "Leave it out" in err


@pytest.mark.usefixtures("no_gpu")
def test_without_the_sanitizer_nothing_is_begun(cli: Cli) -> None:
    code, _, err = cli("verify", "v0", "--sanitize", *THERE)
    assert code == 3 and "compute-sanitizer is not installed" in err and "build" not in err


def test_a_launcher_without_a_gpu_here_needs_the_chip(cli: Cli, no_gpu: None) -> None:
    code, _, err = cli("verify", "v0", "--launcher", "srun")
    assert code == 2 and "--arch sm_90" in err


@pytest.fixture
def sanitizer_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A compute-sanitizer that runs the program and then prints a recorded output."""

    def says(text: str) -> None:
        path = tmp_path / "compute-sanitizer"
        output = tmp_path / "output.txt"
        output.write_text(text)
        # Everything up to the first word that starts the worker are options.
        path.write_text(
            "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in --*) shift 2;; *) break;; esac; done\n"
            f'"$@"\ncat {output}\n'
        )
        path.chmod(0o755)
        monkeypatch.setenv("WORKBENCH_SANITIZER", str(path))

    return says


def test_the_sanitizers_findings_end_with_4_and_the_source_line(
    cli: Cli, sanitizer_says: Callable[[str], None]
) -> None:
    sanitizer_says(
        "========= Invalid __global__ write of size 4 bytes\n"
        "=========     at scale+0x80 in v0_plain.cu:11\n"
        "=========     by thread (1,0,0) in block (0,0,0)\n"
        "========= ERROR SUMMARY: 1 error\n"
    )
    code, out, err = cli("verify", "v0:n7", "--sanitize", *THERE)
    assert code == 4 and "compute-sanitizer has 4 findings" in err
    assert "at kernels/double/v0_plain.cu:11 in scale" in out
    assert "if (i < n) y[i] = 2 * x[i];" in out


def test_a_broken_study_is_never_passed_over(
    cli: Cli, project_file: Callable[[str, str, str], None]
) -> None:
    project_file("study.py", 'return {"y": 2 *', 'return {"y": missing *')
    code, _, err = cli("verify", "--all", *THERE)
    assert code == 2 and "study.py" in err and "skipped" not in err


def test_with_all_a_version_that_cannot_do_the_problem_is_passed_over(
    cli: Cli, project_file: Callable[[str, str, str], None]
) -> None:
    needs = 'requires = "n % 8 == 0"\nrequires_why = "vectors of eight"\n[[launch]]'
    project_file("v0_plain.cu", "[[launch]]", needs)
    code, out, err = cli("verify", "double:n7", *THERE)
    assert code == 0 and out.splitlines()[2].split()[:3] == ["library", "n7", "ok"]
    assert "v0: skipped: " in err and "vectors of eight" in err
    code, _, err = cli("verify", "v0:n7", *THERE)
    assert code == 2 and "vectors of eight" in err
    code, _, err = cli("verify", "double:n77", *THERE)
    assert code == 2 and "Did you mean" in err and "skipped" not in err


def test_ctrl_c_shows_what_is_verified_already(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    # In the background of a shell Ctrl-C is ignored from the start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    whole = Experiment.verify
    told: list[int] = []

    def interrupted(
        self: Experiment, subjects: Sequence[Subject], tell: Callable[[int, Verdict], None]
    ) -> list[Verdict]:
        def once(place: int, verdict: Verdict) -> None:
            tell(place, verdict)
            if not told:
                told.append(place)
                os.kill(os.getpid(), signal.SIGINT)

        return whole(self, subjects, once)

    monkeypatch.setattr(Experiment, "verify", interrupted)
    code, out, err = cli("verify", "v0", *THERE, "--seed", "5", "--format", "json")
    assert code == 130 and "interrupted" in err
    first = json.loads(out)["results"][0]
    assert (first["version"], first["problem"], first["ok"]) == ("v0", "n1000", True)


@pytest.mark.parametrize("command", ["verify", "profile", "time"])
def test_requirements_are_checked_once_on_a_run(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, ncu_on_path: None, command: str
) -> None:
    checked: list[tuple[str, str]] = []
    whole = Study.check_requirements

    def counted(self: Study, version: Version, problem: Problem) -> None:
        checked.append((version.id, problem.name))
        whole(self, version, problem)

    monkeypatch.setattr(Study, "check_requirements", counted)
    code, _, err = cli(command, "v0", *THERE)
    assert code == 0, err
    version = [each for each in checked if each[0] == "v0"]
    assert version and len(set(version)) == len(version)


@pytest.fixture
def sanitizer_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Callable[[], list[str]]]:
    """A compute-sanitizer that finds something in one version; gives back what it ran over."""

    def finds(version: str) -> Callable[[], list[str]]:
        path, log = tmp_path / "compute-sanitizer", tmp_path / "ran.txt"
        path.write_text(
            "#!/bin/sh\ntool=$2\n"
            "while [ $# -gt 0 ]; do case $1 in --*) shift 2;; *) break;; esac; done\n"
            'jobs=$5\n"$@"\nruns=$(grep -c \'"version":\' $jobs)\n'
            f'found=$(grep -c \'"version": "{version}"\' $jobs)\n'
            f'echo "$tool $runs $found" >> {log}\n'
            "if [ $tool = memcheck ] && [ $found -gt 0 ]; then\n"
            'echo "========= Invalid __global__ write of size 4 bytes"\n'
            'echo "=========     at scale+0x80 in shared.cuh:3"\n'
            'echo "=========     by thread (1,0,0) in block (0,0,0)"\n'
            'echo "========= ERROR SUMMARY: 1 error"\n'
            'else echo "========= ERROR SUMMARY: 0 errors"; fi\n'
        )
        path.chmod(0o755)
        monkeypatch.setenv("WORKBENCH_SANITIZER", str(path))
        return lambda: log.read_text().splitlines()

    return finds


def test_the_sanitizer_runs_once_over_all_versions_where_it_finds_nothing(
    cli: Cli,
    add_version: Callable[[str, str], None],
    sanitizer_runs: Callable[[str], Callable[[], list[str]]],
) -> None:
    add_version("v1", "the same")
    ran = sanitizer_runs("none")
    code, out, err = cli("verify", "--all", "--sanitize", *THERE, "--seed", "5")
    assert code == 0 and "no findings" in out and "memcheck 2 versions" in err
    # Two versions on two problems; the library, whose kernels are not ours, is left out.
    assert ran() == [f"{tool} 4 0" for tool in ("memcheck", "racecheck", "initcheck", "synccheck")]


def test_a_finding_is_laid_at_the_door_of_its_version(
    cli: Cli,
    add_version: Callable[[str, str], None],
    sanitizer_runs: Callable[[str], Callable[[], list[str]]],
) -> None:
    add_version("v1", "the same")
    ran = sanitizer_runs("v1")
    code, out, _ = cli("verify", "--all", "--sanitize", *THERE, "--seed", "5", "--format", "json")
    findings = json.loads(out)["findings"]
    assert code == 4 and [finding["version"] for finding in findings] == ["v1"]
    # All together, then each alone under the tool that found something; the others once.
    assert [line for line in ran() if line.startswith("memcheck")] == [
        "memcheck 4 2",
        "memcheck 2 0",
        "memcheck 2 2",
    ]
    assert len(ran()) == 6
