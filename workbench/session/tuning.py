"""Tuning versions, here or on a cluster: on which problems, and what is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from workbench.engines import RunOptions
from workbench.errors import UsageError
from workbench.ladder.tuned import Steps, tuned_steps
from workbench.measure.experiment import Display
from workbench.measure.plan import chosen
from workbench.model import Problem
from workbench.session.measuring import VersionRuns
from workbench.session.targets import Named
from workbench.specs import Version
from workbench.store import Store
from workbench.tune.record import Tuning, load, path_of
from workbench.tune.running import TuneManner, Tuner, tune_version, tuning_engine
from workbench.tune.space import Space

if TYPE_CHECKING:
    from workbench.cluster.dispatch import PieceOutcome


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

    Args:
        named: Which versions.
        problems: Names of problems; none: the first profiled one of each version.
        engine: ``auto``, ``gpu`` or ``emulator``.
        run: Where and how.
        display: Who is told how far it is.
        manner: How long, and on what of earlier runs.
        show: Called with the study's name and what was found: tunings, and the steps of each from
            runner-up to winner.

    Raises:
        UsageError: a version without ``[tune]``, an unknown problem.
        KernelError: no choice of a version can run.
        MissingError: nothing can run here, or the space is too large without Optuna.
    """
    if run.gpus and engine == "emulator":
        raise UsageError("the emulator needs no GPU", "Leave out --gpus or --engine emulator.")
    picked = named.pick()
    project, study, versions = picked
    plans = []
    for version in versions:
        able = [
            each.problem
            for name in dict.fromkeys(problems) or (None,)
            for each in chosen(study, version, name, "profile")[:1]
        ]
        Space(study, version, able[0])  # says what lacks before anything is begun
        plans.append((version, able))
    runs = VersionRuns(named, picked, run, display)
    found: list[Tuning] = []
    if run.on:
        _by_jobs(runs, engine, plans, manner, found.append)
    else:
        taken = tuning_engine(project, engine, run, display.say)
        for version, able in plans:
            with runs.failures.of(version.id, version):
                tuner = Tuner(runs.runner(taken), version, run, display)
                tune_version(tuner, able, manner, found.append)
    if found:
        store = Store.of(project)
        show(study.name, found, [tuned_steps(store, each, display.say) for each in found])
    runs.failures.finish()


def _by_jobs(
    runs: VersionRuns,
    engine: str,
    plans: Sequence[tuple[Version, Sequence[Problem]]],
    manner: TuneManner,
    found: Callable[[Tuning], None],
) -> None:
    """Tune by jobs of a cluster, a version a job; what they keep is read back from the store."""
    root = Store.of(runs.project).root

    def tell(outcome: PieceOutcome) -> None:
        for line in outcome.lines:
            runs.display.say(line)
        if outcome.tuned is not None:
            where = outcome.device, runs.study.name, outcome.version, outcome.tuned
            found(load(path_of(root, *where)))

    keys = [(version.id, " ".join(each.name for each in able)) for version, able in plans]
    runs.send("tune", keys, tell, engine=engine, tuning=manner)
