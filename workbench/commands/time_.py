"""``workbench time``: how long versions take, outside of any profiler."""

from __future__ import annotations

import click

from workbench.commands.measuring import every_option, machine_options
from workbench.commands.options import format_option, study_option


@click.command()
@click.argument("versions", nargs=-1)
@every_option
@study_option
@click.option("--problem", metavar="NAME", help="Problem (default: the first profiled one).")
@click.option("--all-problems", is_flag=True, help="Every problem to profile or sweep.")
@click.option("--warm", is_flag=True, help="Leave the buffers in the caches between executions.")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Sample no longer than this, converged or not.",
)
@machine_options
@format_option
def command(
    versions: tuple[str, ...],
    every: bool,
    study: str | None,
    problem: str | None,
    all_problems: bool,
    warm: bool,
    limit_s: float,
    seed: int | None,
    timeout_s: float,
    arch: str,
    launcher: str,
    format_: str,
) -> None:
    """Time versions against the study's baseline, outside of any profiler.

    Samples until the 95% interval of the median is under 1% of it. The result is
    checked first; the timing is kept under profiles/.
    """
    from workbench.commands.choosing import timed_problems
    from workbench.commands.measuring import Failures, Progress, experiment, pass_over, pick
    from workbench.engines.job import TimeOptions
    from workbench.engines.where import choose_where
    from workbench.errors import MissingError, UsageError
    from workbench.views.measured import print_sheet
    from workbench.views.measured_time import time_sheet

    if problem is not None and all_problems:
        raise UsageError("--problem and --all-problems cannot stand together", "Leave one out.")
    project, loaded, chosen = pick(versions, every, study)
    where = choose_where(launcher, arch, timeout_s)
    progress = Progress()
    runner = experiment(project, loaded, where, seed, progress)
    options = TimeOptions(cache="warm" if warm else "cold", limit_s=limit_s)
    failures = Failures(progress, alone=len(chosen) == 1 and not all_problems)
    timings = []
    for version in chosen:
        try:
            problems = timed_problems(loaded, version, problem, all_problems)
        except UsageError as error:
            if not pass_over(version, error, every):
                raise
            progress.say(f"{version.id}: passed over: {error.message}")
            continue
        for each in problems:
            with failures.of(f"{version.id} {each.name}"):
                try:
                    timings.append(runner.time(runner.subject(version, each), options))
                except MissingError as error:
                    if not pass_over(version, error, every):
                        raise
                    progress.say(f"{version.id}: passed over: {error.message}")
    if timings:
        print_sheet(time_sheet(timings), format_)
    failures.finish()
    if not timings:
        raise MissingError("nothing was timed", "Name a version that can run here.")
