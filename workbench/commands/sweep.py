"""``workbench sweep``: every version of a study at every size, timed and stored."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from workbench.commands.options import (
    Stored,
    folded,
    format_option,
    shared_run_options,
    stored_options,
    study_option,
    time_options,
)

if TYPE_CHECKING:
    from workbench.engines import RunOptions
    from workbench.engines.host.crew import Crew
    from workbench.engines.host.job import TimeOptions
    from workbench.measure.plan import Sweep
    from workbench.project import Project
    from workbench.specs import Version
    from workbench.study.folder import Study


class SweepScope(NamedTuple):
    """What the sweep goes over, as it was typed: targets, study, patterns of problems."""

    targets: tuple[str, ...]
    study: str | None
    patterns: tuple[str, ...]


@click.command()
@folded(
    "scope",
    SweepScope,
    click.argument("targets", nargs=-1, metavar="[STUDY] [VERSIONS]..."),
    study_option,
    click.option(
        "--problem",
        "patterns",
        multiple=True,
        metavar="PATTERN",
        help="Only these sweep problems, such as n4096 or 'n*' (default: all).",
    ),
)
@stored_options(
    False,
    "Measure everything again, or only what is not yet stored for the same sources (the default).",
)
@click.option(
    "--recorded", is_flag=True, help="Show what is stored and measure nothing; needs no GPU."
)
@click.option(
    "--device",
    metavar="NAME",
    help="With --recorded: show this device's times (default: the project's "
    "default_device, or that of the newest time).",
)
@time_options
@shared_run_options
@format_option
def command(
    scope: SweepScope,
    stored: Stored,
    recorded: bool,
    device: str | None,
    timing: TimeOptions,
    run: RunOptions,
    format_: str,
) -> None:
    """Time every version of a study at every size, in turn with the baseline.

    STUDY is the default study where none is named; VERSIONS restrict the sweep to
    some. Each time is stored as soon as it is measured, as by `workbench time`; a sweep
    that was interrupted continues where it stopped.
    """
    from workbench.commands.timing import early_workers
    from workbench.errors import UsageError

    if recorded and (stored.again or stored.since or run.launcher):
        raise UsageError(
            "--recorded measures nothing", "Leave out --again, --since and --launcher."
        )
    if device and not recorded:
        raise UsageError("--device chooses among recorded times", "Add --recorded.")
    if recorded:
        _show_recorded(scope, device, timing.cache, format_)
        return
    with early_workers(run, *_study_of(scope), again=bool(stored.again)) as workers:
        _measure(scope, stored, timing, run, format_, workers)


def _show_recorded(scope: SweepScope, device: str | None, cache: str, format_: str) -> None:
    from workbench.session.sweep import recorded_sweep, swept_study

    project, chosen, versions, _ = _chosen(scope, run=False)
    study = swept_study(project, chosen.name)
    if study.note:
        click.echo(f"note: {study.note}", err=True)
    _print(recorded_sweep(project, study, versions, scope.patterns, device, cache), format_)


def _study_of(scope: SweepScope) -> tuple[str | None, str | None]:
    """The study that was given and a version that was named, before any of both is looked at."""
    from workbench.project import find_project, studies_in

    project, (first, *rest) = find_project(), scope.targets or (None,)
    if project is not None and scope.study is None and first in studies_in(project.kernels):
        return first, rest[0] if rest else None
    return scope.study, first


def _measure(
    scope: SweepScope,
    stored: Stored,
    timing: TimeOptions,
    run: RunOptions,
    format_: str,
    workers: Crew | None,
) -> None:
    from workbench.commands.progress import Progress
    from workbench.commands.timing import Wanted, measure, need_one_model
    from workbench.errors import MissingError
    from workbench.measure.experiment import Failures
    from workbench.measure.plan import plan, sweep_problems
    from workbench.session.sweep import sweep_of

    project, study, versions, named = _chosen(scope, run=True)
    combinations = plan(study, versions, sweep_problems(study, scope.patterns))

    def go_on(begin: str) -> str:
        since = stored.since or (begin if stored.again else "")
        return f": {_go_on(scope, timing, run, format_, since)}"

    progress = Progress()
    failures = Failures(progress.say, alone=False, every=not named)
    wanted = Wanted(
        project=project,
        study=study,
        combinations=combinations.combinations,
        timing=timing,
        run=run,
        resume=not stored.again,
        since=stored.since,
        workers=workers,
    )
    try:
        found = measure(wanted, progress, failures, go_on)
    except MissingError as error:
        hint = "`workbench sweep --recorded` shows the times that are stored."
        raise MissingError(error.message, f"{error.hint} {hint}") from error
    need_one_model(found, format_)
    for timings, gaps in found:
        if timings:
            every = {**combinations.refused, **gaps}
            found_all = sweep_of(study, versions, combinations, timings, every, timing.cache)
            _print(found_all, format_)
    failures.finish()
    if not any(each.timings for each in found):
        gone = [gap for each in found for gap in each.gaps.values()]
        why = next(iter((*gone, *combinations.refused.values())), None)
        raise MissingError(
            "nothing was timed" + (f": {why.why}" if why else ""),
            "Name versions and problems that can run here.",
        )


def _print(sweep: Sweep, format_: str) -> None:
    # Only where it prints: to import it takes a fifth of the time before the first worker.
    from workbench.views.terminal.tables import print_sweep

    print_sweep(sweep, format_)


def _go_on(
    scope: SweepScope, timing: TimeOptions, run: RunOptions, format_: str, since: str
) -> str:
    """The command line that goes on with a sweep."""
    options = {
        "--study": scope.study,
        "--problem": scope.patterns,
        "--limit": f"{timing.limit_s:g}",
        "--timeout": f"{run.timeout_s:g}",
        "--seed": run.seed,
        "--launcher": run.launcher,
        "--gpus": run.gpus,
        "--on": run.on,
        "--arch": run.arch,
        "--format": format_,
        "--warm": timing.cache == "warm",
        "--since": since,
    }
    return _command_line(scope.targets, options)


def _command_line(targets: tuple[str, ...], options: Mapping[str, object]) -> str:
    """The command line of a sweep, without the options that say what is the default anyway."""
    words = ["workbench", "sweep", *targets]
    defaults = {name: param.default for param in command.params for name in param.opts}
    for name, value in options.items():
        if (
            value in (None, "", ())
            or value is False
            or str(value) == f"{defaults[name]}".removesuffix(".0")
        ):
            continue
        if value is True:
            words.append(name)
            continue
        for each in value if isinstance(value, tuple) else (value,):
            words += [name, str(each)]
    return shlex.join(words)


def _chosen(scope: SweepScope, *, run: bool) -> tuple[Project, Study, list[Version], bool]:
    """Project, study, versions, and whether versions were named."""
    from workbench.errors import UsageError, nearest
    from workbench.project import require_project
    from workbench.session.targets import Named
    from workbench.study.folder import study_names

    words, study = list(scope.targets), scope.study
    if words and study is None and words[0] in study_names(require_project()):
        study = words.pop(0)
    try:
        project, loaded, versions = Named(versions=tuple(words), every=not words, study=study).pick(
            run=run
        )
    except UsageError as error:
        if study is None and words and "/" not in words[0]:
            # The first word may be meant for a study.
            names = study_names(require_project())
            close = nearest(words[0], names)
            meant = f"Did you mean the study `{close}`?"
            known = f"{error.hint} Studies: {', '.join(names)}."
            raise UsageError(error.message, meant if close else known) from error
        raise
    return project, loaded, versions, bool(words)
