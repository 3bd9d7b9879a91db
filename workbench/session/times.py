"""Times of versions as they are measured.

Versions are timed in turn with the study's baseline, on the GPUs that were asked for; an entry
of what is found is of one model of GPU. What is stored of the same sources need not be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from workbench.engines import RunOptions, now
from workbench.engines.choice import on_gpus
from workbench.engines.host.crew import Crew
from workbench.engines.host.job import TimeOptions
from workbench.errors import MissingError, UsageError
from workbench.measure.experiment import Campaign, Display
from workbench.measure.plan import (
    Combination,
    Gap,
    Key,
    by_work,
    recorded,
    to_time,
)
from workbench.model import Timing
from workbench.session.measuring import NAME_ANOTHER, VersionRuns
from workbench.session.targets import Named
from workbench.study.folder import Study

if TYPE_CHECKING:
    from workbench.cluster.dispatch import PieceOutcome


class Manner(NamedTuple):
    """How combinations are timed.

    Attributes:
        sampling: How long, and in what state of the caches.
        resume: What is stored of the same sources is taken from there.
        since: ISO time; what was stored before it is measured again.
        workers: They have been started already (`workbench.engines.host.crew.early_workers`).
    """

    sampling: TimeOptions
    resume: bool
    since: str = ""
    workers: Crew | None = None


class Timed(NamedTuple):
    """What there is of a plan on one model of GPU: times, and why others are missing."""

    timings: dict[Key, Timing]
    gaps: dict[Key, Gap]


def time(
    named: Named,
    run: RunOptions,
    display: Display,
    manner: Manner,
    show: Callable[[Study, list[Timed]], None],
    *,
    all_problems: bool = False,
) -> None:
    """Time versions against the study's baseline, outside of any profiler.

    Args:
        named: Which versions, on which problem (None: the first profiled one).
        run: Where and how.
        display: Who is told how far it is.
        manner: How long, and what of the store is taken.
        show: Called with what was found: an entry for each model of GPU, its times by version.
        all_problems: Every problem to profile or sweep.

    Raises:
        UsageError: an unknown problem, or one that a named version cannot do.
        MissingError: no GPU to run on; nothing was timed.
    """
    runs = VersionRuns(named, named.pick(), run, display, alone=not all_problems)
    combinations = _to_time(runs, all_problems)

    def go_on(begin: str) -> str:
        other = "" if manner.resume else f", --since {begin} in the place of --again"
        return f" the same command{other}"

    found = measure(runs, combinations, manner, go_on)
    names = dict.fromkeys(each.problem.name for each in combinations)
    keys = [(version.id, name) for version in runs.versions for name in names]
    show(
        runs.study,
        [Timed({k: t[k] for k in keys if k in t}, gaps) for t, gaps in found],
    )
    runs.failures.finish()
    if not any(each.timings for each in found):
        raise MissingError("nothing was timed", NAME_ANOTHER)


def _to_time(runs: VersionRuns, all_problems: bool) -> list[Combination]:
    """Each version on its problems; problem by problem, from the least work to the most."""
    able: list[Combination] = []
    for version in runs.versions:
        try:
            able += to_time(runs.study, version, runs.named.problem, all_problems)
        except UsageError as error:
            if not runs.failures.pass_over(version, error):
                raise
    problems = {each.problem.name: each.problem for each in able}
    order = [each.name for each in by_work(runs.study, problems.values())]
    return sorted(able, key=lambda each: order.index(each.problem.name))


def measure(
    runs: VersionRuns,
    combinations: Sequence[Combination],
    manner: Manner,
    go_on: Callable[[str], str],
) -> list[Timed]:
    """Time combinations, or take them from the store; an entry for each model of GPU.

    `combinations` are in the order of measuring. `go_on` gives the words behind "go on with" for an
    interruption, from the time at which this began.

    Raises:
        MissingError: there is no GPU to run on.
        UsageError: GPUs that are not here.
    """
    if runs.options.on:
        return _measured_by_jobs(runs, combinations, manner)
    begin, say = now(), runs.display.say
    out: list[Timed] = []
    for engine in on_gpus(runs.project, runs.options, say, manner.workers):
        campaign = Campaign(runs.runner(engine), manner.sampling, runs.display, runs.failures)
        try:
            if manner.resume:
                campaign.take(combinations, manner.since)
            campaign.measure(combinations)
        except (KeyboardInterrupt, SystemExit):
            if manner.workers is not None:
                manner.workers.end()  # and so keep what they have, before that is counted
            say(
                f"{len(campaign.timings)} of {len(combinations)} combinations are measured and "
                f"kept; go on with{go_on(begin)}"
            )
            raise
        out.append(Timed(campaign.timings, campaign.gaps))
    return out


def _measured_by_jobs(
    runs: VersionRuns, combinations: Sequence[Combination], manner: Manner
) -> list[Timed]:
    """The same by jobs of a cluster: what they store is read back from there."""
    project, study, display, fleet = runs.project, runs.study, runs.display, runs.fleet
    since = manner.since if manner.resume else now()
    keys = [each.key for each in combinations]
    cache, count = manner.sampling.cache, 0
    gaps: dict[Key, Gap] = {}
    stored: set[Key] = set()
    for device in fleet.devices if manner.resume else ():
        stored |= recorded(project, study, keys, device, cache, since).current.keys()
    if stored:
        display.say(
            f"{len(stored)} of {len(keys)} are taken from the store "
            f"({', '.join(fleet.devices)}, same sources); --again measures all"
        )
    todo = [key for key in keys if key not in stored]

    def tell(outcome: PieceOutcome) -> None:
        nonlocal count
        count += 1
        if outcome.fault is not None:
            gaps[outcome.key] = Gap(kind="failed", why=outcome.fault.message.splitlines()[0])
            return
        found = recorded(project, study, [outcome.key], outcome.device, cache).current
        for timing in found.values():
            display.timing(f"[{count}/{len(todo)}]", timing, study.work)

    if todo:
        since = runs.send("time", todo, tell, sampling=manner.sampling, since=since).since
    found = [recorded(project, study, keys, each, cache, since) for each in fleet.devices]
    return [Timed(dict(each.current), gaps) for each in found if each.current] or [Timed({}, gaps)]


def need_one_model(found: Sequence[Timed], format_: str) -> None:
    """Refuse to print two documents where one is read.

    Raises:
        UsageError: times of several models of GPU, and a format that others read.
    """
    if len(found) > 1 and format_ in ("json", "csv"):
        raise UsageError(
            f"--format {format_} prints one document, but the GPUs are of {len(found)} models",
            "All times are stored. Use --gpus to name the GPUs of one model.",
        )
