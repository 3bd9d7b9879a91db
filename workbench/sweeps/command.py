"""``workbench sweep``: every version of a study at every size, timed and stored."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from workbench.commands.options import (
    Stored,
    device_option,
    folded,
    format_option,
    problems_option,
    shared_run_options,
    stored_options,
    study_option,
    time_options,
)
from workbench.engines.host.worker_pool import early_workers
from workbench.errors import UsageError
from workbench.processes.bounds import Deadline
from workbench.session.workspace import Manner, Selection
from workbench.sweeps.scope import SweepScope
from workbench.views.terminal.progress import Progress
from workbench.views.text.safe_output import say

if TYPE_CHECKING:
    from workbench.engines import RunOptions
    from workbench.engines.host.job import TimeOptions
    from workbench.sweeps.recorded import Sweep


@click.command()
@folded(
    "scope",
    SweepScope.of,
    click.argument("targets", nargs=-1, metavar="[STUDY][:PATTERN,...][@DEVICE] [VERSIONS]..."),
    study_option,
    problems_option,
    device_option,
)
@stored_options(
    False,
    "Measure everything again, or only what is not yet stored for the same sources (the default).",
)
@click.option(
    "--recorded", is_flag=True, help="Show what is stored and measure nothing; needs no GPU."
)
@time_options
@shared_run_options
@format_option
def command(
    scope: SweepScope,
    stored: Stored,
    recorded: bool,
    sampling: TimeOptions,
    run: RunOptions,
    format_: str,
) -> None:
    """Time every version of a study at every size, in turn with the baseline.

    STUDY is the default study where none is named; VERSIONS restrict the sweep to
    some. Each time is stored as soon as it is measured, as by `workbench time`; a sweep
    that was interrupted continues where it stopped.
    """
    if recorded and (stored.again or stored.since or run.launcher):
        raise UsageError("--recorded measures nothing", "Leave out what says how to measure.")
    if scope.device and not recorded:
        raise UsageError("a device chooses among recorded times", "Add --recorded.")
    if recorded:
        from workbench.sweeps.recorded import recorded_sweep, swept_study

        _, (project, chosen, versions) = scope.pick(run=False)
        study = swept_study(project, chosen.name)
        for remark in study.remarks:
            say(f"note: {remark}", err=True)
        where, cache = (scope.patterns, scope.device), sampling.cache
        _print(format_, [recorded_sweep(project, study, versions, *where, cache)])
        return

    def go_on(begin: str) -> str:
        since = stored.since or (begin if stored.again else "")
        return _command_line(scope, sampling, run, format_, since)

    with early_workers(run, *scope.first, again=bool(stored.again)) as workers:
        from workbench.sweeps.measured import sweep  # what workers need not wait for

        manner = Manner(sampling, not stored.again, stored.since, workers)
        sweep(scope, run, Progress(), manner, go_on, partial(_print, format_), format_)


def _print(format_: str, tables: Sequence[Sweep]) -> None:
    # Only where it prints: to import it takes a fifth of the time before the first worker.
    from workbench.sweeps.shown import print_sweep

    for table in tables:
        print_sweep(table, format_)


def _command_line(
    scope: SweepScope, sampling: TimeOptions, run: RunOptions, format_: str, since: str
) -> str:
    """The command line that goes on with a sweep, without what is the default anyway."""
    options: Mapping[str, object] = {
        "--limit": f"{sampling.limit_s:g}",
        "--timeout": "" if run.limit == Deadline() else f"{run.limit.seconds:g}",
        "--seed": run.seed,
        "--launcher": run.launcher,
        "--gpus": run.gpus,
        "--on": run.on,
        "--arch": run.arch,
        "--format": format_,
        "--warm": sampling.cache == "warm",
        "--since": since,
    }
    targets = [*filter(None, [scope.study]), *scope.targets] or [""]
    targets[0] = Selection(problem=",".join(scope.patterns)).of(targets[0])
    words = ["workbench", "sweep", *filter(None, targets)]
    defaults = {name: param.default for param in command.params for name in param.opts}
    for name, value in options.items():
        default = f"{defaults[name]}".removesuffix(".0")
        if value in (None, "") or value is False or str(value) == default:
            continue
        if value is True:
            words.append(name)
            continue
        words += [name, str(value)]
    return shlex.join(words)
