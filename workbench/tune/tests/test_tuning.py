"""``workbench tune`` on the stand-ins: what falls away, what races, what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

import ptxemu
from tests.engines.stand_ins import THERE, VERSION, Cli
from workbench.compile.build import compile_error
from workbench.disk.writing import append_file
from workbench.engines import Subject, Verdict
from workbench.engines.emulated.emulation import as_ours
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.engines.host import client
from workbench.errors import MissingError, WorkbenchError
from workbench.ladder import tunings as record
from workbench.ladder.tunings import Trial, Tuning, load
from workbench.measure.experiment import Experiment
from workbench.model import Problem
from workbench.project import Project
from workbench.specs import Version
from workbench.tune import running
from workbench.tune.prefilter import Sieve, Sifted
from workbench.tune.space import Space

pytestmark = pytest.mark.usefixtures("stand_in")
SPACE = """
[defines]
WORK = 3
MODE = "plain"

[tune]
WORK = [1, 2, 3, 4]
MODE = ["plain", "unbuilt"]
requires = "WORK < 4"
"""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CLOCK", "0.0002 0.002")
    monkeypatch.setenv("FAKE_SEED", "1")


@pytest.fixture
def tuned(project: Project, cli: Cli) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """Add ``v1`` with a space, and run ``tune`` on it: exit code, document, standard error."""
    text = VERSION.replace("[[launch]]", f"{SPACE}[[launch]]").replace(
        "float *y, int n) {", "float *y, int n) {  // WORK MODE"
    )
    (project.kernels / "double" / "v1_tuned.cu").write_text(text)

    def run(*words: str) -> tuple[int, dict[str, Any], str]:
        manner = () if "--profile" in words else ("--no-profile",)
        asked = ("tune", "v1", "--seed", "1", *THERE, *manner, *words)
        code, out, err = cli(*asked, "--format", "json")
        return code, json.loads(out)["tunings"][0] if out else {}, err

    return run


def kept(project: Project) -> Tuning:
    (path,) = project.profiles.glob("*/double/tuned/v1/gpu.jsonl")
    return load(path)


def test_the_fastest_choice_wins_and_every_trial_is_kept_and_not_tried_again(
    project: Project, tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, real = [0], client.run_jobs

    def counted(*args: Any, **named: Any) -> Any:
        begun[0] += 1
        return real(*args, **named)

    monkeypatch.setattr("workbench.engines.host.worker_pool.run_jobs", counted)
    code, found, err = tuned()
    assert code == 0, err
    assert begun == [1]  # each new one would make the inputs and the reference again
    (winner,) = found["winners"]
    assert winner["best"]["values"] == {"WORK": 1, "MODE": "plain"}
    assert 2.8 < winner["times_default"] < 3.2
    assert winner["runner_up"]["values"]["WORK"] == 2
    assert found["fates"] == {"timed": 1, "dropped": 2, "not compiled": 3}
    assert found["saved"] == 3 and found["gpu_s"] > 0
    assert (found["ended"], found["strategy"]) == ("space", "all")
    tuning = kept(project)
    assert len(tuning.trials) == 6 and tuning.gpu == "stand-in-1"
    assert all(each.samples_s for each in tuning.trials if each.fate in ("timed", "dropped"))
    assert all("does not compile" in x.why for x in tuning.trials if x.fate == "not compiled")
    code, found, err = tuned()
    assert code == 0 and "6 trials of the same sources and space are already kept" in err
    assert {x.key: x.gpu_s for x in kept(project).trials if x.fate == "dropped"} == {
        x.key: x.gpu_s for x in tuning.trials if x.fate == "dropped"
    }
    code, found, err = tuned("--restart")
    assert code == 0 and "kept already" not in err and len(found["trials"]) == 6


def test_too_much_shared_memory_is_told_from_wrong_code(
    tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = "ptxas error : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)"
    real = Experiment.build_all

    def built(runner: Experiment, versions: Sequence[Version]) -> dict[str, WorkbenchError]:
        error = compile_error("v1.cu", log, (), "nvcc", "sm_90")
        large = {each.id: error for each in versions if each.id == "v1@2-plain"}
        return real(runner, versions) | large

    monkeypatch.setattr(Experiment, "build_all", built)
    code, found, err = tuned()
    assert code == 0, err
    assert found["fates"] == {"timed": 1, "dropped": 1, "does not fit": 1, "not compiled": 3}


def test_a_wrong_choice_is_a_fate_and_the_search_goes_on(
    stand_in: Callable[[str], None], tuned: Callable[..., Any]
) -> None:
    stand_in("wrong v1@1-plain")
    code, found, err = tuned()
    assert code == 0, err
    assert found["winners"][0]["best"]["values"]["WORK"] == 2
    (wrong,) = [each for each in found["trials"] if each["fate"] == "wrong"]
    assert wrong["values"]["WORK"] == 1 and "wrong result" in wrong["why"]


def test_a_choice_that_ends_its_worker_costs_itself_alone(
    stand_in: Callable[[str], None], tuned: Callable[..., Any]
) -> None:
    stand_in("die v1@1-plain")
    code, found, err = tuned()
    assert code == 0, err
    assert found["winners"][0]["best"]["values"]["WORK"] == 2
    (gone,) = [each for each in found["trials"] if each["fate"] == "failed"]
    assert gone["values"]["WORK"] == 1 and gone["why"]


def test_a_choice_that_hangs_is_ended(
    stand_in: Callable[[str], None], tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.tune.running.HANG_S", 4.0)
    stand_in("hang v1@1-plain")
    code, found, err = tuned()
    assert code == 0, err
    (gone,) = [each for each in found["trials"] if each["fate"] == "hung"]
    assert gone["values"]["WORK"] == 1 and "did not end" in gone["why"]
    assert gone["gpu_s"] == 4.0
    assert found["winners"][0]["best"]["values"]["WORK"] == 2


def test_what_was_killed_goes_on(project: Project, tuned: Callable[..., Any]) -> None:
    tuned()
    (path,) = project.profiles.glob("*/double/tuned/v1/gpu.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    trials = [line for line in lines if b'"trial"' in line and b'"timed"' in line][:2]
    path.write_bytes(lines[0] + b"".join(trials) + lines[-1][:20])
    assert load(path).torn and len(load(path).trials) == 2
    code, found, err = tuned()
    assert code == 0 and "is incomplete and was left out" in err
    assert len(found["trials"]) == 6
    assert found["winners"][0]["best"]["values"]["WORK"] == 1


def test_a_full_disk_stops_clearly_and_keeps_what_was_there(
    project: Project, tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, count = append_file, 0

    def full(root: Path, name: str, data: bytes) -> None:
        nonlocal count
        count += b'"trial"' in data
        if count > 2:
            raise MissingError("no space left to write it", "Free some space.")
        real(root, name, data)

    monkeypatch.setattr(record, "append_file", full)
    code, found, err = tuned()
    assert code == 3 and "no space left" in err and not found
    assert len(kept(project).trials) == 2


def test_the_estimates_of_another_problem_end_no_search(
    tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each choice is better than the one before, on a problem that takes longer than the first."""
    for name in ("_SMALL", "_TOGETHER", "_PATIENCE"):
        monkeypatch.setattr(f"workbench.tune.running.{name}", 1)
    begins = {"n7": 1e-6, "n1000": 1e-3}

    class Counted:
        def __init__(self, _runner: object, space: Space, *_: object) -> None:
            self.name = space.problem.name

        def sift(self, choices: list[record.Values], _tell: object) -> list[Sifted]:
            begins[self.name] *= 0.9
            made = Trial(choices[0], "not run", self.name, estimate=begins[self.name])
            return [Sifted(choices[0], cast(Subject, "none runs"), made)]

    monkeypatch.setattr("workbench.tune.running.Sieve", Counted)
    code, found, err = tuned("--engine", "emulator", "--problem", "n7", "--problem", "n1000")
    assert code == 0, err
    tried = [each["problem"] for each in found["trials"]]
    assert (tried.count("n7"), tried.count("n1000")) == (6, 6)


