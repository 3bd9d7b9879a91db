"""``workbench list jobs``: show a cluster's jobs for this project, or end them."""

from __future__ import annotations

import click

from workbench.cluster import fleet
from workbench.cluster.dispatch import dispatches, find
from workbench.cluster.documents import jobs_sheet
from workbench.cluster.slurm import SlurmQueue, read_settings
from workbench.commands.options import format_option
from workbench.project import require_project
from workbench.views.terminal.tables import print_sheet
from workbench.views.text.safe_output import say


@click.command()
@click.argument("name", default="")
@click.option("--cancel", is_flag=True, help="Cancel these jobs; stored results are kept.")
@format_option
def command(name: str, cancel: bool, format_: str) -> None:
    """List the work sent to a cluster with --on, and its progress.

    NAME is one of the names that the list shows; without it, all jobs of this project are shown.
    A command that was interrupted (Ctrl-C) rejoins its jobs when it is run again.
    """
    project = require_project()
    chosen = [find(project.root, name)] if name else dispatches(project.root)
    if not chosen:
        if format_ != "table":
            print_sheet(jobs_sheet(()), format_)  # output for programs is always a document
        say("no jobs have been sent from this project", err=True)
        return
    queue = SlurmQueue(read_settings(project))
    found = [fleet.standing(dispatch, queue) for dispatch in chosen]
    if cancel:
        for dispatch, each in zip(chosen, found, strict=True):
            fleet.cancel(dispatch, queue)
            say(f"{each.name}: cancelled; {each.done} had finished", err=True)
        return
    print_sheet(jobs_sheet(found), format_)
