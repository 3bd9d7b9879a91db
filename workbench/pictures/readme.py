"""``workbench export readme``: a ladder's table and chart in a README, rewritten in place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import click

from workbench.analysis.limits.roofline import rate, rate_unit
from workbench.commands.options import folded, moved_options
from workbench.disk.limits import SOURCE, read_regular
from workbench.disk.writing import replace_file
from workbench.errors import MissingError, UsageError
from workbench.ladder.listing import StudyList
from workbench.language import _
from workbench.pictures.figures import card_of
from workbench.pictures.saved import FORMATS, drawn
from workbench.session.api import CoreSession
from workbench.session.workspace import Selection, apart
from workbench.units import factor, quantity, span, symbol
from workbench.views.text.escaping import inline
from workbench.views.text.safe_output import say


@click.command()
@click.argument("target", default="", metavar="[STUDY][:PROBLEM][@DEVICE]")
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
    help="Also draw the ladder's card as this picture (.svg, .png), and show it.",
)
@folded("place", Selection, *moved_options)
def command(
    target: str,
    path: Path | None,
    chart: Path | None,
    place: Selection,
) -> None:
    """Write STUDY's table of versions, times and speeds into a README, between two markers.

    The markers are the lines `<!-- workbench export readme STUDY -->` and `<!-- end of STUDY -->`;
    only the text between them is replaced.
    """
    if chart is not None and chart.suffix not in FORMATS:
        raise UsageError(f"{chart} is not a picture", f"Name a file with {', '.join(FORMATS)}.")
    session = CoreSession()
    project = session.project
    study, place = apart(target, place)
    found = session.recorded(study or place.study, place.problem, place.device)
    name = found.study.name
    if not any(rung.timing for rung in found.rungs):
        raise UsageError(f"{name} has no recorded time", f"`workbench time {name}` measures them.")
    named = path or project.root / "README.md"
    file = Path(os.path.realpath(named))  # a link stays a link
    if path is None and not file.is_relative_to(os.path.realpath(project.root)):
        raise UsageError(f"{named} points outside the project", "Name the file with --in.")
    try:
        text = read_regular(file, SOURCE).decode()
    except FileNotFoundError as error:
        raise MissingError(f"there is no {file.name}", "Name a file with --in.") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file.name} is not UTF-8 (byte {error.start})",
            "Nothing was changed. Save the file as UTF-8 (`iconv`).",
        ) from error

    def where(relative: str) -> str:
        return Path(os.path.relpath(project.root / relative, file.parent)).as_posix()

    there = "" if chart is None else where(os.path.relpath(chart.absolute(), project.root))
    new = _placed(text, name, _ladder_block(found, there, where), file.name)
    if chart is not None:
        selection = Selection(study=name, problem=found.problem, device=place.device)
        picture = drawn(card_of(session, (), selection), chart.suffix[1:])
        replace_file(chart.absolute().parent, chart.name, picture)
    if new != text:
        replace_file(file.parent, file.name, new.encode())
    done = _("{file}: written") if new != text else _("{file}: unchanged")
    say(done.format(file=file.name))


def markers(study: str) -> tuple[str, str]:
    """The lines before and after the block of a study; Markdown shows neither."""
    return f"<!-- workbench export readme {study} -->", f"<!-- end of {study} -->"


def _placed(text: str, study: str, block: str, name: str) -> str:
    """The text of the named file with its block of a study replaced.

    Raises UsageError: the two markers are not present once each and in order.
    """
    begin, end = markers(study)
    text = text.replace(f"<!-- workbench publish {study} -->", begin)  # the last release's marker
    first, last = text.find(begin), text.find(end)
    if not (0 <= first < last) or text.count(begin) > 1 or text.count(end) > 1:
        raise UsageError(
            f"{name} does not say where the table of {study} belongs",
            f"Put two lines there, once: `{begin}` and below it `{end}`.",
        )
    written = f"{begin}\n{block}"
    if text[first + len(begin) :].startswith("\r\n"):
        written = written.replace("\n", "\r\n")
    return f"{text[:first]}{written}{text[last:]}"


def _ladder_block(found: StudyList, chart: str, where: Callable[[str], str]) -> str:
    """A table of all versions, and `chart`, a path relative to the file ("" for none).

    `where` maps a path relative to the project to one relative to the file.
    """
    timings = [rung.timing for rung in found.rungs if rung.timing]
    unit = rate_unit(timings, found.study.work)
    rival = next((rung.id for rung in found.rungs if rung.is_baseline), "")
    beside = [f"× {inline(rival)}"] if rival else []
    header = [_("version"), _("what"), _("time"), symbol(unit), *beside]
    rows = [header, ["---", "---", *["---:"] * (len(header) - 2)]]
    for rung in found.rungs:
        timing, share = rung.timing, rung.of_baseline
        if timing is None:
            continue
        version = found.study.versions[rung.id]
        cells = [
            f"[{inline(rung.id)}]({quote(where(version.path))})",
            inline(rung.title),
            quantity(timing.time.value, "s"),
            quantity(rate(timing, unit), unit),
        ]
        rows.append([*cells, *([factor(share) if share is not None else ""] if rival else [])])
    what = _("Speed of every version of {study}").format(study=inline(found.study.name))
    picture = f"![{what}]({quote(chart)})"
    days = sorted(timing.captured[:10] for timing in timings)
    told = _("{problem} on {device}, timed {days}; written by {command}.").format(
        problem=inline(found.problem),
        device=inline(found.device),
        days=span(days[0], days[-1]),
        command=f"`workbench export readme {found.study.name}`",
    )
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return "\n\n".join([*([picture] if chart else []), table, told]) + "\n"
