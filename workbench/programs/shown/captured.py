"""Pages of what was captured elsewhere: report files and programs; of two of them, a comparison.

A report file and a program have a page of their own and one a profiled launch. The comparison of
two reports is the page that a step of a ladder has; that of two programs has such a page for each
kernel that matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial

import msgspec
from msgspec.structs import replace

from workbench.analysis.aggregate import main_launch, value_of
from workbench.analysis.naming import shortened
from workbench.analysis.story import Step
from workbench.disk.limits import REPORT, read_regular
from workbench.errors import UsageError
from workbench.language import _
from workbench.model import Launch, Profile
from workbench.ncurep.files import stem
from workbench.ncurep.read import read_report, select_kernels
from workbench.programs.capture.capture_store import Shelf
from workbench.programs.capture.records import ProgramCapture
from workbench.programs.compared.counterparts import launches_of
from workbench.programs.compared.program import (
    KernelStep,
    ProgramDifference,
    compare_programs,
    kernel_steps,
)
from workbench.programs.compared.words import step_words
from workbench.programs.shown.sheets import row_names
from workbench.store.codec import decode
from workbench.units import listed
from workbench.views.html.page import (
    PROGRAMS,
    REPORTS,
    Badge,
    CapturedProgram,
    Head,
    Link,
    Page,
    PageCount,
    Rendered,
    ReportFile,
    View,
    digest,
    launch_page,
    neighbours,
    page_part,
)
from workbench.views.html.parts import once, profiled
from workbench.views.html.site import Site

# --- report files -----------------------------------------------------------------------

#: Kernels that a heading names; the page's table has all of them.
_NAMED = 3


class _Report:
    """A report file: its bytes are read at once, its launches when a page needs them."""

    def __init__(self, file: ReportFile) -> None:
        try:
            self.content = read_regular(file.path, REPORT)
        except OSError as error:
            raise UsageError(
                f"cannot read {file.path}: {error.strerror}", "Check the path and its permissions."
            ) from error
        self.file = file
        self.name = file.title + (f"::{file.kernel}" if file.kernel else "")
        # Two files of the same name from two folders are two reports; the path stays private.
        self.id = digest(str(file.path.resolve()))[:8]
        self.folder = f"files/{page_part(self.name)}-{self.id}"
        self.home, self.owner = f"{self.folder}/index.html", f"{REPORTS}:{self.folder}"

    @cached_property
    def detail(self) -> Profile:
        """What the report holds of the kernels that are meant."""
        path = self.file.path
        whole = decode(path, Profile) if self.file.label else read_report(path)
        return select_kernels(whole, self.file.kernel)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The launches that have a page."""
        return profiled(self.detail)

    @property
    def label(self) -> str:
        """A short name for headings and axes: without the folder and the suffix."""
        name = stem(self.file.title)
        return f"{name}::{self.file.kernel}" if self.file.kernel else name

    def overview(self) -> Rendered:
        """The page of the report."""
        from workbench.views.html.pages.index import summarize_files
        from workbench.views.html.pages.version import report_view
        from workbench.views.html.render import render

        view = report_view(self.detail, self.name)
        summary = summarize_files((self.detail,), self.name, self.home)
        html = render("report.html", self.home, view=view)
        return Rendered(html, msgspec.to_builtins(summary))


def write_reports(site: Site, files: tuple[ReportFile, ...], stamp: str) -> PageCount:
    """Bring the pages of report files up to date; two are compared, the first is the old one.

    `stamp` is the key of the program that writes.

    Raises:
        UsageError: a file cannot be read, or holds no kernel of the name that is meant.
        DataError: a report is damaged.
    """
    reports = [_Report(file) for file in files]
    done = _write_each(site, reports, stamp)
    if len(reports) == 2:
        folder = f"files/{page_part(reports[0].name)}..{page_part(reports[1].name)}"
        folder += f"-{digest(reports[0].id, reports[1].id)[:8]}"
        owner, path = f"{REPORTS}:{folder}", f"{folder}/index.html"
        key = digest(stamp, reports[0].content, reports[1].content)
        page = Page(path, key, owner, partial(_comparison, reports[0], reports[1], path))
        done = done.plus(_write(site, owner, key, lambda: iter((page,))))
    return done


def _write(site: Site, owner: str, key: str, pages: Callable[[], Iterator[Page]]) -> PageCount:
    """Write the pages of one owner, or count them where nothing has changed.

    They have one key: which launches have a page is only known once the capture is read.
    """
    unchanged = site.fresh(owner, key)
    if unchanged:
        return PageCount(unchanged=unchanged)
    return site.write(pages(), owners=(owner,))


def _write_each(site: Site, every: Sequence[_Report | _Surveyed], stamp: str) -> PageCount:
    """The pages of report files or captures, of each by itself."""
    done = PageCount()
    for one in every:
        key = digest(stamp, one.content)
        done = done.plus(_write(site, one.owner, key, partial(_pages, one, key)))
    return done


