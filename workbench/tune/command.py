"""``workbench tune``: the values of a version's parameters that make it fastest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from workbench.commands.options import (
    format_option,
    problems_option,
    shared_run_options,
    study_option,
)
from workbench.project import find_project
from workbench.session.targets import Named
from workbench.tune.running import TuneManner
from workbench.tune.shown import told_sheets, tune_sheet
from workbench.tune.tasks import tune
from workbench.views.terminal.progress import Progress
from workbench.views.terminal.tables import print_sheet
from workbench.views.text.safe_output import say

if TYPE_CHECKING:
    from workbench.engines import RunOptions
    from workbench.ladder.tunings import Tuning
    from workbench.tune.steps import Steps

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LEAST_S, _MOST_S = 1.0, 7 * 86400.0


class Seconds(click.ParamType[float]):
    """A time as ``90``, ``90s``, ``5m`` or ``2h``."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds."""
        found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([smh]?)", str(value).strip())
        seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
        if not _LEAST_S <= seconds <= _MOST_S:
            words = f"{value}: not a duration between 1s and 168h; write 90s, 5m or 1h"
            raise click.BadParameter(words, ctx, param)
        return seconds


@click.command()
@click.argument("versions", nargs=-1, metavar="[STUDY | VERSION][:PROBLEM,...]...")
@study_option
@problems_option
@click.option(
    "--engine",
    type=click.Choice(["auto", "gpu", "emulator"]),
    default="auto",
    show_default=True,
    help="Engine that runs the choices; the emulator ranks them by counts, without times.",
)
@click.option(
    "--budget",
    "budget_s",
    type=Seconds(),
    default="5m",
    show_default=True,
    metavar="TIME",
    help="Time for a version, compiling included.",
)
@click.option("--restart", is_flag=True, help="Start again, without the results of earlier runs.")
@click.option(
    "--profile/--no-profile",
    "profiled",
    default=True,
    show_default=True,
    help="Profile the winner and the runner-up, and explain their difference with counters.",
)
@shared_run_options
@format_option
def command(
    versions: tuple[str, ...],
    study: str | None,
    problems: tuple[str, ...],
    engine: str,
    budget_s: float,
    restart: bool,
    profiled: bool,
    run: RunOptions,
    format_: str,
) -> None:
    """Find the values of a version's parameters that make it fastest.

    The version's front matter lists the choices, under [tune]. Those that do not compile, do not
    fit or are wrong are dropped on the CPU; the others are timed on the GPU, likely winners
    alternately. Every trial is kept under profiles/ as it ends: an interrupted run continues where
    it stopped.
    """
    progress = Progress()

    def show(name: str, found: list[Tuning], steps: list[Steps]) -> None:
        progress.clear()
        print_sheet(tune_sheet(name, found, steps), format_)
        if format_ in ("table", "markdown"):
            for tuning, own in zip(found, steps, strict=True):
                for sheet in told_sheets(tuning, own):
                    say("")
                    print_sheet(sheet, format_)

    asked = Named(versions, study=study, problem=",".join(problems) or None)
    named = Named.of(find_project(), asked)
    problems = tuple((named.problem or "").split(",")) if named.problem else ()
    named = replace(named, problem=None)
    tune(named, problems, engine, run, progress, TuneManner(budget_s, restart, profiled), show)
