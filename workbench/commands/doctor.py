"""``workbench doctor``: what this machine can do, and how to get what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from workbench.commands.options import format_option

if TYPE_CHECKING:
    from workbench.engines.host.doctor import Equipment
    from workbench.views.sheets import Sheet


@click.command()
@click.option("--strict", is_flag=True, help="Exit with code 3 if anything is missing.")
@format_option
def command(strict: bool, format_: str) -> None:
    """What this machine can do, how to get what it lacks, and what works without it."""
    from workbench.engines.host.doctor import survey
    from workbench.errors import MissingError
    from workbench.project import find_project
    from workbench.views.terminal.tables import print_sheet

    rows = survey(find_project())
    print_sheet(doctor_sheet(rows), format_)
    lacking = [row.what for row in rows if row.state != "ok"]
    if strict and lacking:
        raise MissingError(
            f"not complete here: {', '.join(lacking)}", "The remedy of each is shown above."
        )


def doctor_sheet(rows: Sequence[Equipment]) -> Sheet:
    """The table of `survey`'s rows, and below it what each one lacks."""
    from workbench.views.shapes import shaped
    from workbench.views.shapes.listed import DoctorDocument, EquipmentFacts
    from workbench.views.sheets import Sheet

    notes = []
    for row in rows:
        if row.state == "ok":
            continue
        notes.append(f"{row.what}: {row.detail}")
        if row.remedy:
            notes.append(f"  how to get it: {row.remedy}")
        if row.without:
            notes.append(f"  works without it: {row.without}")
    return Sheet(
        header=("what", "state", "detail"),
        shown=tuple(
            (row.what, row.state, row.detail if row.state == "ok" else "see below") for row in rows
        ),
        raw=tuple(asdict(row) for row in rows),
        document=DoctorDocument(checks=[shaped(row, EquipmentFacts) for row in rows]).plain(),
        notes=tuple(notes),
    )
