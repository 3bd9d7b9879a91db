"""``workbench profile``: verify and profile versions, and keep the measurements."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click
import msgspec

from workbench.commands.options import folded, instruction_limit_option, named_options, run_options
from workbench.engines import ProfileOptions
from workbench.engines.ncu.collection import Collection
from workbench.session.api import CoreSession
from workbench.session.measuring import ncu_commands
from workbench.views.terminal.progress import Progress
from workbench.views.text.safe_output import say

if TYPE_CHECKING:
    from workbench.engines import RunOptions
    from workbench.session.targets import Named


def _profile_options(repeat: int, raw: bool | None, **collected: Any) -> ProfileOptions:
    metrics = [name for given in collected["metrics"] for name in given.split(",") if name]
    return ProfileOptions(
        collection=msgspec.convert(collected | {"metrics": metrics}, Collection),
        repeats=repeat,
        keep_raw="auto" if raw is None else "always" if raw else "never",
    )


@click.command()
@named_options
@click.option(
    "--engine",
    type=click.Choice(["auto", "ncu", "emulator"]),
    default="auto",
    show_default=True,
    help="Engine that measures; auto: ncu if there is a GPU with ncu, else the emulator.",
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

    With --set or --section, ncu collects only those; without them, the default collection, to
    which --metrics adds. If the driver denies access to counters and no engine was named,
    the emulator counts and the GPU measures the time.
    """
    run = msgspec.structs.replace(run, instruction_limit=limit)
    options = msgspec.structs.replace(options, blocks=blocks)
    if dry_run:
        for line in ncu_commands(named, engine, options, run, functools.partial(say, err=True)):
            say(line)
        return
    kept = CoreSession().record(named, engine, options, run, Progress(), timed=timed)
    if kept.timings:
        from workbench.views.sheets.time import time_sheet  # only with --time
        from workbench.views.terminal.tables import print_sheet

        print_sheet(time_sheet(kept.timings, kept.study.work), "table")
    if kept.fault:
        raise kept.fault
