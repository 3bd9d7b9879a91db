"""Writing the report once and again: what ``report`` and ``serve`` share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.errors import WorkbenchError
from workbench.model import Record
from workbench.project import Project

if TYPE_CHECKING:
    from workbench.views.html.build import Result


class Plan(Record, frozen=True):
    """Which report to write where.

    `reports` are the report files as they were typed: ``x.ncu-rep``, ``x.ncu-rep::kernel``.
    """

    folder: Path
    project: Project | None = None
    studies: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()

    @classmethod
    def of(cls, targets: tuple[str, ...], out: Path | None) -> Plan:
        """What `targets` ask for; none: all that the project has recorded.

        Raises:
            UsageError: there is no project, and a study (or everything) was asked for.
        """
        from workbench.commands.targets import is_report
        from workbench.project import find_project, require_project

        reports = tuple(text for text in targets if is_report(text))
        studies = tuple(text for text in targets if not is_report(text))
        # Report files need no project: the tool serves whoever has only ever typed `ncu -o`.
        project = find_project() if reports and not studies else require_project()
        folder = out or (project.reports if project else Path("reports"))
        return cls(folder=folder, project=project, studies=studies, reports=reports)

    @property
    def _of_project(self) -> Project | None:
        """The project, where its profiles are part of what was asked for."""
        return self.project if self.studies or not self.reports else None

    def build(self, *, force: bool = False) -> Result:
        """Write the site, or bring it up to date; see `build_report`."""
        from workbench.ncurep.read import split_target
        from workbench.views.html.build import ReportFile, build_report

        return build_report(
            self.folder,
            project=self.project,
            studies=self.studies,
            reports=tuple(ReportFile(*split_target(text)) for text in self.reports),
            force=force,
        )

    def sources(self) -> tuple[Path, ...]:
        """The folders and files that the report is made from."""
        from workbench.ncurep.read import split_target

        files = tuple(split_target(text)[0] for text in self.reports)
        project = self._of_project
        return (project.kernels, project.profiles, *files) if project else files

    def broken_studies(self) -> list[WorkbenchError]:
        """Why a study cannot be loaded; the report shows what is recorded of it all the same."""
        from workbench.study.folder import load_study, study_names

        problems: list[WorkbenchError] = []
        project = self._of_project
        if project is None:
            return problems
        asked = dict.fromkeys(_study(text, project) for text in self.studies)
        for name in asked or study_names(project):
            try:
                load_study(project, name)
            except WorkbenchError as error:
                problems.append(error)
        return problems


def _study(text: str, project: Project) -> str:
    """The study of ``sgemm``, ``sgemm/v1..v4`` or ``v1..v4``."""
    name, slash, _ = text.partition("/")
    return name if slash or ".." not in text else project.default_study


def told(result: Result) -> str:
    """``3 pages written, 12 unchanged, 1 removed``."""
    done = result.outcome
    removed = f", {done.removed} removed" if done.removed else ""
    pages = "page" if done.written == 1 else "pages"
    return f"{done.written} {pages} written, {done.unchanged} unchanged{removed}"


def attempt(plan: Plan, *, force: bool = False) -> tuple[Result | None, list[str]]:
    """Build, and tell what is broken instead of ending: its repair is the next change.

    Returns:
        What was built (None: nothing), and the messages of what was broken.
    """
    problems: list[WorkbenchError] = []
    result = None
    try:
        result = plan.build(force=force)
        problems = plan.broken_studies()
        click.echo(told(result))
    except WorkbenchError as error:
        problems.append(error)
    except Exception as error:
        # A fault of our own must not end a watch either, and is not to be overlooked.
        if (click.get_current_context().find_root().obj or {}).get("debug"):
            raise
        words = f"a fault in workbench itself: {type(error).__name__}: {error}"
        problems.append(WorkbenchError(words, "`workbench --debug report` shows where."))
    for problem in problems:
        click.echo(f"error: {problem.message}", err=True)
        if problem.hint:
            click.echo(f"  hint: {problem.hint}", err=True)
    return result, [problem.message for problem in problems]


def named(changed: Iterable[Path]) -> str:
    """``changed: v3_padded.cu, study.py and 2 more``."""
    names = sorted({path.name for path in changed})
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"changed: {', '.join(names[:3])}{more}"
