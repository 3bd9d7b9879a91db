"""``workbench time``: how long versions take, outside of any profiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.commands.measuring import (
    Machine,
    check_since,
    every_option,
    limit_option,
    machine_options,
    since_option,
    warm_option,
)
from workbench.commands.options import format_option, study_option

if TYPE_CHECKING:
    from workbench.commands.measuring import Progress
    from workbench.measure.plan import Combination
    from workbench.model import Version
    from workbench.study.folder import Study


@click.command()
@click.argument("versions", nargs=-1)
@every_option
@study_option
@click.option("--problem", metavar="NAME", help="Problem (default: the first profiled one).")
@click.option("--all-problems", is_flag=True, help="Every problem to profile or sweep.")
@click.option(
    "--again/--resume",
    default=None,
    help="Measure all anew (the default for named versions), or only what is not stored of "
    "the same sources (the default with --all).",
)
@since_option
@warm_option
@limit_option
@machine_options
@format_option
def command(
    versions: tuple[str, ...],
    every: bool,
    study: str | None,
    problem: str | None,
    all_problems: bool,
    again: bool | None,
    since: str,
    warm: bool,
    limit_s: float,
    machine: Machine,
    format_: str,
) -> None:
    """Time versions against the study's baseline, outside of any profiler.

    Samples until the 95% interval of the median is under 1% of it. The result is
    checked first; the timing is kept under profiles/. With --all, what is stored
    already of the same sources and device is not measured again.
    """
    from workbench.commands.campaigns import Campaign
    from workbench.commands.measuring import Failures, Progress, experiment, pick
    from workbench.engines.host.job import TimeOptions
    from workbench.engines.host.timed import now
    from workbench.errors import MissingError, UsageError
    from workbench.views.sheets.time import time_sheet
    from workbench.views.terminal.tables import print_sheet

    if problem is not None and all_problems:
        raise UsageError("--problem and --all-problems cannot stand together", "Leave one out.")
    check_since(since, again)
    resume = bool(since) or (every if again is None else not again)
    project, loaded, chosen = pick(versions, every, study)
    where = machine.where()
    begin = now()
    progress = Progress()
    combinations = _combinations(loaded, chosen, problem, all_problems, every, progress)
    failures = Failures(progress, alone=len(chosen) == 1 and not all_problems)
    campaign = Campaign(
        experiment(project, loaded, where, machine.seed, progress),
        TimeOptions(cache="warm" if warm else "cold", limit_s=limit_s),
        every=every,
        progress=progress,
        failures=failures,
    )
    try:
        if resume:
            campaign.take(combinations, since)
        campaign.measure(combinations)
    except (KeyboardInterrupt, SystemExit):
        progress.say(
            f"{len(campaign.timings)} of {len(combinations)} are measured and kept; go on with "
            + (
                "the same command"
                if resume
                else f"the same command, --since {begin} in the place of --again"
            )
        )
        raise
    timings = [
        campaign.timings[version.id, name]
        for version in chosen
        for name in dict.fromkeys(each.problem.name for each in combinations)
        if (version.id, name) in campaign.timings
    ]
    if timings:
        print_sheet(time_sheet(timings, loaded.work), format_)
    failures.finish()
    if not timings:
        raise MissingError("nothing was timed", "Name a version that can run here.")


def _combinations(
    study: Study,
    versions: list[Version],
    problem: str | None,
    all_problems: bool,
    every: bool,
    progress: Progress,
) -> list[Combination]:
    """Each version on its problems; problem by problem, as they are measured.

    Raises:
        UsageError: an unknown problem, or one that a named version cannot do.
    """
    from workbench.commands.choosing import timed_problems
    from workbench.commands.measuring import pass_over
    from workbench.errors import UsageError
    from workbench.measure.plan import Combination, by_work

    able: list[Combination] = []
    for version in versions:
        try:
            problems = timed_problems(study, version, problem, all_problems)
        except UsageError as error:
            if not pass_over(version, error, every):
                raise
            progress.say(f"{version.id}: passed over: {error.message}")
            continue
        able += [Combination(version, each) for each in problems]
    order = [
        p.name for p in by_work(study, {each.problem.name: each.problem for each in able}.values())
    ]
    return sorted(able, key=lambda each: order.index(each.problem.name))
