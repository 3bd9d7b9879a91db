"""Batches of jobs: what one job breaks, the others do not feel. The workers are real processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engines.stand_ins import experiment_on
from workbench.engines import Where
from workbench.engines.gpu.bench import Benches
from workbench.engines.host.client import Feed, describe, run_jobs
from workbench.engines.host.job import Job, TimeOptions
from workbench.engines.host.worker_pool import Ending, run_batch
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import KernelError, MissingError, WorkbenchError
from workbench.measure.experiment import Experiment
from workbench.measure.plan import Combination
from workbench.model import Timing
from workbench.processes.bounds import Deadline
from workbench.project import Project
from workbench.study.folder import Study, load_study

Manner = Callable[[str], None]
WHERE = Where(arch="sm_90", limit=Deadline(60.0))
QUICK = TimeOptions(limit_s=0.2, max_samples=40)


class Told:
    """What `run_batch` told, and the workers that it started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.endings: dict[int, Ending] = {}
        self.begun: list[int] = []
        self.workers: list[int] = []

        def counted(project: Project, jobs: Feed, *args: Any, **kwargs: Any) -> Any:
            self.workers.append(len(jobs))
            return run_jobs(project, jobs, *args, **kwargs)

        monkeypatch.setattr("workbench.engines.host.worker_pool.run_jobs", counted)

    def __call__(self, place: int, ending: Ending) -> None:
        assert place not in self.endings, "told twice"
        self.endings[place] = ending

    def errors(self, count: int) -> list[str]:
        assert sorted(self.endings) == list(range(count))
        return [str(self.endings[place].error or "") for place in range(count)]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


@pytest.fixture
def jobs(
    project: Project, stand_in: Manner, add_version: Callable[[str, str], None]
) -> Callable[..., list[Job]]:
    """``jobs(("v0", "n7"), …)``: versions v0, v1 and v2 and the library, to verify."""
    add_version("v1", "the same")
    add_version("v2", "the same")

    def make(*pairs: tuple[str, str]) -> list[Job]:
        runner = experiment_on(project, load_study(project, "double"))
        engine = runner.engine
        assert isinstance(engine, GpuEngine)
        return [
            engine.job(
                "verify", runner.subject(runner.study.version(version), runner.study.problem(name))
            )
            for version, name in pairs
        ]

    return make


ALL = [(version, name) for name in ("n1000", "n7") for version in ("v0", "v1", "v2")]


def run(project: Project, jobs: list[Job], told: Told, where: Where = WHERE) -> None:
    run_batch(project, Feed(jobs), where, told, told.begun.append)


def test_all_is_done_in_one_process(
    project: Project, jobs: Callable[..., list[Job]], told: Told
) -> None:
    run(project, jobs(*ALL), told)
    assert told.errors(6) == [""] * 6 and told.workers == [6] and told.begun == list(range(6))
    left = [path for path in Path(project.root / "build" / "runs").rglob("*") if path.is_file()]
    assert {path.name for path in left} <= {".lock", ".gitignore"}


def test_after_a_crash_the_rest_goes_to_a_fresh_worker(
    project: Project, jobs: Callable[..., list[Job]], told: Told, stand_in: Manner
) -> None:
    stand_in("crash v1")
    run(project, jobs(*ALL), told)
    errors = told.errors(6)
    assert [bool(error) for error in errors] == [False, True, False, False, True, False]
    assert "v1 crashed on n1000" in errors[1] and "v1 crashed on n7" in errors[4]
    assert told.workers == [6, 4, 1]


def test_a_failure_that_leaves_the_context_whole_needs_no_other_worker(
    project: Project,
    jobs: Callable[..., list[Job]],
    told: Told,
    stand_in: Manner,
    project_file: Callable[[str, str, str], None],
) -> None:
    project_file("library.py", 'return ""', 'return "no library here"')
    stand_in("wrong")
    run(project, jobs(("library", "n7"), *ALL), told)
    errors = told.errors(7)
    assert "no library here" in errors[0] and "wrong result on n1000" in errors[1]
    assert errors[4:] == ["", "", ""] and told.workers == [7]


def test_a_worker_that_dies_without_a_word_costs_one_job(
    project: Project, jobs: Callable[..., list[Job]], told: Told, stand_in: Manner
) -> None:
    stand_in("die v1")
    run(project, jobs(*ALL), told)
    errors = told.errors(6)
    assert [bool(error) for error in errors] == [False, True, False, False, True, False]
    assert "the worker for v1 on n1000 ended with exit code 77" in errors[1]
    assert told.workers == [6, 4, 1]


def test_a_version_that_hangs_is_not_tried_again(
    project: Project, jobs: Callable[..., list[Job]], told: Told, stand_in: Manner
) -> None:
    stand_in("hang v1")
    run(project, jobs(*ALL), told, Where(arch="sm_90", limit=Deadline(6.0)))
    errors = told.errors(6)
    assert [bool(error) for error in errors] == [False, True, False, False, True, False]
    assert "v1 on n1000 did not end within 6 s" in errors[1]
    assert "v1 was not tried on n7: it did not end on n1000" in errors[4]
    assert told.workers == [6, 3]


