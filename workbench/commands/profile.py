"""``workbench profile``: verify and profile versions, and keep what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.commands.measuring import (
    Machine,
    every_option,
    instruction_limit_option,
    machine_options,
)
from workbench.commands.options import study_option

if TYPE_CHECKING:
    from workbench.engines.ncu.raw import Keep
    from workbench.model import Profile


@click.command()
@click.argument("versions", nargs=-1)
@every_option
@study_option
@click.option("--problem", metavar="NAME", help="Problem (default: the first profiled one).")
@click.option(
    "--engine",
    type=click.Choice(["auto", "ncu", "emulator"]),
    default="auto",
    show_default=True,
    help="What measures; auto takes ncu where a GPU and ncu are, else the emulator.",
)
@click.option(
    "--blocks",
    type=click.IntRange(0),
    metavar="N",
    help="Emulator: run about N blocks of a launch, edges included; 0: all (default: by size).",
)
@instruction_limit_option
@click.option("--time/--no-time", "timed", default=False, help="Time each version as well.")
@click.option("--set", "sets", multiple=True, metavar="ID", help="ncu section set.")
@click.option("--section", "sections", multiple=True, metavar="ID", help="ncu section.")
@click.option("--metrics", multiple=True, metavar="NAMES", help="ncu metrics, comma-separated.")
@click.option(
    "--clock-control",
    type=click.Choice(["none", "base", "boost", "reset"]),
    default="none",
    show_default=True,
    help="Whether ncu locks the clocks.",
)
@click.option(
    "--cache-control",
    type=click.Choice(["all", "none"]),
    default="all",
    show_default=True,
    help="Whether ncu flushes the caches before each pass.",
)
@click.option(
    "--replay-mode",
    type=click.Choice(["kernel", "application", "range", "app-range"]),
    default="kernel",
    show_default=True,
    help="How ncu repeats a kernel for its passes.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    metavar="N",
    help="Capture each launch N times, and keep how its counters vary.",
)
@click.option(
    "--raw/--no-raw", "raw", default=None, help="Keep the raw report (default: if it is small)."
)
@click.option("--dry-run", is_flag=True, help="Print the exact ncu command and stop.")
@machine_options
def command(
    versions: tuple[str, ...],
    every: bool,
    study: str | None,
    problem: str | None,
    engine: str,
    blocks: int | None,
    limit: int | None,
    timed: bool,
    sets: tuple[str, ...],
    sections: tuple[str, ...],
    metrics: tuple[str, ...],
    clock_control: str,
    cache_control: str,
    replay_mode: str,
    repeat: int,
    raw: bool | None,
    dry_run: bool,
    machine: Machine,
) -> None:
    """Verify and profile versions under an engine, and keep the profiles.

    With --set or --section ncu collects those alone; without them the default
    collection, to which --metrics adds.
    """
    import msgspec

    from workbench.commands.campaigns import Campaign
    from workbench.commands.choosing import chosen_problem
    from workbench.commands.measuring import Failures, Progress, experiment, pass_over, pick
    from workbench.engines import choose_engine
    from workbench.engines.host.job import TimeOptions
    from workbench.engines.host.presence import find_tool, need_ncu
    from workbench.engines.ncu.command import Options
    from workbench.errors import MissingError, UsageError, WorkbenchError
    from workbench.measure.plan import Combination
    from workbench.views.sheets.time import time_sheet
    from workbench.views.terminal.tables import print_sheet

    project, loaded, chosen = pick(versions, every, study)
    try:
        options = msgspec.convert(
            {
                "sets": sets,
                "sections": sections,
                "metrics": [name for given in metrics for name in given.split(",") if name],
                "clock_control": clock_control,
                "cache_control": cache_control,
                "replay_mode": replay_mode,
            },
            Options,
        )
    except msgspec.ValidationError as error:
        raise UsageError(f"an option of ncu: {error}", "See workbench profile --help.") from error
    if dry_run and engine == "emulator":
        raise UsageError(
            "--dry-run prints the command of ncu, and the emulator has none",
            "Leave out one of them; --engine ncu --dry-run needs no GPU.",
        )
    if not dry_run and choose_engine(engine, launcher=bool(machine.launcher)) == "emulator":
        from workbench.commands.emulating import profile_versions

        given = {
            "--time": timed,
            "--set": sets,
            "--section": sections,
            "--metrics": metrics,
            "--clock-control": clock_control != "none",
            "--cache-control": cache_control != "all",
            "--replay-mode": replay_mode != "kernel",
            "--repeat": repeat > 1,
            "--raw": raw,
        }
        profile_versions(
            project,
            loaded,
            chosen,
            every=every,
            problem=problem,
            seed=machine.seed,
            arch=machine.arch,
            blocks=blocks,
            limit=limit,
            unheard=[option for option, value in given.items() if value],
        )
        return
    where = machine.where(known=dry_run)
    progress = Progress()
    runner = experiment(project, loaded, where, machine.seed, progress)
    if dry_run:
        ncu = "ncu" if machine.launcher else find_tool("ncu", "WORKBENCH_NCU") or "ncu"
        for version in chosen:
            subject = runner.subject(version, chosen_problem(loaded, version, problem))
            click.echo(runner.command(subject, options, ncu, repeat).shell)
        return
    ncu = "ncu" if machine.launcher else need_ncu()
    click.echo(
        f"engine: ncu ({ncu}); times are taken outside of it"
        + ("" if timed else ", by `workbench time`")
    )
    keep: Keep = "auto" if raw is None else "always" if raw else "never"
    failures = Failures(progress, alone=len(chosen) == 1)
    profiled: list[Combination] = []
    done = 0
    for version in chosen:
        with failures.of(version.id):
            try:
                subject = runner.subject(version, chosen_problem(loaded, version, problem))
                profile, path = runner.profile(subject, options, ncu, repeats=repeat, keep_raw=keep)
            except WorkbenchError as error:
                if not pass_over(version, error, every):
                    raise
                progress.say(f"{version.id}: passed over: {error.message}")
                continue
            shown = path.relative_to(project.root) if path.is_relative_to(project.root) else path
            done += 1
            click.echo(_summary(profile, shown.as_posix()))
            for notice in profile.notices:
                progress.say(f"note: {version.id}: {notice.message}")
            profiled.append(Combination(version, subject.problem))
    if timed and profiled:
        # All in one process, after ncu is done with all of them.
        campaign = Campaign(
            runner, TimeOptions(), every=every, progress=progress, failures=failures
        )
        campaign.measure(profiled)
        if campaign.timings:
            print_sheet(time_sheet(list(campaign.timings.values()), loaded.work), "table")
    failures.finish()
    if not done:
        raise MissingError("nothing was profiled", "Name a version that can run here.")


def _summary(profile: Profile, path: str) -> str:
    from workbench.units import digits3, quantity

    kernels = ", ".join(dict.fromkeys(launch.kernel for launch in profile.launches))
    check = profile.verification
    error = f", error {digits3(check.error)}" if check else ""
    return (
        f"{profile.version} {profile.problem}: {kernels}{error}, "
        f"{quantity(profile.capture.wall_s, 's')} under ncu -> {path}"
    )
