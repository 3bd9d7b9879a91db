"""``workbench list``: studies, versions, and what is recorded of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from workbench.commands.options import (
    device_option,
    format_option,
    problem_option,
    study_option,
)

if TYPE_CHECKING:
    from workbench.errors import DataError, WorkbenchError
    from workbench.ladder import Ladder
    from workbench.project import Project
    from workbench.study.folder import SeenStudy, Study
    from workbench.views.sheets.list import StudyList


@click.command()
@study_option
@problem_option
@device_option
@click.option(
    "--page",
    type=click.IntRange(1),
    metavar="N",
    help="Page of a table of more than 500 versions (default: the first).",
)
@format_option
def command(
    study: str | None, problem: str | None, device: str | None, page: int | None, format_: str
) -> None:
    """Studies, versions, and what is recorded of them.

    Files that cannot be read are named below the table; the rest is shown.
    """
    from workbench.errors import UsageError, together
    from workbench.project import require_project
    from workbench.study.folder import require_study, study_names, view_study
    from workbench.study.sources import count_versions
    from workbench.views.sheets.list import ListPage

    if page is not None and format_ != "table":
        raise UsageError(
            f"--page is for tables; --format {format_} prints everything", "Use only one of them."
        )
    project = require_project()
    broken: list[WorkbenchError] = []
    sizes: dict[str, int] = {}
    # The default study first: it is what a version without a study means.
    names = sorted(study_names(project), key=lambda name: name != project.default_study)
    with_errors = broken if not (study or problem or device) else None
    for name in [study] if study else names:
        with _kept(with_errors):
            require_study(project, name)
            sizes[name] = count_versions(project, name)
    shown = ListPage(list(sizes.values()), page or 1)
    lists: list[StudyList] = []
    for name, part in zip(sizes, shown.parts, strict=True):
        # What stands on other pages is not read: thousands of versions take seconds.
        if format_ != "table" or part is not None:
            with _kept(with_errors):
                found = _study_list(project, view_study(project, name), problem, device, broken)
                found.part = part if part is not None and format_ == "table" else slice(None)
                lists.append(found)
    if broken and not lists:
        raise together(broken)
    if format_ == "json":
        from workbench.views.shapes import dumps
        from workbench.views.sheets.list import list_document

        click.echo(dumps(list_document(lists, project.default_study)), nl=False)
    elif format_ in ("csv", "markdown"):
        from workbench.views.text import tables as flat

        text = flat.list_csv(lists) if format_ == "csv" else flat.list_markdown(lists)
        click.echo(text, nl=False)
    else:
        from rich.console import Console

        from workbench.views.terminal.console import print_view
        from workbench.views.terminal.list import list_view

        print_view(list_view(lists, project.default_study, Console().width, shown))
    if broken:
        raise together(broken)


@contextlib.contextmanager
def _kept(broken: list[WorkbenchError] | None) -> Iterator[None]:
    """Note what is wrong with one study and go on; None: raise it."""
    from workbench.errors import UsageError

    try:
        yield
    except UsageError as error:
        if broken is None:
            raise
        broken.append(error)


def _study_list(
    project: Project,
    study: SeenStudy,
    problem: str | None,
    device: str | None,
    broken: list[WorkbenchError],
) -> StudyList:
    """What is recorded of a study; `broken` takes the errors of damaged files."""
    from workbench.errors import UsageError
    from workbench.ladder import Family, Ladder, find_ladders
    from workbench.ladder.summaries import Summaries
    from workbench.store import Store, means_device
    from workbench.views.sheets.list import StudyList

    name = study.name
    if problem is not None:
        study.problem(problem)
    store = Store(project.profiles)
    damaged: list[DataError] = []
    summaries = Summaries(str(store.root), name)
    ladders = find_ladders(
        store, project, (name,), loaded=study, damaged=damaged, summaries=summaries
    )
    wish = device if device is not None else project.default_device
    meant = [ladder for ladder in ladders if means_device(wish, ladder.device)]
    # Where the device is known, what was recorded on others is not read to find the newest.
    devices = _devices(study, meant or ladders)
    summaries.keep()
    broken += damaged
    if device is not None and not meant:
        there = ", ".join(devices) or "none"
        raise UsageError(
            f"nothing of {name} is recorded on a device {device!r}",
            f"Recorded devices: {there}.",
        )
    where, slug = next(iter(devices.items()), ("", ""))
    recorded = _problems(study, [ladder for ladder in ladders if ladder.device == slug])
    first = [p.name for p in study.problems_for("profile") if p.name in recorded]
    wanted = problem or next(iter([*first, *recorded]), "")
    here = (each for each in ladders if (each.device, each.problem) == (slug, wanted))
    empty = Ladder(Family(store, project, name, slug, study), wanted)
    if study.note:
        click.echo(f"note: {study.note}", err=True)
    return StudyList(study, ladders, recorded, next(here, empty), where)


def _problems(study: Study, ladders: list[Ladder]) -> list[str]:
    """Problems of a device that anything is recorded on, in their order; lost ones come last."""
    names = {
        ladder.problem
        for ladder in ladders
        if any(rung.records or rung.timed_on for rung in map(ladder.rung, study.versions))
    }
    place = {name: at for at, name in enumerate(study.problems)}
    return sorted(names, key=lambda name: (place.get(name, len(place)), name))


def _devices(study: Study, ladders: list[Ladder]) -> dict[str, str]:
    """Recorded devices (name -> slug), the one with the newest profile first.

    Hardware stands before the emulator, as for `show`: a laptop's first emulated
    profile must not hide the ladder's times.
    """
    newest: dict[str, tuple[bool, str]] = {}
    slugs: dict[str, str] = {}
    every = [(ladder, ladder.rung(version)) for version in study.versions for ladder in ladders]
    for ladder, rung in every:
        for profile in rung.records:
            rank = (profile.engine == "ncu", profile.captured)
            newest[profile.device] = max(newest.get(profile.device, (False, "")), rank)
            slugs.setdefault(profile.device, ladder.device)
        if rung.timed_on:
            newest.setdefault(rung.timed_on, (True, ""))
            slugs.setdefault(rung.timed_on, ladder.device)
    return {name: slugs[name] for name in sorted(newest, key=newest.__getitem__, reverse=True)}