def test_small_gains_add_up_to_one() -> None:
    """Three times 0.9% are 2.7% of what stood when the last gain was."""
    patience = running._Patience(1.0)
    times = [0.991**each for each in range(1, 9)]
    assert not any(patience.over(each) for each in times)
    assert [patience.over(times[-1]) for _ in range(4)] == [False, False, False, True]
    slow = running._Patience(1.0)  # and four times a thousandth are none
    assert [slow.over(0.999**each) for each in range(1, 5)] == [False, False, False, True]


@pytest.mark.parametrize(("choices", "together"), [(12, 4), (80, 8), (100_000, 16)])
def test_of_a_smaller_space_a_search_learns_earlier(choices: int, together: int) -> None:
    assert running._a_round(cast(Space, SimpleNamespace(many=choices))) == together


def test_a_problem_that_takes_the_emulator_too_long_is_not_tried_with_every_choice(
    project: Project, tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def too_long(
        _engine: object,
        subjects: Sequence[Subject],
        tell: Callable[[int, Verdict], None],
        _: object,
    ) -> None:
        asked.append(subjects[0].version.id)
        with pytest.raises(WorkbenchError) as given_up, as_ours():
            raise ptxemu.ResourceError("it did not end within 20 s", "Wait.")
        tell(0, Verdict(subjects[0].problem, None, given_up.value))

    monkeypatch.setattr(EmulatorEngine, "verify", too_long)
    monkeypatch.setattr(Sieve, "_counted", lambda _sieve, trial, *_: trial)
    real = Experiment.subject

    def with_ptx(runner: Experiment, version: Version, problem: Problem) -> Subject:
        subject = real(runner, version, problem)
        assert subject.built is not None
        build = replace(subject.built.build, ptx=".version 9.0")
        return replace(subject, built=replace(subject.built, build=build))

    monkeypatch.setattr(Experiment, "subject", with_ptx)
    code, found, err = tuned()
    assert code == 0, err
    assert len(asked) == 1 and found["fates"]["timed"] == 1


def test_a_space_too_large_is_sampled(
    project: Project, tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.tune.running._SMALL", 2)
    monkeypatch.setattr("workbench.tune.running._TOGETHER", 2)
    code, found, err = tuned("--budget", "1s")
    assert code == 0, err
    assert found["strategy"] == "optuna-tpe"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("v0",), 2, "v0 has no [tune]"),
        (("v1", "--budget", "soon"), 2, "soon: not a duration"),
        (("v1", "--problem", "n8"), 2, "n8"),
        (("v1", "--engine", "emulator", "--gpus", "all"), 2, "the emulator needs no GPU"),
        ((), 2, "no version was named"),
    ],
)
def test_wrong_usage(
    cli: Cli, tuned: Callable[..., Any], words: tuple[str, ...], code: int, says: str
) -> None:
    found, out, err = cli("tune", *words)
    assert found == code and says in err and not out