def _pages(one: _Report | _Surveyed, key: str) -> Iterator[Page]:
    yield Page(one.home, key, one.owner, one.overview)
    for place, launch in enumerate(one.launches):
        path = f"{one.folder}/{launch_page(launch.index)}"
        yield Page(path, key, one.owner, partial(_launch, one, place, path))


def _launch(one: _Report | _Surveyed, place: int, path: str) -> Rendered:
    from workbench.views.html.pages.version import launch_page_view, render_version

    assert one.detail is not None  # a launch of it is shown
    return render_version(path, launch_page_view(one.detail, place, one.name, one.home))


def kernels_of(old: Profile, new: Profile) -> str:
    """The kernels of two reports, those first that take most of the time of both."""
    taken: dict[str, float] = {}
    for launch in (*old.launches, *new.launches):
        taken.setdefault(launch.kernel, 0.0)
        taken[launch.kernel] += value_of(launch, "duration") or 0.0
    order = sorted(taken, key=lambda name: -taken[name])
    sides = [{launch.kernel for launch in profile.launches} for profile in (old, new)]
    named = [listed([one for one in order if one in side], _NAMED) for side in sides]
    return once(named)


def _comparison(old: _Report, new: _Report, path: str) -> Rendered:
    from workbench.views.html.pages.diff import diff_view, render_diff
    from workbench.views.html.pages.index import summarize_files

    labels = (old.label, new.label)
    if labels[0] == labels[1]:
        labels = (
            _("{name} (old)").format(name=labels[0]),
            _("{name} (new)").format(name=labels[1]),
        )
    step = Step(old.detail, new.detail, labels)
    head = Head(
        name=f"{labels[0]} → {labels[1]}",
        heading=kernels_of(old.detail, new.detail),
        crumbs=(Link(_("Overview"), "index.html"), Link(f"{labels[0]} → {labels[1]}")),
        pages=tuple(
            Link(label, f"../../{report.folder}/index.html")
            for label, report in zip(labels, (old, new), strict=True)
        ),
        chips=tuple(
            Badge(text=notice.message, tone="warn")
            for notice in dict.fromkeys((*old.detail.notices, *new.detail.notices))
        ),
    )
    summary = summarize_files((step.old, step.new), head.name, path)
    page = render_diff(path, diff_view(step, head))
    return replace(page, summary=msgspec.to_builtins(summary))


class _Surveyed:
    """One capture: its files are hashed at once, and read when a page needs them."""

    def __init__(self, site: Site, program: CapturedProgram) -> None:
        self._shelf = Shelf(program.root)
        folder = self._shelf.home(program.name)
        self.content = digest(*(site.content(path) for path in sorted(folder.glob("*.zst"))))
        self.name = f"@{program.name}"
        self.asked = program
        self.folder = program_folder(program)
        self.home, self.owner = f"{self.folder}/index.html", f"{PROGRAMS}:{self.folder}"

    @cached_property
    def capture(self) -> ProgramCapture:
        """The record."""
        return self._shelf.load(self.asked.name)

    @cached_property
    def detail(self) -> Profile | None:
        """What was profiled of it."""
        return self._shelf.detail(self.capture)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The launches that have a page."""
        return profiled(self.detail) if self.detail is not None else ()

    def page_of(self, places: tuple[int, ...]) -> str:
        """The page of the longest profiled launch of some works, from the site's root; or ""."""
        own = launches_of(self.capture, self.detail, places)
        speaker = main_launch(own) if own is not None else None
        return f"{self.folder}/{launch_page(speaker.index)}" if speaker is not None else ""

    def overview(self) -> Rendered:
        """The page of the capture."""
        from workbench.programs.shown.page import program_view
        from workbench.views.html.pages.index import summarize_program
        from workbench.views.html.pages.version import launch_page_view
        from workbench.views.html.render import render

        capture, detail = self.capture, self.detail
        panel, kernel = None, ""
        # In the order of the survey: which kernel takes most time, the profiler does not know.
        places = [place for place in sorted(set(capture.detail)) if place >= 0]
        own = launches_of(capture, detail, (places[0],)) if places else None
        speaker = main_launch(own) if own is not None else None
        if speaker is not None and detail is not None:
            at = self.launches.index(speaker)
            view = launch_page_view(detail, at, self.name, self.home)
            panel = replace(view.panel, page=launch_page(speaker.index)) if view.panel else None
            kernel = shortened(speaker.kernel)
        page = program_view(capture, detail, (kernel, panel))
        html = render("program.html", self.home, view=page)
        return Rendered(html, msgspec.to_builtins(summarize_program(capture, self.home)))


def program_folder(*programs: CapturedProgram) -> str:
    """Where the pages of a capture lie, or of two that are compared, from the site's root."""
    names = "..".join(page_part(program.name) for program in programs)
    # Captures of one name from two folders are two programs; the path stays private.
    roots = [str(program.root.resolve()) for program in programs]
    return f"programs/{names}-{digest(*roots)[:8]}"


