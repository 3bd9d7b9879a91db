"""The experiment as a whole: nothing unverified is kept, and an earlier record stays.

The worker and ncu are stand-ins (tests/engines/stand_ins.py); the processes are real.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workbench.engines import ProfileOptions, Subject
from workbench.engines.host.job import TimeOptions
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import DataError, KernelError, MissingError, WorkbenchError
from workbench.measure.experiment import Experiment

# The fixtures above are arguments below.

Manner = Callable[[str], None]
QUICK = TimeOptions(limit_s=0.2, max_samples=40)


@pytest.fixture
def subject(experiment: Experiment) -> Subject:
    return experiment.subject(experiment.study.version("v0"), experiment.study.problem("n1000"))


def records(experiment: Experiment) -> dict[str, bytes]:
    root = experiment.project.profiles
    return {p.name: p.read_bytes() for p in root.rglob("*.zst")} if root.is_dir() else {}


def test_nothing_unverified_is_ever_kept(
    experiment: Experiment, subject: Subject, stand_in: Manner
) -> None:
    experiment.time(subject, QUICK)
    experiment.profile(subject, ProfileOptions(keep_raw="always"))
    before = records(experiment)
    assert len(before) == 3
    for manner in ("wrong", "half", "stray", "nan", "crash", "oom"):
        stand_in(manner)
        with pytest.raises((KernelError, MissingError)):
            experiment.time(subject, QUICK)
        with pytest.raises((KernelError, MissingError)):
            experiment.profile(subject)
        assert records(experiment) == before, manner


def test_a_new_capture_replaces_profile_and_raw_report_together(
    experiment: Experiment, subject: Subject
) -> None:
    _, path = experiment.profile(subject, ProfileOptions(keep_raw="always"))
    first = records(experiment)
    made, again = experiment.profile(subject, ProfileOptions(keep_raw="never"))
    assert again == path and set(first) - set(records(experiment)) == {"n1000.ncu.ncu-rep.zst"}
    assert experiment.store.load(path) == made


def test_a_profile_that_cannot_be_saved_leaves_the_earlier_one(
    experiment: Experiment,
    subject: Subject,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment.profile(subject, ProfileOptions(keep_raw="always"))
    before = records(experiment)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workbench.disk.writing._written", full)
    with pytest.raises(MissingError, match="no space left"):
        experiment.profile(subject)
    assert records(experiment) == before


def test_a_failed_capture_touches_no_timing(
    experiment: Experiment, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment.time(subject, QUICK)
    before = records(experiment)
    for case in ("oob", "nomatch", "cut", "fulldisk", "perm"):
        monkeypatch.setenv("FAKE_NCU", case)
        with pytest.raises(WorkbenchError):
            experiment.profile(subject)
        assert records(experiment) == before, case


def test_time_without_keeping(experiment: Experiment, subject: Subject) -> None:
    timing = experiment.time(subject, QUICK, keep=False)
    assert timing.version == "v0" and records(experiment) == {}


def test_the_build_is_announced_once_a_version(
    experiment: Experiment, add_version: Callable[[str, str], None]
) -> None:
    said: list[str] = []
    engine = GpuEngine(experiment.project, experiment.gpu.where, seed=1, say=said.append)
    runner = Experiment(experiment.project, experiment.study, engine, say=said.append)
    for problem in experiment.study.problems.values():
        runner.subject(experiment.study.version("v0"), problem)
    assert said == ["build v0 for sm_90"]


def test_verify_tells_each_problem_as_it_comes(experiment: Experiment) -> None:
    said: list[str] = []
    steps: list[str] = []
    runner = Experiment(
        experiment.project,
        experiment.study,
        experiment.engine,
        say=said.append,
        doing=steps.append,
    )
    version = experiment.study.version("v0")
    subjects = [runner.subject(version, p) for p in experiment.study.problems.values()]
    verdicts = runner.verify(subjects)
    assert [v.error for v in verdicts] == [None, None]
    assert said[-1] == "verify v0 on 2 problems"
    assert steps[0] == "verify v0 on n1000 (1 of 2)"


def test_one_seed_for_all_versions_of_a_run(experiment: Experiment, subject: Subject) -> None:
    project, where = experiment.project, experiment.gpu.where
    fresh = Experiment(project, experiment.study, GpuEngine(project, where))
    assert fresh.engine.seed != GpuEngine(project, where).seed
    timing = fresh.time(subject, QUICK, keep=False)
    assert timing.verification is not None and timing.verification.seed == fresh.engine.seed


def test_repeats_that_the_report_does_not_hold_are_refused(
    experiment: Experiment, subject: Subject
) -> None:
    # The stand-in's report has one launch, whatever was asked for.
    with pytest.raises(DataError, match="1 launches in 3 executions"):
        experiment.profile(subject, ProfileOptions(repeats=3))
    assert records(experiment) == {}


def test_a_python_version_says_that_its_kernels_are_a_librarys(experiment: Experiment) -> None:
    study = experiment.study
    subject = experiment.subject(study.version("library"), study.problem("n1000"))
    made, _ = experiment.profile(subject)
    # The stand-in's report has source, so there is nothing to explain.
    assert [n for n in made.notices if n.code == "library-kernel"] == []
    assert made.build is None and made.source_hash
