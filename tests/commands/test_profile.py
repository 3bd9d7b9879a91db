"""``workbench profile``: the engine on the first line, dry runs, and failures among many."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable

import pytest

from tests.engines.stand_ins import THERE, Cli
from workbench.project import Project
from workbench.store import Store

pytestmark = pytest.mark.usefixtures("stand_in", "ncu_on_path")


def kept(project: Project) -> list[str]:
    return [entry.version for entry in Store.of(project).find()]


def test_the_first_line_names_the_engine_and_the_last_the_file(cli: Cli, project: Project) -> None:
    code, out, err = cli("profile", "v0", *THERE)
    first, last = out.splitlines()[0], out.splitlines()[-1]
    assert code == 0
    assert first == "engine: ncu (ncu); times are measured without it, by `workbench time`"
    assert last.startswith("v0 n1000: sgemm_v3, error 0, ")
    assert last.endswith(" under ncu -> profiles/h200/double/v0/n1000.ncu.json.zst")
    assert 'Profiling "sgemm"' in err and kept(project) == ["v0"]


def test_raw_reports_are_kept_or_not_as_asked(cli: Cli, project: Project) -> None:
    raw = project.profiles / "h200" / "double" / "v0" / "n1000.ncu.ncu-rep.zst"
    assert cli("profile", "v0", "--raw", *THERE)[0] == 0 and raw.is_file()
    code, _, err = cli("profile", "v0", "--no-raw", *THERE)
    assert code == 0 and not raw.exists() and "raw report" not in err


def test_with_time_the_timing_stands_below(cli: Cli, project: Project) -> None:
    code, out, _ = cli("profile", "v0", "--time", *THERE)
    assert code == 0 and "study double on NVIDIA Stand-In 1" in out
    assert [t.version for t in Store.of(project).timings()] == ["v0"]


def test_dry_run_prints_the_command_alone_and_measures_nothing(cli: Cli, project: Project) -> None:
    words = ("--section", "SpeedOfLight", "--clock-control", "base", "--replay-mode", "application")
    code, out, _ = cli("profile", "v0", "--dry-run", *words, *THERE)
    assert code == 0 and out.count("\n") == 1 and kept(project) == []
    argv = shlex.split(out)
    assert argv[:2] == ["env", "ncu"]
    for option, value in (
        ("--section", "SpeedOfLight"),
        ("--clock-control", "base"),
        ("--replay-mode", "application"),
        ("--nvtx-include", "workbench@v0/"),
    ):
        assert argv[argv.index(option) + 1] == value
    assert "--metrics" not in argv
    # It is the command that runs: it can be run by hand, in the project's folder.
    done = subprocess.run(argv, cwd=project.root, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("no_gpu")
def test_dry_run_needs_no_gpu_where_the_chip_is_named(cli: Cli) -> None:
    code, out, _ = cli("profile", "v0", "--dry-run", "--arch", "sm_90")
    assert code == 0 and out.startswith("ncu --nvtx ")


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("engine", ["auto", "ncu"])
def test_dry_run_without_a_gpu_asks_for_the_chip_and_runs_nothing(
    cli: Cli, project: Project, engine: str
) -> None:
    code, out, err = cli("profile", "v0", "--dry-run", "--engine", engine)
    assert code == 2 and out == "" and kept(project) == []
    assert (
        "the architecture to compile for is unknown without a GPU" in err and "--arch sm_90" in err
    )


@pytest.mark.usefixtures("no_gpu")
def test_dry_run_of_the_emulator_is_refused(cli: Cli, project: Project) -> None:
    code, out, err = cli("profile", "v0", "--dry-run", "--engine", "emulator", "--arch", "sm_90")
    assert code == 2 and out == "" and kept(project) == []
    assert "--dry-run prints ncu's command" in err


@pytest.mark.usefixtures("no_gpu")
def test_options_that_the_emulator_does_not_hear_are_named(cli: Cli) -> None:
    _, _, err = cli("profile", "v0", "--time", "--metrics", "inst_executed", "--repeat", "3")
    assert "note: ignored by the emulator: --time, --metrics, --repeat\n" in err
    assert "ignored by" not in cli("profile", "v0")[2]


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_it_says_what_lacks_and_what_works(cli: Cli) -> None:
    code, out, err = cli("profile", "v0", "--engine", "ncu")
    assert code == 3 and out == ""
    assert "no NVIDIA GPU can be used here" in err and "--launcher" in err
    assert "show, diff, list and report work on the recorded profiles" in err


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("engine", ["auto", "emulator"])
def test_without_a_gpu_the_emulator_says_so_first(cli: Cli, engine: str) -> None:
    _, out, _ = cli("profile", "v0", "--engine", engine)
    first = out.partition("\n")[0]
    assert first.startswith("engine: emulator") and "cannot know time, stalls" in first


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_and_a_compiler_nothing_runs(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.compile.compilers.available", list)
    code, out, err = cli("profile", "v0")
    assert code == 3 and out == "" and "no NVIDIA GPU can be used here" in err


def test_one_failure_does_not_end_the_rest(
    cli: Cli, project: Project, add_version: Callable[[str, str], None]
) -> None:
    add_version("v1", "does not compile")
    add_version("v2", "fine")
    code, out, err = cli("profile", "v0", "v1", "v2", *THERE)
    assert code == 4 and kept(project) == ["v0", "v2"]
    assert "v1: error: kernels/double/v1_added.cu:9: error: expected a ;" in err
    assert "1 of 3 failed: v1" in err and out.count(" under ncu -> ") == 2


def test_the_worst_exit_code_wins(
    cli: Cli, add_version: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_version("v1", "does not compile")
    monkeypatch.setenv("FAKE_NCU", "perm")
    code, _, err = cli("profile", "v0", "v1", "--engine", "ncu", *THERE)
    assert code == 4 and "ERR_NVGPUCTRPERM" in err and "2 of 2 failed: v0, v1" in err
    code, _, err = cli("profile", "v0", "--engine", "ncu", *THERE)
    assert code == 3 and "NVreg_RestrictProfilingToAdminUsers=0" in err


def test_denied_counters_are_the_emulators_and_times_the_gpus(
    cli: Cli,
    project: Project,
    add_version: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_version("v1", "fine")
    monkeypatch.setenv("FAKE_NCU", "perm")
    code, out, err = cli("profile", "v0", "v1", "library", *THERE)
    assert code == 0, err
    assert err.count("note: [counters-denied]") == 1
    assert "NVreg_RestrictProfilingToAdminUsers=0" in err
    assert out.count(" in the emulator -> profiles/emulator-sm90/double/v") == 2
    assert "library: timed, but not counted: its library needs a GPU" in err
    assert "study double on NVIDIA Stand-In 1" in out
    store = Store.of(project)
    profiles = [store.load(entry.path) for entry in store.find()]
    assert [(p.version, p.engine) for p in profiles] == [("v0", "emulator"), ("v1", "emulator")]
    assert all(p.notices[0].code == "counters-denied" for p in profiles)
    assert sorted(t.version for t in store.timings()) == ["library", "v0", "v1"]
    code, out, _ = cli("show", "v0")
    words = " ".join(out.split())
    assert code == 0 and "Time " in words and "counted in the emulator" in words
    assert "the time was measured on NVIDIA Stand-In 1; the counters are the emulator's" in words
    code, out, _ = cli("diff", "v0", "v1", "--format", "json")
    document = json.loads(out)
    assert code == 0 and document["engine"] == "emulator" and document["time"]["new_s"] > 0
    assert any("Stand-In 1" in warning for warning in document["warnings"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("v7",), "v0"),
        (("v0", "--problem", "n100"), "n1000"),
        (("v0", "--clock-control", "fast"), "base"),
        (("v0", "--repeat", "0"), "repeat"),
        ((), "no version was named"),
    ],
)
def test_wrong_usage(cli: Cli, words: tuple[str, ...], message: str) -> None:
    code, _, err = cli("profile", *words, *THERE)
    assert code == 2 and message in err


def test_a_metric_that_did_not_come_is_said(cli: Cli) -> None:
    code, _, err = cli("profile", "v0", "--metrics", "sm__no_such.sum,inst_executed", *THERE)
    assert code == 0 and "note: v0: ncu gave no value for sm__no_such.sum" in err


def test_dry_run_does_not_run_a_triton_versions_file(cli: Cli, project: Project) -> None:
    """Triton's compiler runs the file: it would be the author's program, without being asked."""
    mark = project.root / "ran"
    (project.root / "kernels" / "double" / "v1_triton.py").write_text(
        '"""A kernel in Triton.\n\n---\ntitle = "Triton"\n[[launch]]\nkernel = "scale"\n'
        'grid = ["cdiv(n, 256)"]\nnum_warps = 4\nargs = ["x", "y", "n"]\n---\n"""\n'
        f"open({str(mark)!r}, 'w')\nimport triton\n\n"
        '@triton.jit\ndef scale(x: "*fp32", y: "*fp32", n: "i32"):\n    pass\n'
    )
    code, out, err = cli("profile", "v1", "--dry-run", "--arch", "sm_90")
    assert code == 0, err
    assert "--export build/runs/double-v1-n1000/report.ncu-rep" in out
    assert "note: v1 is not compiled, because Triton compiles by running kernels/double/v1" in err
    assert not mark.exists()
