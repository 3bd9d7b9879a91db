"""``workbench diff``: what moved between two versions (or report files)."""

from __future__ import annotations

import click

from workbench.commands.options import (
    all_option,
    device_option,
    engine_option,
    force_option,
    format_option,
    problem_option,
    study_option,
)


@click.command()
@click.argument("old")
@click.argument("new")
@problem_option
@study_option
@device_option
@engine_option
@force_option
@all_option
@format_option
def command(
    old: str,
    new: str,
    problem: str | None,
    study: str | None,
    device: str | None,
    engine: str | None,
    force: bool,
    all_: bool,
    format_: str,
) -> None:
    """What moved from OLD to NEW, and by how much.

    Each is a version (v2, sgemm/v2) or a report: x.ncu-rep, x.ncu-rep::kernel.
    """
    from workbench.analysis.compare import compare
    from workbench.commands.targets import Selection, resolve_all

    selection = Selection(study=study, problem=problem, device=device, engine=engine)
    before, after = resolve_all((old, new), selection)
    comparison = compare(
        before.profile,
        after.profile,
        old_time=before.timing,
        new_time=after.timing,
        force=force,
        labels=(before.label, after.label),
    )
    notes = [f"{side.label}: {note}" for side in (before, after) for note in side.notes]
    if format_ == "json":
        from workbench.views.jsonout import diff_document, dumps

        stale = (before.stale, after.stale)
        click.echo(dumps(diff_document(comparison, notes=notes, stale=stale)), nl=False)
    elif format_ in ("csv", "markdown"):
        from workbench.views import flat

        text = flat.diff_csv(comparison) if format_ == "csv" else flat.diff_markdown(comparison)
        click.echo(text, nl=False)
    else:
        from rich.console import Console

        from workbench.views.terminal import print_view
        from workbench.views.terminal_diff import diff_view

        print_view(
            diff_view(
                comparison,
                title=after.version.title if after.version else "",
                change=after.version.change if after.version else "",
                notes=notes,
                everything=all_,
                width=Console().width,
            )
        )
