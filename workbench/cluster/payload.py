"""What a job does: pieces of a campaign, each written down when it is begun and when it is done.

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

from workbench.cluster.campaign import Begun, Campaign, Fault, Order, Outcome
from workbench.engines import Engine
from workbench.engines.choice import choose, on_gpu
from workbench.errors import WorkbenchError
from workbench.measure.experiment import Experiment, report_lines
from workbench.measure.plan import Combination, recorded
from workbench.project import Project, require_project
from workbench.store import device_slug
from workbench.study.folder import Study, load_study, source_hash


class Work:
    """What submitit calls in a job: some pieces of a campaign.

    Args:
        root: The project's root, the same on all nodes.
        name: The campaign's.
        numbers: The pieces.
    """

    def __init__(self, root: str, name: str, numbers: tuple[int, ...]) -> None:
        self.root = root
        self.name = name
        self.numbers = numbers

    def __call__(self) -> None:
        """Do them."""
        campaign = Campaign(Path(self.root), self.name)
        os.chdir(self.root)
        Payload(campaign).do(self.numbers)

    def checkpoint(self) -> Any:
        """The same again: what is done is written down, so the job goes on where it was."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def node_name() -> str:
    """The node's name, as the queue knows it."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


class Payload:
    """The pieces of one job, which share engine and builds."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._order: Order = campaign.order
        self._project: Project = require_project(campaign.root)
        self._study: Study | None = None
        self._engine: Engine | None = None
        self._job = os.environ.get("SLURM_JOB_ID", "0")

    def do(self, numbers: tuple[int, ...]) -> None:
        """Do pieces one after another; no failure keeps the others from their turn."""
        keys = self._campaign.pieces
        for number in numbers:
            if self._campaign.outcome(number) is not None:
                continue
            version, problem = keys[number]
            begun = Begun(
                node=node_name(),
                gpus=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
                job=self._job,
                at=time.time(),
            )
            self._campaign.begin(number, begun)
            outcome = Outcome(
                version=version,
                problem=problem,
                node=begun.node,
                gpus=begun.gpus,
                job=self._job,
                begun=begun.at,
            )
            try:
                outcome = self._one(outcome)
            except WorkbenchError as error:
                outcome = msgspec.structs.replace(outcome, fault=Fault.of(error))
            outcome = msgspec.structs.replace(outcome, ended=time.time())
            self._campaign.finish(number, outcome)

    def _one(self, outcome: Outcome) -> Outcome:
        if self._study is None:
            self._study = load_study(self._project, self._order.study)
        if self._engine is None:
            self._engine = self._start()
        version = self._study.version(outcome.version)
        outcome = msgspec.structs.replace(outcome, source_hash=source_hash(self._project, version))
        one = Combination.of(self._study, version, self._study.problem(outcome.problem))
        runner = Experiment(self._project, self._study, self._engine, say=_log)
        if self._order.kind == "verify":
            (verdict,) = runner.verify([runner.subject(*one)])
            fault = Fault.of(verdict.error) if verdict.error else None
            return msgspec.structs.replace(outcome, check=verdict.check, fault=fault)
        if self._order.kind == "profile":
            outcome = self._profile(runner, one, outcome)
            if not self._order.timed or self._engine.gpu is None:
                return outcome
        return self._time(runner, one, outcome)

    def _start(self) -> Engine:
        order = self._order
        if order.kind == "time":
            return on_gpu(self._project, order.run, _log)
        profiling = order.kind == "profile"
        return choose(order.engine, self._project, order.run, _log, profiling=profiling)

    def _time(self, runner: Experiment, one: Combination, outcome: Outcome) -> Outcome:
        from workbench.engines.host.presence import need_gpu

        slug = device_slug(need_gpu().name)
        found = recorded(
            self._project,
            runner.study,
            [one.key],
            slug,
            self._order.timing.cache,
            self._order.since,
        )
        if found.current:
            return msgspec.structs.replace(outcome, device=slug, taken=True)
        timing = runner.time(runner.subject(*one), self._order.timing)
        return msgspec.structs.replace(outcome, device=timing.device.slug)

    def _profile(self, runner: Experiment, one: Combination, outcome: Outcome) -> Outcome:
        profile, path = runner.profile(runner.subject(*one), self._order.counting.options)
        shown = path.relative_to(self._project.root).as_posix()
        told = report_lines(profile, runner.engine, shown)
        return msgspec.structs.replace(outcome, device=profile.device.slug, told=told)


def _log(line: str) -> None:
    """Into the job's own output, which the queue keeps in the campaign's folder."""
    print(line, flush=True)  # noqa: T201
