"""``workbench report``: the HTML site from what is recorded, or from report files."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report")
@click.argument("targets", nargs=-1, metavar="[STUDY | REPORT.ncu-rep[::KERNEL]]...")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the site (default: the project's reports/).",
)
@click.option("--force", is_flag=True, help="Render every page, changed or not.")
def command(targets: tuple[str, ...], out: Path | None, force: bool) -> None:
    """Write the HTML report: a page per ladder and version, readable without a network.

    Without arguments all recorded studies; pages that have not changed stay as they are.
    """
    from workbench.commands.targets import is_report
    from workbench.ncurep.read import split_target
    from workbench.project import find_project, require_project
    from workbench.views.html import ReportFile, build_report

    reports = tuple(ReportFile(*split_target(text)) for text in targets if is_report(text))
    studies = tuple(text for text in targets if not is_report(text))
    # Report files need no project: the tool serves whoever has only ever typed `ncu -o`.
    project = find_project() if reports and not studies else require_project()
    folder = out or (project.reports if project else Path("reports"))
    result = build_report(folder, project=project, studies=studies, reports=reports, force=force)
    done = result.outcome
    removed = f", {done.removed} removed" if done.removed else ""
    click.echo(f"{done.written} pages written, {done.unchanged} unchanged{removed}")
    click.echo(str(result.index))
