"""The experiment as a whole: nothing unverified is kept, and an earlier record stays.

The worker and ncu are stand-ins (tests/engines/stand_ins.py); the processes are real.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engines.stand_ins import time_one
from workbench.engines import ProfileOptions, RunOptions, Subject
from workbench.engines.host.job import TimeOptions
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import DataError, KernelError, MissingError
from workbench.measure.experiment import Experiment, Silent
from workbench.session import workspace
from workbench.session.api import CoreSession
from workbench.session.targets import Named

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
    time_one(experiment, subject, QUICK)
    experiment.profile(subject, ProfileOptions(keep_raw="always"))
    before = records(experiment)
    assert len(before) == 3
    for manner in ("wrong", "oom"):
        stand_in(manner)
        with pytest.raises((KernelError, MissingError)):
            time_one(experiment, subject, QUICK)
        with pytest.raises((KernelError, MissingError)):
            experiment.profile(subject)
        assert records(experiment) == before, manner


def test_a_profile_that_cannot_be_saved_leaves_the_earlier_one(
    experiment: Experiment, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment.profile(subject, ProfileOptions(keep_raw="always"))
    before = records(experiment)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workbench.disk.writing._written", full)
    with pytest.raises(MissingError, match="no space left"):
        experiment.profile(subject)
    assert records(experiment) == before


class Said(Silent):
    """A display that keeps its lines."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.steps: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def doing(self, text: str) -> None:
        self.steps.append(text)


def test_the_build_is_announced_once_a_version(
    experiment: Experiment, add_version: Callable[[str, str], None]
) -> None:
    display = Said()
    engine = GpuEngine(experiment.project, experiment.gpu.where, seed=1, say=display.say)
    runner = Experiment(experiment.project, experiment.study, engine, display)
    for problem in experiment.study.problems.values():
        runner.subject(experiment.study.version("v0"), problem)
    assert display.said == ["build v0 for sm_90"]


def test_repeats_that_the_report_does_not_hold_are_refused(
    experiment: Experiment, subject: Subject
) -> None:
    # The stand-in's report has one launch, whatever was asked for.
    with pytest.raises(DataError, match="1 launches in 3 executions"):
        experiment.profile(subject, ProfileOptions(repeats=3))
    assert records(experiment) == {}


def test_from_python_an_error_is_the_result_s_fault(
    experiment: Experiment, stand_in: Manner, add_version: Callable[[str, str], None]
) -> None:
    add_version("v1", "does not compile")
    session, run = CoreSession(experiment.project.root), RunOptions(launcher="env", arch="sm_90")
    found = session.verify(Named(versions=("v0", "v1")), run=run)
    assert [(piece.key, judged.error is None) for piece, judged in found.pairs] == [
        (("v0", "n1000"), True),
        (("v0", "n7"), True),
        (("v1", "n1000"), False),
        (("v1", "n7"), False),
    ]
    assert isinstance(found.fault, KernelError) and "v1" in found.fault.message
    stand_in("wrong")
    times = session.time("v0", run, manner=workspace.Manner(QUICK, resume=False))
    assert isinstance(times.fault, KernelError) and "wrong result" in times.fault.message
    assert times.found == []