@pytest.mark.slow
def test_the_time_limit_is_each_jobs_and_not_the_batchs(
    project: Project, jobs: Callable[..., list[Job]], told: Told, stand_in: Manner
) -> None:
    stand_in("slow")  # each job takes a second and a half
    run(project, jobs(*ALL), told, Where(arch="sm_90", limit=Deadline(6.0)))
    assert told.errors(6) == [""] * 6 and told.workers == [6]


def test_no_gpu_ends_the_batch_at_once(
    project: Project, jobs: Callable[..., list[Job]], told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DEVICES", "0")
    with pytest.raises(MissingError, match="the worker finds no GPU"):
        run(project, jobs(*ALL), told)
    assert told.endings == {} and told.workers == [6]


def test_workers_that_never_say_a_word_are_given_up(
    project: Project, jobs: Callable[..., list[Job]], told: Told
) -> None:
    # A launcher that ends with 3 whatever it is given.
    where = Where(arch="sm_90", launcher=("sh", "-c", "exit 3"))
    with pytest.raises(KernelError, match="ended with exit code 3 and without a result"):
        run(project, jobs(*ALL), told, where)
    assert told.workers == [6, 5] and list(told.endings) == [0]


def test_an_error_of_the_teller_is_not_lost(
    project: Project, jobs: Callable[..., list[Job]], told: Told
) -> None:
    def fail(place: int, _: Ending) -> None:
        raise ZeroDivisionError(place)

    with pytest.raises(ZeroDivisionError):
        run_batch(project, Feed(jobs(*ALL)), WHERE, fail)


def test_the_device_is_told_without_a_version(project: Project, stand_in: Manner) -> None:
    device = describe(project, Where(arch="sm_90", launcher=("env",)))
    assert device.slug == "stand-in-1" and device.compute_capability == (9, 0)


def test_time_keeps_what_went_well_and_tells_what_did_not(
    experiment: Experiment, stand_in: Manner, add_version: Callable[[str, str], None]
) -> None:
    add_version("v1", "the same")
    stand_in("crash v1")
    study = load_study(experiment.project, "double")
    runner = experiment_on(experiment.project, study)
    pieces = [
        Combination(version, problem)
        for problem in study.problems.values()
        for version in study.versions.values()
    ]
    told: list[tuple[str, str, str]] = []

    def tell(piece: Combination, outcome: Timing | WorkbenchError) -> None:
        said = "kept" if isinstance(outcome, Timing) else outcome.message.split(" while")[0]
        told.append((*piece.key, said))

    runner.time(pieces, QUICK, tell)
    assert told == [
        ("v0", "n1000", "kept"),
        ("v1", "n1000", "v1 crashed on n1000"),
        ("library", "n1000", "kept"),
        ("v0", "n7", "kept"),
        ("v1", "n7", "v1 crashed on n7"),
        ("library", "n7", "kept"),
    ]
    kept = {(t.version, t.problem): t for t in runner.store.timings()}
    assert len(kept) == 4 and all(t.verification is not None for t in kept.values())
    assert kept["v0", "n7"].ratio is not None and kept["v0", "n7"].baseline_hash
    assert kept["library", "n7"].baseline == kept["library", "n7"].baseline_hash == ""


def test_versions_that_do_not_compile_are_named_and_the_others_built(
    experiment: Experiment, add_version: Callable[[str, str], None]
) -> None:
    add_version("v1", "does not compile")
    study = load_study(experiment.project, "double")
    runner = experiment_on(experiment.project, study)
    failed = runner.build_all(list(study.versions.values()))
    assert list(failed) == ["v1"] and "expected a ;" in failed["v1"].message


def _job(problem: str, seed: int) -> Job:
    from workbench.engines.host.job import Executable

    program = Executable(version="v0", kind="python", path="")
    return Job(task="verify", study="double", problem=problem, seed=seed, executable=program)


def test_versions_on_one_problem_share_inputs_and_reference(study: Study) -> None:
    benches = Benches()
    first = benches.of(_job("n1000", 1))
    assert benches.of(_job("n7", 1)) is not first
    assert benches.of(_job("n1000", 1)) is first
    other = benches.of(_job("n1000", 2))
    assert other is not first and (other.inputs["x"] != first.inputs["x"]).any()


def test_benches_make_room_for_the_next_but_never_drop_the_current_one(study: Study) -> None:
    # n1000: of both seeds 4 bytes an input and 8 a reference element, 24,000 in all; n7: 168.
    benches = Benches(limit=24_100)
    large, small = benches.of(_job("n1000", 1)), benches.of(_job("n7", 1))
    assert large.host_bytes == 24_000 and small.host_bytes == 168
    assert benches.of(_job("n7", 1)) is small
    assert benches.of(_job("n1000", 1)) is not large
    tiny = Benches(limit=1)
    assert tiny.of(_job("n1000", 1)) is tiny.of(_job("n1000", 1))
