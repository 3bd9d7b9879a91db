"""``workbench time``: how long versions take, outside of any profiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from workbench.commands.options import (
    Stored,
    format_option,
    named_options,
    shared_run_options,
    stored_options,
    time_options,
)

if TYPE_CHECKING:
    from workbench.engines import RunOptions
    from workbench.engines.host.crew import Crew
    from workbench.engines.host.job import TimeOptions
    from workbench.measure.experiment import Failures
    from workbench.measure.plan import Combination
    from workbench.session.targets import Named
    from workbench.specs import Version
    from workbench.study.folder import Study


@click.command()
@named_options("Problem (default: the first profiled one).")
@click.option("--all-problems", is_flag=True, help="Every problem to profile or sweep.")
@stored_options(
    None,
    "Measure everything again (the default for named versions), or only what is not yet "
    "stored for the same sources (the default with --all).",
)
@time_options
@shared_run_options
@format_option
def command(
    named: Named,
    all_problems: bool,
    stored: Stored,
    timing: TimeOptions,
    run: RunOptions,
    format_: str,
) -> None:
    """Time versions against the study's baseline, outside of any profiler.

    Samples until the 95% interval of the median is under 1% of it. The result is
    checked first; the timing is kept under profiles/. With --all, what is stored
    already of the same sources and device is not measured again.
    """
    from workbench.commands.timing import early_workers
    from workbench.errors import UsageError

    if named.problem is not None and all_problems:
        raise UsageError(
            "--problem and --all-problems cannot be used together", "Use only one of them."
        )
    resume = bool(stored.since) or (named.every if stored.again is None else not stored.again)
    first = named.versions[0] if named.versions else None
    with early_workers(run, named.study, first, again=not resume) as workers:
        since = stored.since
        _measure(named, all_problems, _Manner(resume, since, timing, run, workers), format_)


class _Manner(NamedTuple):
    """How versions are timed: what of the store is taken, how long, where, and by whom."""

    resume: bool
    since: str
    timing: TimeOptions
    run: RunOptions
    workers: Crew | None


def _measure(named: Named, all_problems: bool, manner: _Manner, format_: str) -> None:
    from workbench.commands.progress import Progress
    from workbench.commands.timing import Wanted, measure, need_one_model
    from workbench.errors import MissingError
    from workbench.measure.experiment import Failures

    project, study, versions = named.pick()
    progress = Progress()
    alone = len(versions) == 1 and not all_problems
    failures = Failures(progress.say, alone=alone, every=named.every)
    combinations = _combinations(study, versions, named.problem, all_problems, failures)

    def go_on(begin: str) -> str:
        other = "" if manner.resume else f", --since {begin} in the place of --again"
        return f" the same command{other}"

    wanted = Wanted(
        project,
        study,
        combinations,
        manner.timing,
        manner.run,
        manner.resume,
        manner.since,
        manner.workers,
    )
    found = measure(wanted, progress, failures, go_on)
    need_one_model(found, format_)
    from workbench.views.sheets.time import time_sheet
    from workbench.views.terminal.tables import print_sheet

    names = dict.fromkeys(each.problem.name for each in combinations)
    for each in found:
        keys = [(version.id, name) for version in versions for name in names]
        timings = [each.timings[key] for key in keys if key in each.timings]
        if timings:
            print_sheet(time_sheet(timings, study.work), format_)
    failures.finish()
    if not any(each.timings for each in found):
        raise MissingError("nothing was timed", "Name a version that can run here.")


def _combinations(
    study: Study,
    versions: list[Version],
    problem: str | None,
    all_problems: bool,
    failures: Failures,
) -> list[Combination]:
    """Each version on its problems; problem by problem, from the least work to the most.

    Raises:
        UsageError: an unknown problem, or one that a named version cannot do.
    """
    from workbench.errors import UsageError
    from workbench.measure.plan import by_work, to_time

    able: list[Combination] = []
    for version in versions:
        try:
            able += to_time(study, version, problem, all_problems)
        except UsageError as error:
            if not failures.pass_over(version, error):
                raise
    problems = {each.problem.name: each.problem for each in able}
    order = [each.name for each in by_work(study, problems.values())]
    return sorted(able, key=lambda each: order.index(each.problem.name))
