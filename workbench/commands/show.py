"""``workbench show``: one version's (or report file's) counters, lines and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.commands.options import (
    all_option,
    format_option,
    launch_selection_options,
    memory_option,
    source_options,
)

if TYPE_CHECKING:
    from workbench.session.asked import Places, Selection
    from workbench.session.targets import Target


@click.command()
@click.argument("target")
@launch_selection_options
@source_options
@all_option
@memory_option
@format_option
def command(
    target: str,
    selection: Selection,
    places: Places,
    all_: bool,
    memory: bool,
    format_: str,
) -> None:
    """One version's (or report file's) counters, lines and rules.

    TARGET is a version (v3, sgemm/v3, on one device v3@h100) or a report: x.ncu-rep,
    x.ncu-rep::kernel, x.ncu-rep::kernel#2 (its second launch); or a capture: @before for
    the whole program, @before::kernel for what was profiled of it.
    """
    from workbench.session.api import Session
    from workbench.session.asked import is_program, refuse_for_program
    from workbench.session.targets import whole_large_report
    from workbench.views.terminal.progress import Progress

    session = Session(listener=Progress())
    if is_program(target) and selection.launch is None:
        from workbench.views.sheets.program import program_sheet
        from workbench.views.terminal.tables import print_sheet

        refuse_for_program(target, memory=memory)
        print_sheet(program_sheet(session.program(target).capture, everything=all_), format_)
        return
    large = whole_large_report(target)
    if large is not None and selection.launch is None and not all_:
        from workbench.session.programs import program_of_report
        from workbench.views.sheets.program import report_sheet
        from workbench.views.terminal.tables import print_sheet

        print_sheet(report_sheet(program_of_report(large)), format_)
        return
    _print(session.show(target, selection, places), all_, memory, format_)


def _print(found: Target, everything: bool, memory: bool, format_: str) -> None:
    profile, label = found.profile, found.name
    if memory:
        from workbench.views.sheets.memory import memory_sheet
        from workbench.views.terminal.tables import print_sheet

        print_sheet(memory_sheet(f"Memory of {label}", (profile,), (label,)), format_)
    elif format_ == "json":
        from workbench.views.shapes import dumps
        from workbench.views.text.documents import show_document

        document = show_document(profile, found.timing, stale=found.stale, notes=found.notes)
        click.echo(dumps(document), nl=False)
    elif format_ in ("csv", "markdown"):
        from workbench.views.text import tables as flat

        text = flat.show_csv(profile) if format_ == "csv" else flat.show_markdown(profile)
        click.echo(text, nl=False)
    else:
        from rich.console import Console

        from workbench.views.terminal.console import print_view
        from workbench.views.terminal.show import show_view

        print_view(
            show_view(
                profile,
                label=label,
                title=found.version.title if found.version else "",
                timing=found.timing,
                baseline=found.baseline,
                notes=found.notes,
                everything=everything,
                width=Console().width,
            )
        )
