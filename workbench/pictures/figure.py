"""``workbench export figure``: a figure of the report as a picture file."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.commands.options import selection_options
from workbench.disk.writing import replace_file
from workbench.errors import UsageError
from workbench.pictures.figures import KINDS, Kind, card_of, figure_of
from workbench.pictures.saved import FORMATS, drawn, picture
from workbench.session.api import CoreSession
from workbench.session.workspace import Selection
from workbench.views.terminal.progress import Progress
from workbench.views.text.safe_output import say


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("targets", nargs=-1, metavar="[STUDY | OLD NEW]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file: .svg, .png or .pdf (default: KIND.svg).",
)
@selection_options
def command(kind: Kind, targets: tuple[str, ...], out: Path | None, selection: Selection) -> None:
    """A card to share as a picture, or a figure: the ladder, sweep or roofline of STUDY, or a step.

    card: STUDY's ladder or the step OLD NEW; ladder: the speed of every version; sweep: the speed
    at all sizes; roofline: the ladder's path under the roofs; step: where the time went from OLD
    to NEW. Everything except a card's SVG needs matplotlib.
    """
    path = out or Path(f"{kind}.svg")
    if path.suffix not in FORMATS:
        raise UsageError(f"{path} is not a picture", f"Name a file with {', '.join(FORMATS)}.")
    session = CoreSession(listener=Progress())
    if kind == "card":
        content = drawn(card_of(session, targets, selection), path.suffix[1:])
    else:
        content = picture(figure_of(session, kind, targets, selection), path.suffix[1:])
    whole = path.absolute()
    replace_file(whole.parent, whole.name, content)
    say(str(path))
