"""``workbench doctor``: what this machine can do, and how to get what it lacks."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.commands.options import format_option
from workbench.engines.host.doctor import fits, read_log, survey
from workbench.engines.ncu.faults import remedy
from workbench.project import find_project
from workbench.views.shapes import shaped
from workbench.views.shapes.listed import EquipmentFacts, LogLine
from workbench.views.sheets.machine import doctor_sheet, log_sheet
from workbench.views.terminal.progress import Progress


@click.command()
@click.option("--all", "all_", is_flag=True, help="Show how to install everything that is missing.")
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Explain what ncu printed: each error, its cause and what to do.",
)
@format_option
def command(all_: bool, log: Path | None, format_: str) -> None:
    """Check this machine: its features, how to add missing ones, and what works without them."""
    from workbench.views.terminal.tables import print_sheet

    if log is not None:
        lines = [
            LogLine(
                line=found.line,
                means=found.fault.what if found.fault else "",
                remedy=remedy(found.fault) if found.fault else "",
            )
            for found in read_log(log)
        ]
        print_sheet(log_sheet(lines, fits()), format_)
        return
    with Progress().slowly("examining this machine"):
        rows = survey(find_project())
    facts = [shaped(row, EquipmentFacts) for row in rows]
    print_sheet(doctor_sheet(facts, everything=all_ or format_ != "table"), format_)
