"""``workbench profile``: verify and profile versions, and keep what was measured."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from workbench.commands.options import (
    folded,
    instruction_limit_option,
    named_options,
    run_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.cluster.dispatch import PieceOutcome
    from workbench.commands.progress import Progress
    from workbench.engines import ProfileOptions, RunOptions
    from workbench.errors import CountersDeniedError
    from workbench.measure.experiment import Experiment, Failures
    from workbench.measure.plan import Combination
    from workbench.model import Notice
    from workbench.project import Project
    from workbench.session.targets import Named
    from workbench.study.folder import Study


def _profile_options(repeat: int, raw: bool | None, **collected: Any) -> ProfileOptions:
    import msgspec

    from workbench.engines import ProfileOptions
    from workbench.engines.ncu.collection import Collection

    metrics = [name for given in collected["metrics"] for name in given.split(",") if name]
    return ProfileOptions(
        collection=msgspec.convert(collected | {"metrics": metrics}, Collection),
        repeats=repeat,
        keep_raw="auto" if raw is None else "always" if raw else "never",
    )


@click.command()
@named_options("Problem (default: the first profiled one).")
@click.option(
    "--engine",
    type=click.Choice(["auto", "ncu", "emulator"]),
    default="auto",
    show_default=True,
    help="What measures; auto uses ncu if there is a GPU with ncu, else the emulator.",
)
@click.option(
    "--blocks",
    type=click.IntRange(0),
    metavar="N",
    help="Emulator: run about N blocks of a launch, edges included; 0: all (default: by size).",
)
@instruction_limit_option
@click.option("--time/--no-time", "timed", default=False, help="Time each version as well.")
@folded(
    "options",
    _profile_options,
    click.option("--set", "sets", multiple=True, metavar="ID", help="ncu section set."),
    click.option("--section", "sections", multiple=True, metavar="ID", help="ncu section."),
    click.option("--metrics", multiple=True, metavar="NAMES", help="ncu metrics, comma-separated."),
    click.option(
        "--clock-control",
        type=click.Choice(["none", "base", "boost", "reset"]),
        default="none",
        show_default=True,
        help="Whether ncu locks the clocks.",
    ),
    click.option(
        "--cache-control",
        type=click.Choice(["all", "none"]),
        default="all",
        show_default=True,
        help="Whether ncu flushes the caches before each pass.",
    ),
    click.option(
        "--replay-mode",
        type=click.Choice(["kernel", "application", "range", "app-range"]),
        default="kernel",
        show_default=True,
        help="How ncu repeats a kernel for its passes.",
    ),
    click.option(
        "--repeat",
        type=click.IntRange(1, 100),
        default=1,
        show_default=True,
        metavar="N",
        help="Profile each launch N times, and record how its counters vary.",
    ),
    click.option(
        "--raw/--no-raw",
        "raw",
        default=None,
        help="Keep the raw report (default: only if it is small).",
    ),
)
@click.option("--dry-run", is_flag=True, help="Print the exact ncu command and exit.")
@run_options
def command(
    named: Named,
    engine: str,
    blocks: int | None,
    limit: int | None,
    timed: bool,
    options: ProfileOptions,
    dry_run: bool,
    run: RunOptions,
) -> None:
    """Verify and profile versions under an engine, and keep the profiles.

    With --set or --section ncu collects only those; without them the default collection, to
    which --metrics adds. Where the driver denies access to counters, and no engine was named,
    the emulator counts and the GPU measures the time.
    """
    import msgspec

    from workbench.commands.progress import Progress
    from workbench.engines.choice import choose
    from workbench.errors import CountersDeniedError, MissingError
    from workbench.measure.experiment import Experiment, Failures, runnable
    from workbench.measure.plan import chosen

    run = msgspec.structs.replace(run, instruction_limit=limit)
    options = msgspec.structs.replace(options, blocks=blocks)
    if run.on and not dry_run:
        _on_cluster(named, engine, options, run, timed=timed)
        return
    if dry_run:
        _print_commands(named, engine, options, run)
        return
    project, study, versions = named.pick()
    run = _with_seed(run, project, study)
    progress = Progress()
    taken = choose(engine, project, run, progress.say, profiling=True)
    click.echo(taken.profile_line + (", by `workbench time`" if taken.gpu and not timed else ""))
    unheard = ["--time"] if timed and not taken.gpu else []
    if unheard := unheard + taken.unheard(options):
        click.echo(f"note: ignored by the {taken.name}: {', '.join(unheard)}", err=True)
    versions = runnable(taken, versions, named.every, progress.say)
    runner = Experiment(project, study, taken, say=progress.say, step=progress.step)
    counting = runner
    denied: tuple[Notice, ...] = ()
    failures = Failures(progress.say, alone=len(versions) == 1, every=named.every)
    profiled: list[Combination] = []
    for version in versions:
        with failures.of(version.id, version):
            one = chosen(study, version, named.problem, "profile")[0]
            try:
                _profile(counting, one, options, denied, progress)
            except CountersDeniedError as error:
                if engine != "auto":
                    raise
                denied = (_told(error, progress),)
                emulator = choose("emulator", project, run, progress.say)
                counting = Experiment(
                    project, study, emulator, say=progress.say, step=progress.step
                )
                _profile(counting, one, options, denied, progress)
            profiled.append(one)
    if (timed or denied) and taken.gpu and profiled:
        _time(runner, profiled, progress, failures)
    failures.finish()
    if not profiled:
        raise MissingError("nothing was profiled", "Name a version that can run here.")


def _with_seed(run: RunOptions, project: Project, study: Study) -> RunOptions:
    """Without ``--seed``, the inputs of the study's newest profile, so that both compare."""
    import msgspec

    from workbench.ladder import recorded_seed
    from workbench.store import Store

    if run.seed is not None:
        return run
    seed = recorded_seed(Store(project.profiles), study.name)
    return msgspec.structs.replace(run, seed=seed)