def write_programs(site: Site, asked: tuple[CapturedProgram, ...], stamp: str) -> PageCount:
    """Bring the pages of captures up to date, as `write_reports` does those of report files.

    Raises:
        UsageError: there is no capture of that name.
        DataError: a capture is damaged.
    """
    programs = [_Surveyed(site, program) for program in dict.fromkeys(asked)]
    done = _write_each(site, programs, stamp)
    if len(programs) == 2:
        pair = _Compared(*programs)
        key = digest(stamp, programs[0].content, programs[1].content)
        done = done.plus(_write(site, pair.owner, key, partial(pair.pages, key)))
    return done


# --- two ---------------------------------------------------------------------------------


class _Compared:
    """Two captures, compared once for all pages that speak of them."""

    def __init__(self, old: _Surveyed, new: _Surveyed) -> None:
        self.sides = (old, new)
        self.name = f"{old.name} → {new.name}"
        self.folder = program_folder(old.asked, new.asked)
        self.home, self.owner = f"{self.folder}/index.html", f"{PROGRAMS}:{self.folder}"
        self._views: dict[int, View] = {}

    @cached_property
    def difference(self) -> ProgramDifference:
        """Never refused: why they are not comparable stands above the numbers."""
        return compare_programs(self.sides[0].capture, self.sides[1].capture, force=True)

    @cached_property
    def steps(self) -> dict[int, KernelStep]:
        """The kernels that matter, by their row."""
        details = self.sides[0].detail, self.sides[1].detail
        steps = kernel_steps(self.difference, details, force=True)
        return {self.difference.rows.index(step.row): step for step in steps}

    @cached_property
    def names(self) -> list[str]:
        """What the rows are called."""
        return row_names(self.difference)

    @cached_property
    def files(self) -> dict[int, str]:
        """File names of the pages of the steps, by row: kernels may share a name."""
        out: dict[int, str] = {}
        for number, step in self.steps.items():
            if step.story is not None:
                name = f"kernel-{page_part(self.names[number])}"
                same = sum(other.startswith(f"{name}.") for other in out.values())
                out[number] = f"{name}.{same + 1}.html" if same else f"{name}.html"
        return out

    def page_of(self, number: int) -> str:
        """Where a row leads to, from the comparison's page: its step, or one of its launches."""
        if number in self.files:
            return self.files[number]
        row = self.difference.rows[number]
        new, old = self.sides[1].page_of(row.new), self.sides[0].page_of(row.old)
        return f"../../{new or old}" if new or old else ""

    def view(self, number: int) -> View:
        """The page of one kernel's step, made once: the comparison quotes its panel."""
        from workbench.views.html.pages.diff import diff_view

        if number not in self._views:
            step = self.steps[number].step
            assert step is not None  # only those have a page
            self._views[number] = diff_view(step, self._head(number))
        return self._views[number]

    def _head(self, number: int) -> Head:
        row, name = self.difference.rows[number], self.names[number]
        words = step_words(self.steps[number], self.difference)
        order = list(self.files)
        links = [(self.names[other], self.files[other]) for other in order]
        sides = [
            Link(side.name, f"../../{page}")
            for side, places in zip(self.sides, (row.old, row.new), strict=True)
            if (page := side.page_of(places))
        ]
        return Head(
            heading=name,
            name=self.name,
            change=_("; ").join((words.program, *words.launches)) + _("."),
            notices=(*words.warnings, *words.sentences[1:]),
            crumbs=(Link(_("Overview"), "index.html"), Link(self.name, self.home), Link(name)),
            steps=neighbours(links, order.index(number), "kernel"),
            pages=tuple(sides),
        )

    def pages(self, key: str) -> Iterator[Page]:
        """The comparison, and the steps of its kernels."""
        yield Page(self.home, key, self.owner, self._overview)
        for number, name in self.files.items():
            path = f"{self.folder}/{name}"
            yield Page(path, key, self.owner, partial(self._step, number, path))

    def _overview(self) -> Rendered:
        from workbench.programs.shown.page import program_diff_view
        from workbench.views.html.pages.index import summarize_programs
        from workbench.views.html.render import render

        rows = self.difference.rows
        panel, kernel = None, ""
        for number, page in list(self.files.items())[:1]:  # the one that changed most
            panel, kernel = self.view(number).panel, shortened(self.names[number])
            panel = replace(panel, page=page) if panel else None
        view = program_diff_view(
            self.difference,
            self.steps,
            (
                [self.page_of(number) for number in range(len(rows))],
                [Link(side.name, f"../../{side.home}") for side in self.sides],
            ),
            (kernel, panel),
        )
        html = render("programdiff.html", self.home, view=view)
        return Rendered(html, msgspec.to_builtins(summarize_programs(self.difference, self.home)))

    def _step(self, number: int, path: str) -> Rendered:
        from workbench.views.html.pages.diff import render_diff

        return render_diff(path, self.view(number))
