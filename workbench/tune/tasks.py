"""Tuning versions, here or on a cluster: the problems, and the results that are shown."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from workbench.engines import Engine, RunOptions
from workbench.engines.host.worker_pool import Crew
from workbench.errors import UsageError, WorkbenchError
from workbench.ladder.tunings import Tuning
from workbench.measure.experiment import Display
from workbench.measure.plan import Combination, chosen
from workbench.model import Problem
from workbench.project import Project
from workbench.session.runners import Here, Task, Tell, VersionRuns
from workbench.session.targets import Named
from workbench.specs import Version
from workbench.store import Store
from workbench.study.folder import Study
from workbench.tune.running import TuneManner, Tuner, tune_version, tuning_engine
from workbench.tune.space import Space
from workbench.tune.steps import Steps, tuned_steps


class TuneTask(Task[Tuning], frozen=True, kw_only=True):
    """Tune versions one after another.

    A piece is a version and its first problem: one search covers all of its problems, and writes
    one file.
    """

    kind = "tune"
    result = Tuning
    alone = True

    timed: bool = True
    problems: tuple[str, ...]
    manner: TuneManner

    def resumed(self, since: str, gpus: str) -> TuneTask:
        """See `Task.resumed`."""
        several = gpus if "," in gpus and self.engine != "emulator" else ""
        run, manner = replace(self.run, gpus=several), self.manner._replace(since=since)
        return replace(self, run=run, manner=manner)

    def engines(
        self, project: Project, display: Display, workers: Crew | None = None
    ) -> Sequence[Engine]:
        """See `Task.engines`."""
        del workers
        return (tuning_engine(project, self.engine, self.run, display.say),)

    def do(self, here: Here, pieces: Sequence[Combination], tell: Tell[Tuning]) -> None:
        """See `Task.do`."""
        for piece in pieces:
            anew = Here(here.project, here.study, here.engine, here.display)
            tuner = Tuner(anew, piece.version, self.run, here.display)
            try:
                able = _able(here.study, piece.version, self.problems)
                tune_version(tuner, able, self.manner, functools.partial(tell, piece))
            except WorkbenchError as error:
                tell(piece, error)


def tune(
    named: Named,
    problems: Sequence[str],
    engine: str,
    run: RunOptions,
    display: Display,
    manner: TuneManner,
    show: Callable[[str, list[Tuning], list[Steps]], None],
) -> None:
    """Tune versions one after another, and keep every trial as it ends.

    Without `problems`, each version is tuned on its first profiled one. `show` is called with the
    study's name, the tunings, and the steps of each from runner-up to winner.

    Raises:
        UsageError: a version without ``[tune]``, an unknown problem.
        KernelError: no choice of a version can run.
        MissingError: nothing can run here, or the space is too large without Optuna.
    """
    if run.gpus and engine == "emulator":
        raise UsageError("the emulator needs no GPU", "Leave out --gpus or --engine emulator.")
    picked = named.pick()
    project, study, versions = picked
    pieces = []
    for version in versions:
        able = _able(study, version, problems)
        Space(study, version, able[0])  # reports what is missing before anything begins
        pieces.append(Combination(version, able[0]))
    runs = VersionRuns(named, picked, run, display)
    task = TuneTask(
        run=run, engine=engine, problems=tuple(problems), manner=manner, seconds=manner.budget_s
    )
    (runner,) = runs.runners(task)
    found: list[Tuning] = []
    runs.carry_out(runner, task, pieces, lambda _piece, tuning: found.append(tuning))
    if found:
        store = Store.of(project)
        show(study.name, found, [tuned_steps(store, each, display.say) for each in found])
    runs.failures.finish()


def _able(study: Study, version: Version, problems: Sequence[str]) -> list[Problem]:
    """The problems on which a version is tuned."""
    return [
        each.problem
        for name in dict.fromkeys(problems) or (None,)
        for each in chosen(study, version, name, "profile")[:1]
    ]
