"""``workbench diff``: the changes between two versions (or report files)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.commands.options import (
    all_option,
    detail_options,
    force_option,
    format_option,
    launch_selection_options,
    two_source_options,
)
from workbench.session.api import CoreSession
from workbench.session.captures import captures
from workbench.session.step import Diff
from workbench.session.targets import from_parent
from workbench.session.workspace import Places, Selection, is_program, refuse_for_program, sides
from workbench.views.shapes import dumps
from workbench.views.terminal.progress import Progress
from workbench.views.text.safe_output import write

if TYPE_CHECKING:
    from workbench.commands.options import Detail


@click.command()
@click.argument("old")
@click.argument("new", required=False, default="")
@launch_selection_options
@two_source_options
@force_option
@all_option
@detail_options
@format_option
def command(
    old: str,
    new: str,
    selection: Selection,
    places: Places,
    force: bool,
    all_: bool,
    detail: Detail,
    format_: str,
) -> None:
    """Compare OLD with NEW: what moved, and by how much; v2..v3 names both, v3 its parent and v3.

    Each is a version (v2, sgemm/v2:n4096, v2@h100 on one device); or a report file:
    x.ncu-rep, x.ncu-rep::kernel, x.ncu-rep::kernel#2 (its second launch); or a capture:
    @before @after compare two programs, @before::kernel one kernel of each.

    First come the edits, their effects and the places, on one screen; then the main
    counters behind them. --all prints every hunk and every counter.
    """
    session = CoreSession(listener=Progress())
    if not new:
        old, new = sides(old) if len(sides(old)) == 2 else from_parent(session, old, selection)
    if is_program(old) and is_program(new) and selection.launch is None:
        refuse_for_program(new, sass=detail.sass, memory=detail.memory)
        captures(old).show_difference(session, (old, new), format_, all_, force)
        return
    step = session.diff(old, new, selection, places, force=force)
    if detail.memory:
        from workbench.views.sheets.memory import memory_sheet
        from workbench.views.terminal.tables import print_sheet

        title = "Memory, {} → {}".format(*step.labels)
        print_sheet(memory_sheet(title, (step.old, step.new), step.labels), format_)
        return
    _print(step, format_, all_, detail.sass)


def _print(step: Diff, format_: str, everything: bool, sass: bool) -> None:
    if format_ == "csv":
        from workbench.views.text.tables import diff_csv

        write(diff_csv(step.comparison))
        return
    notes = [*step.notes, *([f"--sass: {step.no_codes}"] if sass and step.no_codes else ())]
    words, codes = (step.title, step.change, notes), step.codes if sass else None
    if format_ == "json":
        from workbench.views.text.documents import step_of

        told = step_of(step.comparison, step.story, notes=notes, stale=step.stale, codes=codes)
        write(dumps(told.plain()))
    elif format_ == "markdown":
        from workbench.views.text.markdown import step_markdown

        sides = step.old, step.new, step.comparison, step.story
        write(step_markdown(*sides, *words))
    else:
        from workbench.views.terminal.console import print_view, width
        from workbench.views.terminal.diff import diff_view

        view = diff_view(
            step.comparison, *words, step=step, codes=codes, everything=everything, width=width()
        )
        print_view(view)
