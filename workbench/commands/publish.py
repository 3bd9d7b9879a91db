"""``workbench publish``: a ladder's table and chart in a README, rewritten in place."""

from __future__ import annotations

import os
from pathlib import Path

import click

from workbench.commands.options import device_option, problem_option
from workbench.disk.limits import SOURCE, read_regular
from workbench.disk.writing import replace_file
from workbench.errors import MissingError, UsageError
from workbench.language import _
from workbench.session.api import Session
from workbench.session.asked import Selection
from workbench.session.figures import figure_of
from workbench.views.html.charts.saved import FORMATS, picture
from workbench.views.text.door import say
from workbench.views.text.published import ladder_block, placed


@click.command()
@click.argument("study", required=False)
@click.option(
    "--in",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The Markdown file (default: the project's README.md).",
)
@click.option(
    "--chart",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also draw the ladder as this picture (.svg, .png), and show it.",
)
@problem_option
@device_option
def command(
    study: str | None,
    path: Path | None,
    chart: Path | None,
    problem: str | None,
    device: str | None,
) -> None:
    """Write STUDY's table of versions, times and speeds into a README, between two markers.

    The markers are the lines `<!-- workbench publish STUDY -->` and `<!-- end of STUDY -->`;
    what stands between them is replaced, nothing else.
    """
    if chart is not None and chart.suffix not in FORMATS:
        raise UsageError(f"{chart} is no picture", f"Name a file with {', '.join(FORMATS)}.")
    session = Session()
    project = session.project
    found = session.recorded(study, problem, device)
    name = found.study.name
    if not any(rung.timing for rung in found.rungs):
        raise UsageError(
            f"no time of {name} is recorded", f"`workbench time --all --study {name}` takes them."
        )
    file = (path or project.root / "README.md").absolute()
    try:
        text = read_regular(file, SOURCE).decode("utf-8")
    except FileNotFoundError as error:
        raise MissingError(f"there is no {file.name}", "Name a file with --in.") from error

    def where(relative: str) -> str:
        return Path(os.path.relpath(project.root / relative, file.parent)).as_posix()

    there = "" if chart is None else where(os.path.relpath(chart.absolute(), project.root))
    new = placed(text, name, ladder_block(found, there, where), file.name)
    if chart is not None:
        selection = Selection(study=name, problem=found.problem, device=device)
        drawn = picture(figure_of(session, "ladder", (), selection), chart.suffix[1:])
        replace_file(chart.absolute().parent, chart.name, drawn)
    if new != text:
        replace_file(file.parent, file.name, new.encode())
    done = _("{file}: written") if new != text else _("{file}: unchanged")
    say(done.format(file=file.name))
