"""``workbench jobs``: what a cluster does for this project, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.commands.options import format_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.cluster import Standing
    from workbench.views.sheets import Sheet

_COUNTS = ("queued", "running", "done", "failed", "lost")
_LEGEND = (
    "lost: in no job and without a result; the same command, run again, sends them again. "
    "`workbench jobs NAME --cancel` ends jobs."
)


@click.command()
@click.argument("name", default="")
@click.option("--cancel", is_flag=True, help="Cancel these jobs; what they have stored stays.")
@format_option
def command(name: str, cancel: bool, format_: str) -> None:
    """What was sent to a cluster with --on, and its progress.

    NAME is one of the names that the list shows; without it, all of this project are shown.
    A command that was interrupted (Ctrl-C) comes back to its jobs when it is run again.
    """
    from workbench.cluster import fleet
    from workbench.cluster.dispatch import dispatches, find
    from workbench.cluster.slurm import SlurmQueue, read_settings
    from workbench.project import require_project
    from workbench.views.terminal.tables import print_sheet

    project = require_project()
    chosen = [find(project.root, name)] if name else dispatches(project.root)
    if not chosen:
        if format_ != "table":
            print_sheet(_sheet(()), format_)  # what is read by programs is a document, always
        click.echo("no jobs have been sent from this project", err=True)
        return
    queue = SlurmQueue(read_settings(project), project.root)
    found = [fleet.standing(dispatch, queue) for dispatch in chosen]
    if cancel:
        for dispatch, each in zip(chosen, found, strict=True):
            fleet.cancel(dispatch, queue)
            click.echo(f"{each.name}: cancelled; {each.done} had finished", err=True)
        return
    print_sheet(_sheet(found), format_)


def _sheet(found: Sequence[Standing]) -> Sheet:
    """What was sent to a cluster, one row a command, with its pieces counted."""
    from msgspec.structs import asdict

    from workbench.views.shapes import shaped
    from workbench.views.shapes.measured import JobsDocument, SentJobs
    from workbench.views.sheets import Sheet, when

    shown = tuple(
        (
            each.name,
            " ".join(each.jobs),
            when(each.submitted),
            *(str(getattr(each, name)) for name in _COUNTS),
            each.words,
        )
        for each in found
    )
    return Sheet(
        header=("name", "array", "sent", *_COUNTS, "command"),
        shown=shown,
        raw=tuple({**asdict(each), "jobs": " ".join(each.jobs)} for each in found),
        document=JobsDocument(jobs=[shaped(each, SentJobs) for each in found]).plain(),
        notes=(_LEGEND,),
        extra=("sent", "array"),
    )
