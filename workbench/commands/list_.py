"""``workbench list``: studies, versions, and their records."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from workbench.commands.options import Above, folded, format_option, moved_options
from workbench.errors import DataError, UsageError, WorkbenchError, together
from workbench.session.api import CoreSession
from workbench.session.workspace import Selection, apart
from workbench.study.folder import require_study
from workbench.study.sources import count_versions
from workbench.views.shapes import dumps
from workbench.views.sheets.list import ListPage, list_document
from workbench.views.text.safe_output import say, write

if TYPE_CHECKING:
    from workbench.ladder.listing import StudyList


@click.command(cls=Above)
@click.argument("target", default="", metavar="[STUDY][:PROBLEM][@DEVICE]")
@folded("where", Selection, *moved_options)
@click.option(
    "--page",
    type=click.IntRange(1),
    metavar="N",
    help="Page of a table of more than 500 versions (default: the first).",
)
@format_option
def command(target: str, where: Selection, page: int | None, format_: str) -> None:
    """List studies and versions with their records.

    Prints a few lines for each study; STUDY lists all of its versions. Unreadable files
    are named below the table; the rest is shown.
    """
    if page is not None and format_ != "table":
        raise UsageError(
            f"--page is for tables; --format {format_} prints everything", "Use only one of them."
        )
    session = CoreSession()
    project = session.project
    name, where = apart(target, where)
    study, problem, device = name or where.study, where.problem, where.device
    broken: list[WorkbenchError] = []
    sizes: dict[str, int] = {}
    with_errors = broken if not (study or problem or device) else None
    for name in [study] if study else session.studies():
        with _kept(with_errors):
            require_study(project, name)
            sizes[name] = count_versions(project, name)
    shown = ListPage(list(sizes.values()), page or 1)
    lists: list[StudyList] = []
    for name, part in zip(sizes, shown.parts, strict=True):
        # Versions on other pages are not read: thousands of them take seconds.
        if format_ != "table" or part is not None:
            with _kept(with_errors):
                damaged: list[DataError] = []
                found = session.recorded(name, problem, device, damaged)
                broken += damaged
                for remark in found.remarks:
                    say(f"note: {remark}", err=True)
                found.part = part if part is not None and format_ == "table" else slice(None)
                lists.append(found)
    if broken and not lists:
        raise together(broken)
    if format_ == "json":
        write(dumps(list_document(lists, project.default_study)))
    elif format_ in ("csv", "markdown"):
        from workbench.views.text import tables as flat

        text = flat.list_csv(lists) if format_ == "csv" else flat.list_markdown(lists)
        write(text)
    else:
        from workbench.views.terminal.console import print_view, width
        from workbench.views.terminal.list import list_view

        print_view(list_view(lists, project.default_study, width(), shown, brief=study is None))
    if broken:
        raise together(broken)


@contextlib.contextmanager
def _kept(broken: list[WorkbenchError] | None) -> Iterator[None]:
    """Record an error of one study and go on; `broken` None: raise it."""
    try:
        yield
    except UsageError as error:
        if broken is None:
            raise
        broken.append(error)
