"""Tuning versions, here: which engine, on which problems, and what is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from workbench.engines import Engine, RunOptions, silent
from workbench.engines.choice import choose, on_gpus
from workbench.errors import KernelError, UsageError, WorkbenchError
from workbench.ladder.tuned import Steps, tuned_steps
from workbench.measure.experiment import Display
from workbench.measure.plan import chosen
from workbench.processes.bounds import Deadline
from workbench.project import Project
from workbench.session.measuring import VersionRuns
from workbench.session.targets import Named
from workbench.specs import Version
from workbench.store import Store
from workbench.tune.record import Tuning
from workbench.tune.running import HANG_S, TunePlan, Tuner, profile_sides
from workbench.tune.space import Space


class TuneManner(NamedTuple):
    """How long each version is tuned, in seconds, and whether what is kept is thrown away.

    `profile`: winner and runner-up are profiled afterwards.
    """

    budget_s: float
    restart: bool = False
    profile: bool = True


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
        plans.append((version, TunePlan(tuple(able), manner.budget_s, manner.restart)))
    runs = VersionRuns(named, picked, run, display)
    taken = _engine(project, engine, run, display)
    found: list[Tuning] = []
    for version, plan in plans:
        with runs.failures.of(version.id, version):
            done = Tuner(runs.runner(taken), version, run, display).tune(plan)
            found.append(done)
            _need_winner(version, done)
            if manner.profile:
                _profile(runs, taken, version, done)
    if found:
        store = Store.of(project)
        show(study.name, found, [tuned_steps(store, each, display.say) for each in found])
    runs.failures.finish()


def _engine(project: Project, wanted: str, run: RunOptions, display: Display) -> Engine:
    """What runs the choices: a hang is told sooner than of a version that somebody trusts."""
    short = replace(run, limit=Deadline(HANG_S, run.limit.end))
    if run.gpus:
        engines = on_gpus(project, short)
        if len(engines) > 1:
            raise UsageError(
                f"the GPUs are of {len(engines)} models, whose times nobody may compare",
                "Use --gpus to name the GPUs of one model.",
            )
        return engines[0]
    taken = choose(wanted, project, short, silent)
    name = "emulator, which ranks by counts and knows no times" if not taken.times else "gpu"
    display.say(f"engine: {name}")
    return taken


def _profile(runs: VersionRuns, taken: Engine, version: Version, done: Tuning) -> None:
    """Profile winner and runner-up; a tuning stands where that cannot be."""
    say, options = runs.display.say, replace(runs.options, seed=taken.seed, gpus="")
    wanted = "gpu" if done.engine == "gpu" else "emulator"
    say(f"profile winner and runner-up of {version.id}")
    try:
        profiler = choose(wanted, runs.project, options, silent, profiling=True)
        profile_sides(runs.runner(profiler), version, done)
    except WorkbenchError as error:
        say(
            f"note: winner and runner-up of {version.id} are not profiled, so no counters explain "
            f"the tuning, which stands: {error.message}. {error.hint}"
        )


def _need_winner(version: Version, done: Tuning) -> None:
    if not done.winners and done.ended != "budget":
        why = next((each.why for each in done.trials if each.why), "")
        raise KernelError(
            f"no choice of {version.id} can run" + (f": {why}" if why else ""),
            "Each trial is kept with what became of it: `--format json` shows them.",
        )
