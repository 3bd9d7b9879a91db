"""``workbench report``: the HTML site from what is recorded, or from report files."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from workbench.commands.options import selection_options
from workbench.errors import UsageError, WorkbenchError, together
from workbench.model import Record
from workbench.project import Project

if TYPE_CHECKING:
    from workbench.commands.targets import Selection
    from workbench.store import Store
    from workbench.views.html.build import BuiltReport
    from workbench.views.html.site import Audience


#: Profiles that are remembered while the report is watched: of a long ladder, and of its
#: study on other problems, which an edit of a source asks for as well.
_REMEMBERED = 64


@click.command("report")
@click.argument(
    "targets", nargs=-1, metavar="[STUDY | OLD..NEW | REPORT.ncu-rep[::KERNEL] | @CAPTURE]..."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the site (default: the project's reports/); with --single-file, the file.",
)
@click.option("--force", is_flag=True, help="Render every page, changed or not.")
@click.option(
    "--watch", "watching", is_flag=True, help="Keep running, and rewrite pages that change."
)
@click.option(
    "--single-file",
    "single",
    is_flag=True,
    help="Write one self-contained page: of a version, a step (OLD NEW), a study, "
    "one or two report files or captured programs, or a page of the site.",
)
@selection_options
def command(
    targets: tuple[str, ...],
    out: Path | None,
    force: bool,
    watching: bool,
    single: bool,
    selection: Selection,
) -> None:
    """Write the HTML report: a page per ladder and version, readable without a network.

    Without arguments, all recorded studies; only pages that have changed are rewritten.
    v1..v4 adds a page that compares any two versions, two reports a page that compares
    them, @before @after one that compares two captured programs, kernel by kernel. With
    --single-file the arguments name one page: v3, sgemm/v3, v2 v3, v3@h100 v3@h200,
    sgemm, x.ncu-rep, x.ncu-rep y.ncu-rep, @before @after, reports/glossary.html.
    """
    from workbench.commands.targets import Selection

    if single:
        if watching:
            raise UsageError("--watch writes a site, not a single file", "Use only one of them.")
        _single(targets, selection, out, force)
        return
    if selection != Selection():
        raise UsageError(
            "--study, --problem, --device and --engine choose the page of --single-file",
            "For the pages of one study: `workbench report STUDY`.",
        )
    plan = ReportPlan.of(targets, out)
    if watching:
        _watch(plan, force)
    else:
        result = plan.build(force=force)
        click.echo(told(result))
        click.echo(str(result.index))
        for error in result.broken:
            click.echo(f"note: {error.message}; its pages show what is recorded of it", err=True)
        for note in result.notes:
            click.echo(f"note: {note}", err=True)
        if result.damaged:
            raise together(result.damaged)


# --- --single-file -------------------------------------------------------------------


def _single(targets: tuple[str, ...], selection: Selection, out: Path | None, force: bool) -> None:
    from workbench.commands.singlepage import found_page
    from workbench.disk.writing import replace_file
    from workbench.views.html.single import is_page_of_ours, pack

    with found_page(targets, selection) as page:
        target = out or Path(page.name)
        if target.is_dir():
            target = target / page.name
        if target.exists() and not force and not is_page_of_ours(target):
            raise UsageError(
                f"{target} already exists and is not a page of a report",
                "Name another file with --out, or overwrite this one with --force.",
            )
        data = pack(page.path, page.root).encode("utf-8", "replace")
        # The folder was named by the user, wherever it leads.
        replace_file(target.parent.resolve(), target.name, data, durable=True)
    click.echo(str(target))


# --- --watch -------------------------------------------------------------------------


def _watch(plan: ReportPlan, force: bool) -> None:
    from workbench.serve.watch import changes

    plan.check()
    plan = plan.lasting()
    # Before the first build, so that what changes during it is noticed after it.
    found = changes(plan.sources())
    try:
        result, _ = attempt(plan, force=force)
        if result is not None:
            click.echo(str(result.index))
        click.echo("Watching for changes; Ctrl-C ends it.")
        for changed in found:
            click.echo(named(changed))
            attempt(plan)
    except KeyboardInterrupt:
        # The only way to end it: the code of an interruption, and nothing to complain of.
        click.get_current_context().exit(130)


# --- what is written, once and again: for `serve` as well ----------------------------


class ReportPlan(Record, frozen=True):
    """Which report to write where.

    `reports` are the report files as they were typed: ``x.ncu-rep``, ``x.ncu-rep::kernel``;
    `programs` the captures: ``@before``, ``@HEAD~1``. `store` remembers profiles (`lasting`).
    """

    folder: Path
    project: Project | None = None
    studies: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    store: Store | None = None

    @classmethod
    def of(cls, targets: tuple[str, ...], out: Path | None) -> ReportPlan:
        """What `targets` ask for; none: all that the project has recorded.

        Raises:
            UsageError: there is no project, and a study (or everything) was asked for.
        """
        from workbench.commands.captures import is_program
        from workbench.commands.targets import is_report
        from workbench.project import find_project, require_project

        programs = tuple(text for text in targets if is_program(text))
        reports = tuple(text for text in targets if is_report(text) and text not in programs)
        studies = tuple(text for text in targets if not is_report(text))
        # Neither report files nor captures need a project: the tool serves whoever has none.
        alone = (reports or programs) and not studies
        project = find_project() if alone else require_project()
        folder = out or (project.reports if project else Path("reports"))
        return cls(folder, project, studies, reports, programs)

    @property
    def _of_project(self) -> Project | None:
        """The project, where its profiles are part of what was asked for."""
        return self.project if self.studies or not (self.reports or self.programs) else None

    def build(self, *, force: bool = False, audience: Audience | None = None) -> BuiltReport:
        """Write the site, or bring it up to date; see `build_report`."""
        from workbench.commands.captures import captured_program, report_file
        from workbench.views.html.build import build_report

        return build_report(
            self.folder,
            project=self.project,
            studies=self.studies,
            reports=tuple(map(report_file, self.reports)),
            programs=tuple(map(captured_program, self.programs)),
            force=force,
            audience=audience,
            store=self.store,
        )

    def lasting(self) -> ReportPlan:
        """The same for whoever builds it again and again: what did not change is not read again."""
        from workbench.store import Store

        store = Store(self.project.profiles, remembers=_REMEMBERED) if self.project else None
        return msgspec.structs.replace(self, store=store)

    def recall(self, folders: Container[str]) -> Iterator[None]:
        """Read what the pages in some folders of the site are made of, a profile at a time."""
        from workbench.views.html.build import recall

        if self._of_project is not None and self.store is not None:
            yield from recall(self._of_project, self.store, self.studies, folders)

    def check(self) -> None:
        """Refuse what no change will ever bring, before something is watched.

        Raises:
            UsageError: a study is neither there nor recorded.
        """
        from workbench.views.html.build import check_studies

        if self.project is not None:
            check_studies(self.project, self.studies)

    def sources(self) -> tuple[Path, ...]:
        """The folders and files that the report is made from."""
        from workbench.capture.shelf import Shelf
        from workbench.commands.captures import captured_program, report_file

        files = [report_file(text).path for text in self.reports]
        for program in map(captured_program, self.programs):
            files.append(Shelf(program.root).home(program.name))
        project = self._of_project
        return (project.kernels, project.profiles, *files) if project else tuple(files)


def told(result: BuiltReport) -> str:
    """``3 pages written, 12 unchanged, 1 removed``."""
    done = result.pages
    removed = f", {done.removed} removed" if done.removed else ""
    pages = "page" if done.written == 1 else "pages"
    return f"{done.written} {pages} written, {done.unchanged} unchanged{removed}"


def attempt(
    plan: ReportPlan, *, force: bool = False, audience: Audience | None = None
) -> tuple[BuiltReport | None, list[str]]:
    """Build, and tell what is broken instead of ending: its repair is the next change.

    Returns:
        What was built (None: nothing), and the messages of what was broken.
    """
    problems: list[WorkbenchError] = []
    result = None
    try:
        result = plan.build(force=force, audience=audience)
        problems += [*result.broken, *result.damaged]
        click.echo(told(result))
    except WorkbenchError as error:
        problems.append(error)
    except Exception as error:
        # A fault of our own must not end a watch either, and is not to be overlooked.
        if (click.get_current_context().find_root().obj or {}).get("debug"):
            raise
        words = f"an internal error of workbench: {type(error).__name__}: {error}"
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
