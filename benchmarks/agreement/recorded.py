"""Recorded profiles beside the emulator, one after the other or several at a time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from benchmarks.agreement.lines import Agreement, agreement
from workbench.errors import WorkbenchError
from workbench.project import Project
from workbench.store import Entry, Store
from workbench.study.folder import load_study

#: What was found of each launch of a profile, or why it could not be run.
Found = tuple[Entry, list[Agreement], str]


def compared(project: Project, entry: Entry, misread: bool) -> Found:
    """One recorded profile beside the emulator; nothing of a version in Python."""
    try:
        study = load_study(project, entry.study)
        if study.version(entry.version).kind == "python":
            return entry, [], ""
        profile = Store(project.profiles).load(entry.path)
        return entry, list(agreement(study, profile, misread=misread)), ""
    except WorkbenchError as error:
        return entry, [], error.message


def compared_all(
    project: Project, entries: list[Entry], misread: bool, jobs: int
) -> Iterator[Found]:
    """All of them, so many at a time, as they are done."""
    if jobs == 1:
        yield from (compared(project, entry, misread) for entry in entries)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        begun = [pool.submit(compared, project, entry, misread) for entry in entries]
        yield from (each.result() for each in as_completed(begun))
