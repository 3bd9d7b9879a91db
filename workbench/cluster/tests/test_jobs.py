"""``--on slurm`` from command to table, on a queue that does each job as it is sent."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.engines.stand_ins import VERSION, Cli
from workbench.cluster.slurm import Element, JobWork, Slot, SlurmQueue
from workbench.engines import Engine, RunOptions, Say
from workbench.engines.gpu.nvml import Gpu
from workbench.engines.host import presence
from workbench.project import Project
from workbench.store import Store

pytestmark = pytest.mark.usefixtures("stand_in")
GPU = Gpu(0, "NVIDIA Stand-In 1", "GPU-0", "570.1", (9, 0), 2**30)
SECOND = Gpu(1, "NVIDIA Stand-In 1", "GPU-1", "570.1", (9, 0), 2**30)


class Killed(BaseException):
    """A job's end by ``kill -9``, as far as this process can have one."""


class HereQueue(SlurmQueue):
    """Does a job at once, in this process; of one that is killed nobody hears more."""

    asked: ClassVar[list[tuple[Sequence[tuple[int, ...]], bool, int | None]]] = []

    def __init__(self, _settings: object) -> None:
        self._ended: dict[Slot, Element] = {}

    def submit(
        self,
        name: str,
        works: Sequence[Callable[[], None]],
        folder: Path,
        *,
        exclusive: bool,
        minutes: int | None,
        avoid: Sequence[str],
    ) -> str:
        numbers = [work.numbers for work in works if isinstance(work, JobWork)]
        self.asked.append((numbers, exclusive, minutes))
        for number, work in enumerate(works):
            word = "COMPLETED"
            with contextlib.redirect_stdout(io.StringIO()):  # a job's output is its own
                try:
                    work()
                except Killed:
                    word = "FAILED"
            self._ended[Slot(name, number)] = Element("ended", word)
        return "7"

    def elements(self, names: Sequence[str]) -> dict[Slot, Element]:
        return dict(self._ended)

    def cancel(self, names: Sequence[str]) -> None: ...

    def end(self, place: Slot) -> None: ...

    def troubled(self) -> Mapping[str, str]:
        return {}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.cluster.fleet.SlurmQueue", HereQueue)
    monkeypatch.setattr(presence, "find_gpus", lambda: ([GPU], ""))
    monkeypatch.setattr(presence, "need_pycuda", lambda: None)
    monkeypatch.setattr(HereQueue, "asked", [])


def test_times_come_back_from_jobs_and_are_taken_from_the_store_then(
    cli: Cli, project: Project
) -> None:
    words = ("time", "--all", "--on", "slurm", "--limit", "0.1", "--format", "json")
    code, out, err = cli(*words)
    assert code == 0 and "sent 2 jobs for 2 combinations" in err, err
    assert {each["version"] for each in json.loads(out)["times"]} == {"v0", "library"}
    assert len(Store.of(project).timings()) == 2
    code, again, err = cli(*words)
    assert code == 0 and "2 of 2 are taken from the store" in err, err
    assert json.loads(again) == json.loads(out)


def test_a_sweep_by_jobs_is_the_sweep(cli: Cli) -> None:
    sweep = ("time", "double:n1000", "--limit", "0.1", "--format", "json")
    code, out, err = cli(*sweep, "--on", "slurm")
    assert code == 0, err
    code, recorded, _ = cli("time", "double:n1000", "--recorded", "--format", "json")
    assert code == 0 and json.loads(recorded) == json.loads(out)


def test_a_wrong_result_of_a_job_is_the_errors_exit_code_and_stands_in_the_table(
    cli: Cli, stand_in: Callable[[str], None]
) -> None:
    code, out, _ = cli("verify", "v0", "--on", "slurm", "--format", "json")
    assert code == 0 and all(each["ok"] for each in json.loads(out)["results"])
    stand_in("wrong")
    code, out, err = cli("verify", "v0", "--on", "slurm", "--format", "json")
    assert code == 4 and not all(each["ok"] for each in json.loads(out)["results"])
    assert "gives a wrong result" in err or "checks failed: v0" in err


# --- tune -----------------------------------------------------------------------------------

