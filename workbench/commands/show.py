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
from workbench.language import _
from workbench.session.api import CoreSession
from workbench.session.captures import captures, installed
from workbench.session.targets import Target, whole_large_report
from workbench.session.workspace import (
    Places,
    Selection,
    apart,
    is_program,
    is_report,
    refuse_for_program,
)
from workbench.views.shapes import dumps
from workbench.views.terminal.progress import Progress
from workbench.views.text.safe_output import say, write

if TYPE_CHECKING:
    from workbench.views.sheets import Sheet


@click.command()
@click.argument("target")
@launch_selection_options
@source_options
@all_option
@memory_option
@format_option
@click.pass_context
def command(
    ctx: click.Context,
    target: str,
    selection: Selection,
    places: Places,
    all_: bool,
    memory: bool,
    format_: str,
) -> None:
    """Show a version's (or report file's) counters, lines and rules.

    TARGET is a version (v3, sgemm/v3:n4096@h200), or a study (sgemm), whose versions it lists;
    or a report (x.ncu-rep, x.ncu-rep::kernel, or its second launch x.ncu-rep::kernel#2); or a
    capture: @before for the whole program, @before::kernel for the profile of a kernel.
    """
    session = CoreSession(listener=Progress())
    if not (is_report(target) or all_ or memory) and session.is_study(apart(target)[0]):
        from workbench.commands.list_ import command as list_command

        asked = {"problem": selection.problem, "device": selection.device, "study": None}
        ctx.invoke(list_command, target=target, **asked, page=None, format_=format_)
        return
    if is_program(target) and selection.launch is None:
        refuse_for_program(target, memory=memory)
        _print_sheet(captures(target).table(session, target, all_), format_)
        return
    large = whole_large_report(target)
    if large is not None and selection.launch is None and not all_ and (seen := installed()):
        _print_sheet(seen.large(large), format_)
        return
    found = session.show(target, selection, places)
    if memory:
        from workbench.views.sheets.memory import memory_sheet

        sheet = memory_sheet(
            _("Memory of {name}").format(name=found.name), (found.profile,), (found.name,)
        )
        _print_sheet(sheet, format_)
    else:
        _print(found, all_, format_)


def _print_sheet(sheet: Sheet, format_: str) -> None:
    from workbench.views.terminal.tables import print_sheet

    print_sheet(sheet, format_)


def _print(found: Target, everything: bool, format_: str) -> None:
    profile = found.profile
    if format_ == "json":
        from workbench.views.text.documents import show_document

        document = show_document(profile, found.timing, stale=found.stale, notes=found.notes)
        write(dumps(document))
    elif format_ in ("csv", "markdown"):
        from workbench.views.text.tables import show_csv, show_markdown

        write((show_csv if format_ == "csv" else show_markdown)(profile))
    else:
        from workbench.views.terminal.console import print_view, width

        print_view(found.view(width(), everything=everything))
        for line in found.tuned:
            say(line)
