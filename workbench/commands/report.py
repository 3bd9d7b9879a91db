"""``workbench report``: the HTML site from what is recorded, or from report files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.commands.building import Plan, attempt, named, told
from workbench.commands.options import selection_options
from workbench.errors import UsageError

if TYPE_CHECKING:
    from workbench.commands.targets import Selection


@click.command("report")
@click.argument("targets", nargs=-1, metavar="[STUDY | OLD..NEW | REPORT.ncu-rep[::KERNEL]]...")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the site (default: the project's reports/); with --single-file, the file.",
)
@click.option("--force", is_flag=True, help="Render every page, changed or not.")
@click.option("--watch", "watching", is_flag=True, help="Stay, and write again what changes.")
@click.option(
    "--single-file",
    "single",
    is_flag=True,
    help="Write one page that needs no other file: of a version, a step (OLD NEW), a study, "
    "one or two report files, or a page of the site.",
)
@selection_options
def command(
    targets: tuple[str, ...],
    out: Path | None,
    force: bool,
    watching: bool,
    single: bool,
    selection: Selection,
) -> None:
    """Write the HTML report: a page per ladder and version, readable without a network.

    Without arguments all recorded studies; pages that have not changed stay as they are.
    v1..v4 asks for a page that compares any two versions, two reports for one that
    compares them. With --single-file the arguments name one page: v3, sgemm/v3, v2 v3,
    sgemm, x.ncu-rep, x.ncu-rep y.ncu-rep, reports/glossary.html.
    """
    from workbench.commands.targets import Selection

    if single:
        if watching:
            raise UsageError("--watch writes a site, not a single file", "Leave one of them out.")
        _single(targets, selection, out, force)
        return
    if selection != Selection():
        raise UsageError(
            "--study, --problem, --device and --engine choose the page of --single-file",
            "For the pages of one study: `workbench report STUDY`.",
        )
    plan = Plan.of(targets, out)
    if watching:
        _watch(plan, force)
    else:
        result = plan.build(force=force)
        click.echo(told(result))
        click.echo(str(result.index))
        for broken in plan.broken_studies():
            click.echo(f"note: {broken.message}; its pages show what is recorded of it", err=True)


# --- --single-file -------------------------------------------------------------------


def _single(targets: tuple[str, ...], selection: Selection, out: Path | None, force: bool) -> None:
    from workbench.commands.singlepage import found_page
    from workbench.store.atomic import write_files
    from workbench.views.html.single import is_page_of_ours, pack

    with found_page(targets, selection) as page:
        target = out or Path(page.name)
        if target.is_dir():
            target = target / page.name
        if target.exists() and not force and not is_page_of_ours(target):
            raise UsageError(
                f"{target} is there already and is no page of a report",
                "Name another file with --out, or overwrite it with --force.",
            )
        write_files({target: pack(page.path, page.root).encode("utf-8", "replace")})
    click.echo(str(target))


# --- --watch -------------------------------------------------------------------------


def _watch(plan: Plan, force: bool) -> None:
    from workbench.serve.watch import changes

    # Before the first build, so that what changes during it is noticed after it.
    found = changes(plan.sources())
    try:
        result, _ = attempt(plan, force=force)
        if result is not None:
            click.echo(str(result.index))
        click.echo("Watching for changes; Ctrl-C ends it.")
        for changed in found:
            click.echo(named(changed))
            attempt(plan)
    except KeyboardInterrupt:
        # The only way to end it: the code of an interruption, and nothing to complain of.
        click.get_current_context().exit(130)
