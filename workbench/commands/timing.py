"""Timing combinations on the GPUs that were asked for: what `time` and `sweep` share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from workbench.cluster.dispatch import PieceOutcome
    from workbench.commands.progress import Progress
    from workbench.engines import RunOptions
    from workbench.engines.host.crew import Crew
    from workbench.engines.host.job import TimeOptions
    from workbench.measure.experiment import Failures
    from workbench.measure.plan import Combination, Gap, Key
    from workbench.model import Timing
    from workbench.project import Project
    from workbench.study.folder import Study


class Wanted(NamedTuple):
    """What is to be timed, and how.

    Attributes:
        resume: What is stored of the same sources is taken from there.
        since: ISO time; what was stored before it is measured again.
        workers: They have been started already (`early_workers`).
    """

    project: Project
    study: Study
    combinations: Sequence[Combination]
    timing: TimeOptions
    run: RunOptions
    resume: bool
    since: str
    workers: Crew | None = None


@contextlib.contextmanager
def early_workers(
    run: RunOptions, study: str | None, target: str | None, *, again: bool
) -> Iterator[Crew | None]:
    """Start workers before it is known what they are to do, where it is certain to be something.

    That is where all is measured again, or no time of the study is stored. A worker loads a
    driver and libraries for seconds, in which the study is read, its versions are looked at
    and compiled. None where it is not certain, or where it fails: whoever needs workers then
    says why there are none.

    Args:
        run: Where to run. What other machines do is not begun before it is settled.
        study: The study's name, if it was given.
        target: A version that was named, perhaps with its study.
        again: What is stored is measured again.
    """
    from workbench.engines.host.crew import crew
    from workbench.engines.host.presence import choose_hosts
    from workbench.errors import WorkbenchError
    from workbench.project import require_project, studies_in
    from workbench.store import Store
    from workbench.study.folder import parse_target

    with contextlib.ExitStack() as open_:
        workers = None
        with contextlib.suppress(WorkbenchError):
            project = require_project()
            name = study or project.default_study
            name = parse_target(target, name)[0] if target else name
            here = name in studies_in(project.kernels) and not run.on and not run.launcher
            if here and (again or not Store(project.profiles).has_timings(name)):
                workers = open_.enter_context(crew(project, choose_hosts(run)[0], name))
        yield workers


class Timed(NamedTuple):
    """What there is of a plan on one model of GPU: times, and why others are missing."""

    timings: dict[Key, Timing]
    gaps: dict[Key, Gap]


def measure(
    wanted: Wanted, progress: Progress, failures: Failures, go_on: Callable[[str], str]
) -> list[Timed]:
    """Time combinations, or take them from the store; an entry for each model of GPU.

    Args:
        wanted: What is to be timed.
        progress: Where it is said what is done.
        failures: Keeps the errors of single combinations.
        go_on: Gives the words behind "go on with" for an interruption, from the time at which
            this began.

    Raises:
        MissingError: there is no GPU to run on.
        UsageError: GPUs that are not here.
    """
    from workbench.engines import now
    from workbench.engines.choice import on_gpus
    from workbench.measure.experiment import Campaign, Experiment

    if wanted.run.on:
        return _on_cluster(wanted, progress, failures)
    begin = now()
    out: list[Timed] = []
    project, study, combinations = wanted.project, wanted.study, wanted.combinations
    for engine in on_gpus(project, wanted.run, progress.say, wanted.workers):
        runner = Experiment(project, study, engine, say=progress.say, step=progress.step)
        campaign = Campaign(runner, wanted.timing, progress, failures, _load_tables)
        try:
            if wanted.resume:
                campaign.take(combinations, wanted.since)
            campaign.measure(combinations)
        except (KeyboardInterrupt, SystemExit):
            if wanted.workers is not None:
                wanted.workers.end()  # and so keep what they have, before that is counted
            progress.say(
                f"{len(campaign.timings)} of {len(combinations)} combinations are measured and "
                f"kept; go on with{go_on(begin)}"
            )
            raise
        out.append(Timed(campaign.timings, campaign.gaps))
    return out


def _load_tables() -> None:
    """What prints the end takes as long to import as the start does: the GPUs need not wait."""
    import workbench.views.terminal.tables  # noqa: F401


def _on_cluster(wanted: Wanted, progress: Progress, failures: Failures) -> list[Timed]:
    """The same by jobs of a cluster: what they store is read back from there."""
    from workbench.cluster.fleet import Fleet
    from workbench.commands.oncluster import carry_out, ordered
    from workbench.engines import now
    from workbench.measure.plan import Gap, recorded

    project, study = wanted.project, wanted.study
    since = wanted.since if wanted.resume else now()
    order = ordered("time", study, wanted.run, timing=wanted.timing, since=since)
    keys = [each.key for each in wanted.combinations]
    cache, count = wanted.timing.cache, 0
    gaps: dict[Key, Gap] = {}
    fleet = Fleet(project, study, progress)
    stored: set[Key] = set()
    for device in fleet.devices if wanted.resume else ():
        stored |= recorded(project, study, keys, device, cache, since).current.keys()
    if stored:
        progress.say(
            f"{len(stored)} of {len(keys)} are taken from the store "
            f"({', '.join(fleet.devices)}, same sources); --again measures all"
        )
    todo = [each for each in wanted.combinations if each.key not in stored]

    def tell(outcome: PieceOutcome) -> None:
        nonlocal count
        count += 1
        if outcome.fault is not None:
            gaps[outcome.key] = Gap(kind="failed", why=outcome.fault.message.splitlines()[0])
            return
        found = recorded(project, study, [outcome.key], outcome.device, cache).current
        for timing in found.values():
            progress.timing(f"[{count}/{len(todo)}]", timing, study.work)

    if todo:
        order = carry_out(fleet, study, order, todo, failures, tell)
    found = [recorded(project, study, keys, each, cache, order.since) for each in fleet.devices]
    return [Timed(dict(each.current), gaps) for each in found if each.current] or [Timed({}, gaps)]


def need_one_model(found: Sequence[Timed], format_: str) -> None:
    """Refuse to print two documents where a program reads one.

    Raises:
        UsageError: times of several models of GPU, and a format for programs.
    """
    from workbench.errors import UsageError

    if len(found) > 1 and format_ in ("json", "csv"):
        raise UsageError(
            f"--format {format_} prints one document, but the GPUs are of {len(found)} models",
            "All times are stored. Use --gpus to name the GPUs of one model.",
        )
