"""The report: resolve a request to a site and its content, or to one page of it.

This is where the session calls a view: pages are written by `workbench.views.html`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.disk.writing import private_folder, replace_file
from workbench.errors import MissingError, UsageError, did_you_mean
from workbench.ladder import Ladder, find_ladders
from workbench.model import Profile, Record
from workbench.ncurep.files import split_target, stem
from workbench.project import Project, find_project
from workbench.session.captures import captures
from workbench.session.workspace import (
    Selection,
    Workspace,
    apart,
    is_capture,
    is_program,
    is_report,
    sides,
)
from workbench.store import Store, means_device
from workbench.study.folder import view_study
from workbench.views.html.build import (
    BuiltReport,
    build_devices_page,
    build_in,
    build_page,
    build_report,
    check_studies,
    program_pages,
)
from workbench.views.html.page import (
    CapturedProgram,
    ReportFile,
    page_part,
    step_page,
    version_page,
)
from workbench.views.html.site import CHANGED
from workbench.views.html.site import Writing as Writing

if TYPE_CHECKING:
    from workbench.session.targets import Target

#: The most profiles kept while the report is watched: those of a long ladder, and of its study on
#: other problems, which an edit of a source needs as well.
_REMEMBERED = 64
_USAGE = (
    "Name one page: a version (v3), a step (v2 v3), two devices (v3@h100 v3@h200), a study "
    "(sgemm), a report file (x.ncu-rep::kernel), a captured program (@before, @before @after) "
    "or a page of the site (reports/glossary.html)."
)


class SitePlan:
    """A site to write; see `CoreSession.site`, and `build_in` for `languages`."""

    def __init__(
        self,
        place: Workspace,
        targets: tuple[str, ...] = (),
        out: Path | None = None,
        *,
        lasting: bool = False,
        languages: tuple[str, ...] = (),
    ) -> None:
        self._place, self._languages = place, languages
        self._programs = tuple(text for text in targets if is_program(text))
        self._reports = tuple(t for t in targets if is_report(t) and t not in self._programs)
        self._studies = tuple(text for text in targets if not is_report(text))
        # Neither report files nor captures need a project: the tool works without one.
        alone = (self._reports or self._programs) and not self._studies
        self._project = find_project(place.start) if alone else place.project
        self.folder = out or (self._project.reports if self._project else Path("reports"))
        #: The project, if its profiles are requested.
        self._recorded = None if alone else self._project
        self._store = None
        if lasting and self._project is not None:
            self._store = Store.of(self._project, remembers=_REMEMBERED)

    def build(self, how: Writing = CHANGED) -> BuiltReport:
        """Write the site, or bring it up to date; see `build_report`."""
        write = partial(
            build_report,
            project=self._project,
            studies=self._studies,
            reports=self._report_files(),
            programs=self._captured(),
            store=self._store,
        )
        return build_in(self.folder, self._languages, how, write)

    def check(self) -> None:
        """Refuse targets that no change can ever provide, before anything is watched.

        Raises UsageError: a study neither exists nor is recorded.
        """
        if self._project is not None:
            check_studies(self._project, self._studies)

    def sources(self) -> tuple[Path, ...]:
        """The folders and files from which the report is made."""
        files = [file.path for file in self._report_files()]
        files += [captures("@").home(program) for program in self._captured()]
        project = self._recorded
        return (project.kernels, project.profiles, *files) if project else tuple(files)

    def _report_files(self) -> tuple[ReportFile, ...]:
        return tuple(_report_file(self._place, text) for text in self._reports)

    def _captured(self) -> tuple[CapturedProgram, ...]:
        return tuple(captures(text).asked(self._place, text) for text in self._programs)


def _report_file(place: Workspace, text: str) -> ReportFile:
    if not is_capture(text):
        return ReportFile(*split_target(text))
    return captures(text).report_file(place, text)


# --- one page ----------------------------------------------------------------------------------


class FoundPage(Record, frozen=True):
    """A page on disk, its site, and the name of its file as a single page."""

    path: Path
    root: Path
    name: str


@contextlib.contextmanager
def found_page(
    place: Workspace, targets: tuple[str, ...], selection: Selection
) -> Iterator[FoundPage]:
    """The page that `targets` mean, up to date inside the block.

    Only this page is written, to a temporary folder: the project's own report is unchanged.

    Raises:
        UsageError: the targets do not mean a page, or have no records.
        DataError: a stored profile or a report file is damaged.
    """
    texts = tuple(side for text in targets for side in sides(text))
    if not 1 <= len(texts) <= 2:
        raise UsageError(f"--single-file writes one page, not {len(texts)}", _USAGE)
    if len(texts) == 1 and Path(texts[0]).suffix == ".html":
        yield _existing(Path(texts[0]))
        return
    with private_folder() as folder:
        site = Path(folder) / "site"
        if all(map(is_program, texts)):
            yield _of_programs(place, texts, site)
        elif any(is_report(text) for text in texts):
            yield _of_report(place, texts, site)
        else:
            yield _of_project(place, texts, selection, site)


def write_page(
    place: Workspace,
    targets: tuple[str, ...],
    selection: Selection,
    out: Path | None = None,
    *,
    force: bool = False,
) -> Path:
    """Write the page that `targets` mean as one self-contained file.

    `targets` are a version, a step, a study, one or two reports or programs, or a page's file;
    `out` is the file, or a folder for it; None: the current one. `force`: overwrite any file, not
    only a page. Raises UsageError, DataError: as `found_page`; or another file has that name.
    """
    from workbench.views.html.single import is_page_of_ours, pack  # needed only for a single page

    with found_page(place, targets, selection) as page:
        target = out or Path(page.name)
        if target.is_dir():
            target = target / page.name
        if target.exists() and not force and not is_page_of_ours(target):
            raise UsageError(
                f"{target} already exists and is not a page of a report",
                "Name another file with --out, or overwrite this one with --force.",
            )
        data = pack(page.path, page.root).encode("utf-8", "replace")
        # The user named the folder, wherever it leads.
        replace_file(target.parent.resolve(), target.name, data, durable=True)
    return target


def _existing(path: Path) -> FoundPage:
    for folder in path.resolve().parents:
        if (folder / "assets" / "workbench.css").is_file() and path.is_file():
            return FoundPage(path=path, root=folder, name=path.name)
    raise UsageError(f"{path} is not a page of a report", _USAGE)


def _of_report(place: Workspace, texts: tuple[str, ...], folder: Path) -> FoundPage:
    if not all(is_report(text) for text in texts):
        raise UsageError(
            "there is no page for a version and a report together",
            "`workbench import` keeps the report as a version; `workbench diff` takes both.",
        )
    reports = tuple(_report_file(place, text) for text in texts)
    build_report(folder, reports=reports)
    pages = {home: list(home.glob("launch*.html")) for home in (folder / "files").iterdir()}
    if len(reports) == 2:
        (page,) = (home / "index.html" for home, launches in pages.items() if not launches)
    else:
        ((home, launches),) = pages.items()
        # The overview of one launch says less than the launch's own page.
        page = launches[0] if len(launches) == 1 else home / "index.html"
    name = page_part("-".join(map(_plain, reports)))
    return FoundPage(path=page, root=folder, name=f"{name}.html")


def _of_programs(place: Workspace, texts: tuple[str, ...], folder: Path) -> FoundPage:
    programs = tuple(dict.fromkeys(captures(text).asked(place, text) for text in texts))
    build_report(folder, programs=programs)
    name = page_part("-".join(program.name for program in programs))
    page = folder / program_pages().program_folder(*programs) / "index.html"
    return FoundPage(path=page, root=folder, name=f"{name}.html")


def _plain(report: ReportFile) -> str:
    name = stem(report.title)
    return f"{name}-{report.kernel}" if report.kernel else name


def _of_project(
    place: Workspace, texts: tuple[str, ...], selection: Selection, folder: Path
) -> FoundPage:
    from workbench.session.targets import resolve  # a site does not need the reader of studies

    project = place.project
    recorded = find_ladders(place.store, project)
    name, where = apart(texts[0], selection)
    if len(texts) == 1 and name in {ladder.name for ladder in recorded}:
        ladder = _ladder(project, recorded, name, where)
        return _page(folder, ladder, "index.html", "ladder")
    found = resolve(place, texts, selection)
    ladders = [_ladder_of(target.profile, recorded) for target in found]
    if len(found) == 2:
        return _step(folder, ladders, found)
    profile = found[-1].profile
    file = version_page(profile.version, profile.engine)
    return _page(folder, ladders[-1], file, profile.version)


def _ladder_of(profile: Profile, recorded: list[Ladder]) -> Ladder:
    place = profile.study, profile.device.slug, profile.problem
    return next(each for each in recorded if (each.name, each.device, each.problem) == place)


def _step(folder: Path, ladders: list[Ladder], found: list[Target]) -> FoundPage:
    old, new = (target.profile for target in found)
    alike = (old.study, old.problem, old.engine) == (new.study, new.problem, new.engine)
    if alike and old.device.slug != new.device.slug and all(target.placed for target in found):
        return _devices(folder, ladders, found)
    if not alike or old.device.slug != new.device.slug:
        raise UsageError(
            f"{found[0].label} and {found[1].label} were not recorded in the same way",
            "A page has one problem and engine, chosen by v3:n4096 and --engine, and one "
            "device, or two that both sides name: v5@h100 v5@h200.",
        )
    ladder = ladders[-1]
    file = step_page(old.version, new.version, new.engine)
    label = f"{old.version}-{new.version}"
    return _page(folder, ladder, file, label, ((old.version, new.version, new.engine),))


def _devices(folder: Path, ladders: list[Ladder], found: list[Target]) -> FoundPage:
    """The page that compares records on two devices, of one version or of two."""
    old, new = (
        ladder.rungs[target.profile.version] for ladder, target in zip(ladders, found, strict=True)
    )
    labels = found[0].label, found[1].label
    sides = (f"{rung.id}-{rung.ladder.device}" for rung in (old, new))
    parts = (new.ladder.name, *sides, new.ladder.problem)
    page = build_devices_page(folder, (old, new), labels, found[1].profile.engine)
    return FoundPage(page, folder, "-".join(map(page_part, parts)) + ".html")


def _page(
    folder: Path,
    ladder: Ladder,
    file: str,
    label: str,
    pairs: tuple[tuple[str, str, str], ...] = (),
) -> FoundPage:
    parts = (ladder.name, label, ladder.problem, ladder.device)
    page = build_page(folder, ladder, file, pairs)
    return FoundPage(page, folder, "-".join(map(page_part, parts)) + ".html")


def _ladder(project: Project, recorded: list[Ladder], name: str, selection: Selection) -> Ladder:
    """The selected ladder of the study.

    By default: on its default problem, and measured on hardware rather than counted in the
    emulator.
    """
    own = [ladder for ladder in recorded if ladder.name == name]
    for field, text in (("problem", selection.problem), ("device", selection.device)):
        if text is None:
            continue
        known = [getattr(ladder, field) for ladder in own]
        own = [
            ladder
            for ladder, there in zip(own, known, strict=True)
            if there == text or (field == "device" and means_device(text, there))
        ]
        if not own:
            raise UsageError(
                f"nothing is recorded for {name} with --{field} {text}",
                did_you_mean(text, known, f"{field}s"),
            )
    default = _default_problem(project, name)
    own = [ladder for ladder in own if ladder.problem == default] or own
    own = [ladder for ladder in own if means_device(project.default_device, ladder.device)] or own
    on_hardware = (
        ladder
        for ladder in own
        if any(rung.timed or "ncu" in rung.entries for rung in ladder.rungs.values())
    )
    return next(on_hardware, own[0])


def _default_problem(project: Project, name: str) -> str:
    """The study's default problem; "" if the study is gone or broken: its records still count."""
    try:
        return view_study(project, name).problem().name
    except (UsageError, MissingError):
        return ""
