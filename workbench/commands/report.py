"""``workbench report``: the HTML site of the records, or of report files."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click

from workbench.commands.options import languages_option, selection_options
from workbench.errors import UsageError, together
from workbench.language import using
from workbench.session.site import SitePlan, Writing, write_page
from workbench.session.workspace import Selection, Workspace
from workbench.views.terminal.progress import Progress
from workbench.views.text.safe_output import say


@click.command("report")
@click.argument(
    "targets", nargs=-1, metavar="[STUDY | OLD..NEW | REPORT.ncu-rep[::KERNEL] | @CAPTURE]..."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the site (default: the project's reports/); with --single-file, the file.",
)
@click.option("--force", is_flag=True, help="Render every page, changed or not.")
@click.option(
    "--single-file",
    "single",
    is_flag=True,
    help="Write one self-contained page: of a version, a step (OLD NEW), a study, "
    "or one or two report files or captured programs; or any page of the site.",
)
@languages_option
@selection_options
def command(
    targets: tuple[str, ...],
    out: Path | None,
    force: bool,
    single: bool,
    languages: tuple[str, ...],
    selection: Selection,
) -> None:
    """Write the HTML report: a page per ladder and version, readable without a network.

    Without arguments, all recorded studies; only pages that have changed are rewritten.
    v1..v4 adds a page that compares any two versions, and v4@h100..v4@h200 one that compares
    two devices; their paths are printed. Two reports get a page that compares them, and @before
    @after one that compares two captured programs, kernel by kernel. With --single-file the
    arguments name one page: v3, sgemm/v3, v2 v3, v3@h100 v3@h200, sgemm, x.ncu-rep,
    x.ncu-rep y.ncu-rep, @before @after, reports/glossary.html.
    """
    place = Workspace()
    if single:
        if len(languages) > 1:
            raise UsageError("a single page has one language", "Give --lang en or --lang zh.")
        speaking = using(languages[0]) if languages else nullcontext()
        with Progress().slowly("writing the page"), speaking:
            page = write_page(place, targets, selection, out, force=force)
        say(str(page))
        return
    if selection != Selection():
        raise UsageError(
            "a problem, a device and --engine choose the page of --single-file",
            "For the pages of one study: `workbench report STUDY`.",
        )
    plan = SitePlan(place, targets, out, languages=languages)
    progress = Progress()
    with progress.slowly(f"writing pages to {plan.folder}"):
        result = plan.build(Writing(force=force, tell=progress.count))
    say(result.words)
    for page in result.asked:
        say(str(page))
    say(str(result.index))
    for error in result.broken:
        say(f"note: {error.message}; its pages show its records", err=True)
    for note in result.notes:
        say(f"note: {note}", err=True)
    if result.damaged:
        raise together(result.damaged)
