"""What a job does: pieces of a dispatch, each written down when it is begun and when it is done.

A job that was killed, timed out or put back does only what is not done yet, and of times
only what is not stored yet: so it goes on where it was.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import msgspec

from workbench.cluster.dispatch import Begun, Dispatch, Fault, JobOrder, PieceOutcome
from workbench.engines import Engine, Subject, Verdict
from workbench.engines.choice import choose, on_gpu
from workbench.engines.host import presence
from workbench.errors import WorkbenchError
from workbench.measure.experiment import Experiment, report_lines
from workbench.measure.plan import Combination, recorded
from workbench.model import Timing
from workbench.project import Project, require_project
from workbench.store import device_slug
from workbench.study.folder import Study, load_study, source_hash


class JobWork:
    """What submitit calls in a job: some pieces of a dispatch.

    Args:
        root: The project's root, the same on all nodes.
        name: The dispatch's.
        numbers: The pieces.
    """

    def __init__(self, root: str, name: str, numbers: tuple[int, ...]) -> None:
        self.root = root
        self.name = name
        self.numbers = numbers

    def __call__(self) -> None:
        """Do them."""
        os.chdir(self.root)
        Payload(Dispatch(Path(self.root), self.name)).do(self.numbers)

    def checkpoint(self) -> Any:
        """The same again: what is done is written down, so the job goes on where it was."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def node_name() -> str:
    """The node's name, as the queue knows it."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


class Payload:
    """The pieces of one job, which share engine, builds and, where times are taken, a worker."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._order: JobOrder = dispatch.order
        self._project: Project = require_project(dispatch.root)
        self._study: Study | None = None
        self._engine: Engine | None = None
        self._outcomes: dict[int, PieceOutcome] = {}

    def do(self, numbers: tuple[int, ...]) -> None:
        """Do those that are not done yet; no failure keeps the others from their turn."""
        keys = self._dispatch.pieces
        left: dict[int, Subject] = {}
        for number in numbers:
            if self._dispatch.outcome(number) is not None:
                continue
            version, problem = keys[number]
            self._begin(number, version, problem)
            try:
                if (subject := self._subject(number)) is not None:
                    left[number] = subject
            except WorkbenchError as error:
                self._finish(number, fault=Fault.of(error))
        if not left:
            return
        try:
            self._run(left)
        except WorkbenchError as error:  # nothing can run here: that holds for all
            for number in left:
                if self._dispatch.outcome(number) is None:
                    self._finish(number, fault=Fault.of(error))

    def _begin(self, number: int, version: str, problem: str) -> None:
        begun = Begun(
            node=node_name(),
            gpus=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            job=os.environ.get("SLURM_JOB_ID", "0"),
            at=time.time(),
        )
        self._dispatch.begin(number, begun)
        self._outcomes[number] = PieceOutcome(
            version=version,
            problem=problem,
            node=begun.node,
            gpus=begun.gpus,
            job=begun.job,
            begun=begun.at,
        )

    def _finish(self, number: int, **found: Any) -> None:
        """Write down what became of a piece."""
        outcome = msgspec.structs.replace(self._outcomes[number], ended=time.time(), **found)
        self._dispatch.finish(number, outcome)

    def _subject(self, number: int) -> Subject | None:
        """What is to be run; None: its time is stored already, and that is written down."""
        outcome = self._outcomes[number]
        runner = self._runner
        version = runner.study.version(outcome.version)
        self._outcomes[number] = msgspec.structs.replace(
            outcome, source_hash=source_hash(self._project, version)
        )
        one = Combination.of(runner.study, version, runner.study.problem(outcome.problem))
        if self._order.kind == "time" and (slug := self._stored(one)):
            self._finish(number, device=slug, taken=True)
            return None
        return runner.subject(*one)

    @property
    def _runner(self) -> Experiment:
        if self._study is None:
            self._study = load_study(self._project, self._order.study)
        if self._engine is None:
            self._engine = self._start()
        return Experiment(self._project, self._study, self._engine, say=_log)

    def _start(self) -> Engine:
        order = self._order
        if order.kind == "time":
            return on_gpu(self._project, order.run, _log)
        profiling = order.kind == "profile"
        return choose(order.engine, self._project, order.run, _log, profiling=profiling)

    def _stored(self, one: Combination) -> str:
        """Slug of the GPU here, if a time of it is stored that holds."""
        order = self._order
        slug = device_slug(presence.need_gpu().name)
        cache = order.sampling.cache
        found = recorded(self._project, self._runner.study, [one.key], slug, cache, order.since)
        return slug if found.current else ""

    def _run(self, left: dict[int, Subject]) -> None:
        """Run pieces in their order, and write down each as it is done."""
        numbers, subjects = list(left), list(left.values())
        if self._order.kind == "profile":
            for number, subject in left.items():
                self._profile(number, subject)
            return
        if self._order.kind == "time":
            self._time(left)
            return

        def verified(place: int, verdict: Verdict) -> None:
            fault = Fault.of(verdict.error) if verdict.error else None
            self._finish(numbers[place], check=verdict.check, fault=fault)

        self._runner.verify(subjects, verified)

    def _time(self, left: dict[int, Subject]) -> None:
        numbers = {id(subject): number for number, subject in left.items()}

        def timed(subject: Subject, found: Timing | WorkbenchError) -> None:
            number = numbers[id(subject)]
            if isinstance(found, WorkbenchError):
                self._finish(number, fault=Fault.of(found))
            else:
                self._finish(number, device=found.device.slug)

        self._runner.time_all(list(left.values()), self._order.sampling, timed)

    def _profile(self, number: int, subject: Subject) -> None:
        runner = self._runner
        try:
            profile, path = runner.profile(subject, self._order.profiling)
            if self._order.timed and runner.engine.gpu is not None:
                runner.time(subject, self._order.sampling)
        except WorkbenchError as error:
            self._finish(number, fault=Fault.of(error))
            return
        shown = path.relative_to(self._project.root).as_posix()
        lines = report_lines(profile, runner.engine, shown)
        self._finish(number, device=profile.device.slug, lines=lines)


def _log(line: str) -> None:
    """Into the job's own output, which the queue keeps in the dispatch's folder."""
    print(line, flush=True)  # noqa: T201
