"""``workbench list``: studies, versions, and what is recorded of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import click

from workbench.commands.options import (
    device_option,
    format_option,
    problem_option,
    study_option,
)

if TYPE_CHECKING:
    from workbench.errors import DataError, WorkbenchError
    from workbench.model import Timing, Version
    from workbench.project import Project
    from workbench.store import Store
    from workbench.store.ladder import Ladder, Rung


@click.command()
@study_option
@problem_option
@device_option
@format_option
def command(study: str | None, problem: str | None, device: str | None, format_: str) -> None:
    """Studies, versions, and what is recorded of them.

    What cannot be read is named below, and does not hide the rest.
    """
    from workbench.errors import UsageError
    from workbench.project import require_project
    from workbench.study.folder import study_names

    project = require_project()
    broken: list[WorkbenchError] = []
    ladders = []
    for name in [study] if study else study_names(project):
        try:
            ladders.append(_ladder(project, name, problem, device, broken))
        except UsageError as error:
            if study or problem or device:
                raise
            broken.append(error)
    if broken and not ladders:
        _raise(broken)
    # The default study first: it is what a version without a study means.
    ladders.sort(key=lambda ladder: ladder.name != project.default_study)
    if format_ == "json":
        from workbench.store.ladder import list_document
        from workbench.views.text.documents import dumps

        click.echo(dumps(list_document(ladders, project.default_study)), nl=False)
    elif format_ in ("csv", "markdown"):
        from workbench.views.text import tables as flat

        text = flat.list_csv(ladders) if format_ == "csv" else flat.list_markdown(ladders)
        click.echo(text, nl=False)
    else:
        from rich.console import Console

        from workbench.views.terminal.console import print_view
        from workbench.views.terminal.list import list_view

        print_view(list_view(ladders, project.default_study, Console().width))
    if broken:
        _raise(broken)


def _raise(broken: list[WorkbenchError]) -> NoReturn:
    """End with the one error, or with the first one's code and the words of all."""
    first = broken[0]
    if len(broken) == 1:
        raise first
    words = "; ".join(error.message for error in broken)
    raise type(first)(f"{len(broken)} files cannot be read: {words}", first.hint)


def _ladder(
    project: Project,
    name: str,
    problem: str | None,
    device: str | None,
    broken: list[WorkbenchError],
) -> Ladder:
    """What is recorded of a study; `broken` takes the errors of damaged files."""
    from workbench.errors import UsageError
    from workbench.store import Store
    from workbench.store.ladder import Ladder
    from workbench.study.folder import load_study

    study = load_study(project, name)
    if problem is not None:
        study.problem(problem)
    store = Store(project.profiles)
    damaged: list[DataError] = []
    timings = store.timings(study=name, damaged=damaged)
    rungs = tuple(
        _rung(project, store, version, [t for t in timings if t.version == version.id], damaged)
        for version in study.versions.values()
    )
    broken += damaged
    devices = _devices(rungs)
    if device is not None:
        from workbench.store import device_slug

        known = {device_slug(each): each for each in devices}
        if device_slug(device) not in known:
            there = ", ".join(devices) or "none"
            raise UsageError(
                f"nothing of {name} is recorded on a device {device!r}",
                f"Recorded devices: {there}.",
            )
        devices = [known[device_slug(device)]]
    shown = problem
    if shown is None:
        recorded = {p.problem for r in rungs for p in r.profiles}
        recorded |= {t.problem for r in rungs for t in r.times}
        shown = next((p.name for p in study.problems_for("profile") if p.name in recorded), None)
        shown = shown or next((p for p in study.problems if p in recorded), "")
    return Ladder(
        name=name,
        title=study.title,
        problems=tuple(study.problems),
        versions=rungs,
        problem=shown if devices else "",
        device=devices[0] if devices else "",
    )


def _rung(
    project: Project,
    store: Store,
    version: Version,
    timings: list[Timing],
    damaged: list[DataError],
) -> Rung:
    from workbench.analysis.aggregate import kernel_seconds
    from workbench.errors import DataError
    from workbench.store.ladder import RecordedProfile, RecordedTime, Rung
    from workbench.study.folder import source_hash

    now = source_hash(project, version)
    profiles = []
    for entry in store.find(study=version.study, version=version.id):
        try:
            profile = store.load(entry.path)
        except DataError as error:
            damaged.append(error)
            continue
        profiles.append(
            RecordedProfile(
                problem=entry.problem,
                engine=entry.engine,
                device=profile.device.name,
                captured=profile.captured,
                stale=profile.source_hash not in ("", now),
                duration=kernel_seconds(profile),
            )
        )
    times = tuple(
        RecordedTime(
            problem=timing.problem,
            device=timing.device.name,
            time=timing.time,
            stale=timing.source_hash not in ("", now),
            ratio=timing.ratio.value if timing.ratio else None,
        )
        for timing in timings
    )
    return Rung(
        id=version.id,
        title=version.title,
        baseline=version.baseline,
        parent=version.parent,
        profiles=tuple(profiles),
        times=times,
    )


def _devices(rungs: tuple[Rung, ...]) -> list[str]:
    """Recorded devices, the one with the newest profile first.

    Hardware stands before the emulator, as for `show`: a laptop's first emulated
    profile must not hide the ladder's times.
    """
    newest: dict[str, tuple[bool, str]] = {}
    for rung in rungs:
        for profile in rung.profiles:
            rank = (profile.engine == "ncu", profile.captured)
            newest[profile.device] = max(newest.get(profile.device, (False, "")), rank)
        for time in rung.times:
            newest.setdefault(time.device, (True, ""))
    return sorted(newest, key=lambda name: newest[name], reverse=True)
