"""``workbench init``: make a folder a workbench project."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.study.scaffold import start_project
from workbench.views.text.safe_output import say


@click.command()
@click.argument(
    "folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--study", default="", help="Also start this study, from a small example.")
def command(folder: Path, study: str) -> None:
    """Make this folder a workbench project.

    Writes workbench.toml, kernels/, profiles/ and reports/.gitignore; no existing file is
    overwritten.
    """
    for path in start_project(folder, study):
        say(f"wrote {folder / path}")
    if study:
        say("Next: `workbench list`, then `workbench verify v0`.")
    else:
        say("Next: `workbench new NAME` starts a study from a small example.")
