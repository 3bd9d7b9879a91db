"""``workbench jobs``: what a cluster does for this project, and its end."""

from __future__ import annotations

import click

from workbench.commands.options import format_option


@click.command()
@click.argument("name", default="")
@click.option("--cancel", is_flag=True, help="End these jobs; what is stored by then stays.")
@format_option
def command(name: str, cancel: bool, format_: str) -> None:
    """What was sent to a cluster with --on, and how far it is.

    NAME is one of the names that the list shows; without it, all of this project are meant.
    A command that was left (Ctrl-C) comes back to its jobs when it is run again.
    """
    from workbench.cluster import fleet
    from workbench.cluster.campaign import campaigns, find
    from workbench.cluster.settings import read_settings
    from workbench.cluster.slurm import SlurmQueue
    from workbench.project import require_project
    from workbench.views.sheets.jobs import jobs_sheet
    from workbench.views.terminal.tables import print_sheet

    project = require_project()
    chosen = [find(project.root, name)] if name else campaigns(project.root)
    if not chosen:
        click.echo("no jobs were sent from this project", err=True)
        return
    queue = SlurmQueue(read_settings(project), project.root)
    found = [fleet.standing(campaign, queue) for campaign in chosen]
    if cancel:
        for campaign, each in zip(chosen, found, strict=True):
            fleet.cancel(campaign, queue)
            click.echo(f"{each.name}: ended; {each.done} were done by then", err=True)
        return
    print_sheet(jobs_sheet(found), format_)