# --- winner and runner-up, profiled --------------------------------------------------------------


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch, ncu_on_path: None) -> None:
    """The stand-in for the GPU is called as in the report that the one for ncu writes."""
    monkeypatch.setenv("FAKE_NAMES", '{"": "NVIDIA H200"}')


def profiles(project: Project) -> dict[str, float]:
    """Choice -> when its profile was written."""
    found = project.profiles.glob("h200/double/tuned/v1/*/n1000.ncu.json.zst")
    return {path.parent.name: path.stat().st_mtime_ns for path in found}


@pytest.mark.usefixtures("h200")
def test_winner_and_runner_up_alone_are_profiled_and_their_step_is_told(
    project: Project, tuned: Callable[..., Any], cli: Cli
) -> None:
    code, found, err = tuned("--profile")
    assert code == 0 and "note:" not in err, err
    (step,) = found["steps"]
    sides = step["old"], step["new"]
    assert [each["label"] for each in sides] == ["WORK=2", "WORK=1"]
    assert [each["version"] for each in sides] == ["v1@2-plain", "v1@1-plain"]
    assert 1.8 < step["time"]["speedup"] < 2.2 and step["sentence"]
    assert step["comparable"] and step["warnings"] == ["the sources are the same"]
    before = profiles(project)
    assert set(before) == {"1-plain", "2-plain"}
    (project.profiles / "h200/double/tuned/v1/7-plain").mkdir()
    for each in project.profiles.glob("h200/double/tuned/v1/1-plain/*.zst"):
        other = each.parent.with_name("7-plain") / each.name
        other.write_bytes(each.read_bytes())
    code, out, err = cli("tune", "v1", "--seed", "1", *THERE)
    assert code == 0 and "from the runner-up to the winner on n1000" in out, err
    assert step["sentence"].split()[0] in out
    assert profiles(project) == before  # of the same sources: not taken again; no other one
    version = project.kernels / "double" / "v1_tuned.cu"
    version.write_text(version.read_text().replace("// WORK MODE", "// WORK MODE, changed"))
    code, found, err = tuned()
    assert code == 0 and not profiles(project) and found["steps"] == [], err


@pytest.mark.usefixtures("h200")
def test_where_ncu_refuses_the_tuning_stands(
    project: Project, tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NCU", "perm")
    code, found, err = tuned("--profile")
    assert code == 0 and found["winners"] and found["steps"] == []
    note = err[err.index("note: winner and runner-up of v1 are not profiled") :]
    assert "counters" in note and "the tuning, which is still valid" in note
    assert not profiles(project)


def test_a_profile_of_another_device_is_not_kept(
    project: Project, tuned: Callable[..., Any], ncu_on_path: None
) -> None:
    code, found, err = tuned("--profile")
    assert code == 0 and found["steps"] == []
    assert "v1 was tuned on stand-in-1; the profiler's is h200" in err
    assert not list(project.profiles.glob("*/double/tuned/v1/*/*"))
