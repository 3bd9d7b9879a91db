"""``workbench doctor``: what this machine can do, and how to get what it lacks."""

from __future__ import annotations

import click

from workbench.commands.options import format_option


@click.command()
@click.option("--strict", is_flag=True, help="Exit with 3 where anything is missing.")
@format_option
def command(strict: bool, format_: str) -> None:
    """What this machine can do, how to get what it lacks, and what works without it."""
    from workbench.engines.host.doctor import survey
    from workbench.errors import MissingError
    from workbench.project import find_project
    from workbench.views.sheets.doctor import doctor_sheet
    from workbench.views.sheets.sheet import print_sheet

    rows = survey(find_project())
    print_sheet(doctor_sheet(rows), format_)
    lacking = [row.what for row in rows if row.state != "ok"]
    if strict and lacking:
        raise MissingError(
            f"not complete here: {', '.join(lacking)}", "Each stands above with its remedy."
        )
