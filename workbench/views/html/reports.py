"""Pages of report files: one per file, one per launch; the comparison of two files.

A comparison has the form of a ladder's step. `write_each` and `write_owned` write the pages of
reports and captures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial

import msgspec
from msgspec.structs import replace

from workbench.analysis.aggregate import value_of
from workbench.analysis.story import Step
from workbench.disk.limits import REPORT, read_regular
from workbench.errors import UsageError
from workbench.language import _
from workbench.model import Launch, Profile
from workbench.ncurep.files import stem
from workbench.ncurep.read import read_report, select_kernels
from workbench.store.codec import decode
from workbench.units import listed
from workbench.views.html.page import (
    REPORTS,
    Head,
    Link,
    Page,
    PageCount,
    Rendered,
    ReportFile,
    digest,
    launch_page,
    page_part,
)
from workbench.views.html.parts import once, profiled
from workbench.views.html.site import Site

#: The number of kernels that a heading names; the page's table has all of them.
_NAMED = 3


class PagedLaunches:
    """Launches captured elsewhere: a page for all, and one for each profiled launch."""

    content: bytes | str
    name: str
    folder: str
    home: str
    owner: str

    @cached_property
    def detail(self) -> Profile | None:
        """The profile of its launches."""
        raise NotImplementedError

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The launches that have a page."""
        return profiled(self.detail) if self.detail is not None else ()

    def overview(self) -> Rendered:
        """Its page."""
        raise NotImplementedError


class _Report(PagedLaunches):
    """A report file: its bytes are read at the start, its launches when a page needs them."""

    def __init__(self, file: ReportFile) -> None:
        try:
            self.content = read_regular(file.path, REPORT)
        except OSError as error:
            said = f"cannot read {file.path}: {error.strerror}"
            raise UsageError(said, "Check the path.") from error
        self.file = file
        self.name = file.title + (f"::{file.kernel}" if file.kernel else "")
        # Two files with the same name in two folders are two reports; the path stays private.
        self.id = digest(str(file.path.resolve()))[:8]
        self.folder = f"files/{page_part(self.name)}-{self.id}"
        self.home, self.owner = f"{self.folder}/index.html", f"{REPORTS}:{self.folder}"

    @cached_property
    def detail(self) -> Profile:
        """The report's profile of the selected kernels."""
        path = self.file.path
        whole = decode(path, Profile) if self.file.label else read_report(path)
        return select_kernels(whole, self.file.kernel)

    @property
    def label(self) -> str:
        """A short name for headings and axes, without the folder and the suffix."""
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

    `stamp` is the key of the rendering code.

    Raises:
        UsageError: a file cannot be read, or holds no kernel of the given name.
        DataError: a report is damaged.
    """
    reports = [_Report(file) for file in files]
    done = write_each(site, reports, stamp)
    if len(reports) == 2:
        folder = f"files/{page_part(reports[0].name)}..{page_part(reports[1].name)}"
        folder += f"-{digest(reports[0].id, reports[1].id)[:8]}"
        owner, path = f"{REPORTS}:{folder}", f"{folder}/index.html"
        key = digest(stamp, reports[0].content, reports[1].content)
        page = Page(path, key, owner, partial(_comparison, reports[0], reports[1], path))
        done = done.plus(write_owned(site, owner, key, lambda: iter((page,))))
    return done


def write_owned(site: Site, owner: str, key: str, pages: Callable[[], Iterator[Page]]) -> PageCount:
    """Write the pages of one owner, or count them if nothing has changed.

    They share one key: the launches that have a page are only known once the capture is read.
    """
    unchanged = site.fresh(owner, key)
    if unchanged:
        return PageCount(unchanged=unchanged)
    return site.write(pages(), owners=(owner,))


def write_each(site: Site, every: Sequence[PagedLaunches], stamp: str) -> PageCount:
    """Write the pages of report files or captures, each by itself."""
    done = PageCount()
    for one in every:
        key = digest(stamp, one.content)
        done = done.plus(write_owned(site, one.owner, key, partial(_pages, one, key)))
    return done


def _pages(one: PagedLaunches, key: str) -> Iterator[Page]:
    yield Page(one.home, key, one.owner, one.overview)
    for place, launch in enumerate(one.launches):
        path = f"{one.folder}/{launch_page(launch.index)}"
        yield Page(path, key, one.owner, partial(_launch, one, place, path))


def _launch(one: PagedLaunches, place: int, path: str) -> Rendered:
    from workbench.views.html.pages.version import launch_page_view, render_version

    assert one.detail is not None  # one of its launches is shown
    return render_version(path, launch_page_view(one.detail, place, one.name, one.home))


def kernels_of(old: Profile, new: Profile) -> str:
    """The kernels of two reports, those with the most time on both sides first."""
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
        notices=tuple(dict.fromkeys(x.message for x in (*old.detail.notices, *new.detail.notices))),
    )
    summary = summarize_files((step.old, step.new), head.name, path)
    page = render_diff(path, diff_view(step, head))
    return replace(page, summary=msgspec.to_builtins(summary))