def _profile(
    runner: Experiment,
    one: Combination,
    options: ProfileOptions,
    notices: Sequence[Notice],
    progress: Progress,
) -> None:
    """Profile one version, and say where its profile is kept."""
    from workbench.measure.experiment import report_lines

    version, root = one.version, runner.project.root
    if refused := runner.engine.refuses(version) if notices else "":
        progress.say(f"{version.id}: timed, but not counted: {refused}")
        return
    profile, path = runner.profile(runner.subject(*one), options, notices)
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    _tell(report_lines(profile, runner.engine, shown.as_posix(), notices), progress)


def _told(error: CountersDeniedError, progress: Progress) -> Notice:
    """Say once that counters come from elsewhere from now on."""
    from workbench.model import COUNTERS_DENIED, Notice

    progress.say(f"note: [{COUNTERS_DENIED}] {error.message}. {error.hint}")
    progress.say("counters are the emulator's from here on; times are measured on the GPU")
    message = f"{error.message}: counted in the emulator, its time measured on a GPU"
    return Notice(code=COUNTERS_DENIED, message=message)


def _on_cluster(
    named: Named, engine: str, options: ProfileOptions, run: RunOptions, *, timed: bool
) -> None:
    """Profile in jobs of a cluster; a line comes as each is done."""
    from workbench.cluster.fleet import Fleet
    from workbench.commands.oncluster import able, carry_out, ordered
    from workbench.commands.progress import Progress
    from workbench.errors import MissingError
    from workbench.measure.experiment import Failures
    from workbench.measure.plan import chosen

    project, study, versions = named.pick()
    run = _with_seed(run, project, study)
    progress = Progress()
    versions = able(engine, project, run, versions, named.every, progress.say)
    failures = Failures(progress.say, alone=len(versions) == 1, every=named.every)
    combinations: list[Combination] = []
    for version in versions:
        with failures.of(version.id, version):
            combinations += chosen(study, version, named.problem, "profile")[:1]
    order = ordered("profile", study, run, engine=engine, counting=options, timed=timed)
    told = 0

    def tell(outcome: PieceOutcome) -> None:
        nonlocal told
        if outcome.lines:
            told += 1
            _tell(outcome.lines, progress)

    carry_out(Fleet(project, study, progress), study, order, combinations, failures, tell)
    failures.finish()
    if not told:
        raise MissingError("nothing was profiled", "Name a version that can run here.")


def _print_commands(named: Named, engine: str, options: ProfileOptions, run: RunOptions) -> None:
    """The exact ncu command of each version.

    Raises:
        UsageError: the emulator was asked for.
    """
    from workbench.engines.choice import on_gpu
    from workbench.errors import UsageError
    from workbench.measure.experiment import Experiment
    from workbench.measure.plan import chosen

    if engine == "emulator":
        raise UsageError(
            "--dry-run prints ncu's command, and the emulator has none",
            "Use only one of them; --engine ncu --dry-run needs no GPU.",
        )
    project, study, versions = named.pick(run=False)
    run = _with_seed(run, project, study)
    say = functools.partial(click.echo, err=True)
    gpu = on_gpu(project, run, say, profiling=True, known=True)
    runner = Experiment(project, study, gpu)
    for version in versions:
        one = chosen(study, version, named.problem, "profile")[0]
        click.echo(gpu.command(runner.subject(*one), options).shell)


def _time(
    runner: Experiment, profiled: list[Combination], progress: Progress, failures: Failures
) -> None:
    """Time what was profiled: all in one process, after ncu is done with all of them."""
    from workbench.engines.host.job import TimeOptions
    from workbench.measure.experiment import Campaign
    from workbench.views.sheets.time import time_sheet
    from workbench.views.terminal.tables import print_sheet

    campaign = Campaign(runner, TimeOptions(), progress, failures)
    campaign.measure(profiled)
    if campaign.timings:
        print_sheet(time_sheet(list(campaign.timings.values()), runner.study.work), "table")


def _tell(lines: Sequence[str], progress: Progress) -> None:
    """A profile's line as an answer, its notes beside it."""
    click.echo(lines[0])
    for note in lines[1:]:
        progress.say(note)