SPACE = "[defines]\nWORK = 3\n\n[tune]\nWORK = [1, 2, 3, 4]\n\n[[launch]]"
Tune = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def tune(cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch) -> Tune:
    """Tune ``v1`` and perhaps others by jobs: exit code, the tunings, standard error."""
    monkeypatch.setenv("FAKE_CLOCK", "0.0002 0.002")
    monkeypatch.setenv("FAKE_SEED", "1")
    study = project.kernels / "double" / "study.py"
    study.write_text(study.read_text().replace('("verify",)', '("verify", "profile")'))
    text = VERSION.replace("[[launch]]", SPACE).replace("int n) {", "int n) {  // WORK")
    for version in ("v1", "v2"):
        (project.kernels / "double" / f"{version}_tuned.cu").write_text(text)

    def run(*words: str) -> tuple[int, list[dict[str, Any]], str]:
        manner = () if "--profile" in words else ("--no-profile",)
        asked = ("tune", "--on", "slurm", "--seed", "1", "--format", "json", *manner, *words)
        code, out, err = cli(*asked)
        return code, json.loads(out)["tunings"] if out else [], err

    return run


def rows(project: Project, version: str = "v1") -> list[str]:
    """The lines of a tuning: what each is of."""
    (path,) = project.profiles.glob(f"*/double/tuned/{version}/gpu.jsonl")
    return [next(k for k, v in json.loads(line).items() if v) for line in path.open()]


def test_a_tuning_is_one_job_a_version_with_the_budget_for_its_limit(
    tune: Tune, project: Project
) -> None:
    problems = ("--problem", "n1000", "--problem", "n7")
    code, found, err = tune("v1", "v2", *problems, "--budget", "5m")
    assert code == 0 and "sent 2 jobs for 2 tunings" in err, err
    (sent,) = HereQueue.asked
    assert sent == ([(0,), (1,)], True, 20)
    assert [each["version"] for each in found] == ["v1", "v2"]
    for each in found:
        assert [winner["problem"] for winner in each["winners"]] == ["n1000", "n7"]
        assert all(winner["best"]["values"] == {"WORK": 1} for winner in each["winners"])
    assert not list(project.root.glob(".workbench/jobs/*/order.json")), "files of it are left"


def _killed_once(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """The job that comes to a method of the tuner first is killed there; how many came."""
    from workbench.tune.running import Tuner  # another feature

    came, real = [0], getattr(Tuner, name)

    def killed(*given: object) -> None:
        came[0] += 1
        if came[0] == 1:
            raise Killed
        real(*given)

    monkeypatch.setattr(Tuner, name, killed)
    return came


def test_a_job_that_is_killed_is_sent_again_and_goes_on_with_its_rows(
    tune: Tune, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = _killed_once(monkeypatch, "_raced")
    code, found, err = tune("v1", "--restart")
    assert code == 0 and err.count("sent 1 job for 1 tuning") == came[0] == 2, err
    assert found[0]["winners"][0]["best"]["values"] == {"WORK": 1}
    kinds = rows(project)
    second = kinds.index("begun", 1)
    assert kinds[:second].count("trial") == 4 and kinds.count("begun") == 2
    values = [json.dumps(each["values"]) for each in found[0]["trials"]]
    assert len(values) == len(set(values)) == 4


def test_a_search_that_had_ended_is_not_begun_again(
    tune: Tune, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = _killed_once(monkeypatch, "profile")
    code, found, err = tune("v1", "--profile", "--restart")
    assert code == 0 and len(found) == 1 and came == [2], err
    assert "note: winner and runner-up of v1 are not profiled" in err  # a job's, told here
    assert rows(project).count("begun") == rows(project).count("ended") == 1


def test_where_no_choice_can_run_the_tuning_is_shown_all_the_same(
    tune: Tune, stand_in: Callable[[str], None]
) -> None:
    stand_in("wrong")
    code, found, err = tune("v1")
    assert code == 4 and "no choice of v1 can run" in err, err
    assert [each["fates"] for each in found] == [{"wrong": 4}]


def test_all_gpus_of_a_job_share_the_choices(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.tune.running import tuning_engine

    given: list[str] = []

    def engine(project: Project, wanted: str, run: RunOptions, say: Say) -> Engine:
        given.append(run.gpus)
        return tuning_engine(project, wanted, run, say)

    monkeypatch.setattr("workbench.tune.tasks.tuning_engine", engine)
    monkeypatch.setattr(presence, "find_gpus", lambda: ([GPU, SECOND], ""))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    code, found, err = tune("v1")
    assert code == 0 and given == ["0,1"] and len(found[0]["trials"]) == 4, err
    code, found, err = tune("v1", "--engine", "emulator", "--restart")
    assert code == 0 and given == ["0,1", ""] and found[0]["engine"] == "emulator", err
