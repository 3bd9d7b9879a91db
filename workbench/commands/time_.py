"""``workbench time``: how long versions take, outside of any profiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.commands.options import (
    Stored,
    format_option,
    named_options,
    shared_run_options,
    stored_options,
    time_options,
)
from workbench.engines.host.worker_pool import early_workers
from workbench.errors import UsageError
from workbench.project import require_project
from workbench.session.api import CoreSession
from workbench.session.workspace import Manner
from workbench.views.terminal.progress import Progress
from workbench.views.text.safe_output import say

if TYPE_CHECKING:
    from workbench.engines import RunOptions
    from workbench.engines.host.job import TimeOptions
    from workbench.session.targets import Named
    from workbench.session.times import TimedVersions


@click.command()
@named_options
@click.option("--all-problems", is_flag=True, help="Every problem to profile or sweep.")
@stored_options(
    None,
    "Measure everything again (the default for named versions), or only what is not yet "
    "stored for the same sources (the default with --all).",
)
@click.option(
    "--recorded", is_flag=True, help="Show what is stored and measure nothing; needs no GPU."
)
@time_options
@shared_run_options
@format_option
def command(
    named: Named,
    all_problems: bool,
    stored: Stored,
    recorded: bool,
    sampling: TimeOptions,
    run: RunOptions,
    format_: str,
) -> None:
    """Time versions against the study's baseline, outside of any profiler.

    Samples until the 95% interval of the median is under 1% of it. The result is
    checked first; the timing is kept under profiles/. For a whole study, times stored
    already for the same sources and device are not measured again: an interrupted run
    continues. sgemm:n1* is every problem that matches the pattern.
    """
    if named.problem is not None and all_problems:
        raise UsageError(
            "a problem and --all-problems cannot be used together", "Use only one of them."
        )
    if recorded:
        if stored.again or stored.since or run.launcher or run.gpus or run.on:
            raise UsageError("--recorded measures nothing", "Leave out the measuring options.")
        from workbench.session.times import recorded_times

        _show(recorded_times(require_project(), named, sampling.cache), format_)
        return
    resume = bool(stored.since) or (named.every if stored.again is None else not stored.again)
    first = named.versions[0] if named.versions else None
    with early_workers(run, named.study, first, again=not resume) as workers:
        manner = Manner(sampling, resume, stored.since, workers)
        times = CoreSession().time(named, run, Progress(), manner, all_problems=all_problems)

    _show(times, format_)
    if times.fault:
        raise times.fault


def _show(times: TimedVersions, format_: str) -> None:
    from workbench.session.times import need_one_model  # not needed by workers
    from workbench.views.sheets.time import time_sheet
    from workbench.views.terminal.tables import print_sheet

    for note in times.notes:
        say(f"note: {note}", err=True)
    need_one_model(times.found, format_)
    for each in filter(None, times.found):
        print_sheet(time_sheet(list(each.values()), times.study.work), format_)
