"""Pages of report files: an overview and a page per launch each; for two, a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec
from msgspec.structs import replace

from workbench.disk.limits import REPORT, read_regular
from workbench.errors import UsageError
from workbench.model import Profile
from workbench.ncurep.files import stem
from workbench.units import listed
from workbench.views.html.page import (
    REPORTS,
    Page,
    PageCount,
    Rendered,
    ReportFile,
    digest,
    launch_page,
    page_part,
)
from workbench.views.html.parts.common import Badge, Head, Link
from workbench.views.html.site import Site

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
        self._profile: Profile | None = None

    @property
    def profile(self) -> Profile:
        """What the report holds of the kernels that are meant."""
        if self._profile is None:
            from workbench.ncurep.read import read_report, select_kernels
            from workbench.store.codec import decode

            whole = (
                decode(self.file.path, Profile) if self.file.label else read_report(self.file.path)
            )
            self._profile = select_kernels(whole, self.file.kernel)
        return self._profile

    @property
    def label(self) -> str:
        """A short name for headings and axes: without the folder and the suffix."""
        name = stem(self.file.title)
        return f"{name}::{self.file.kernel}" if self.file.kernel else name


def write_reports(site: Site, files: tuple[ReportFile, ...], stamp: str) -> PageCount:
    """Bring the pages of report files up to date.

    Args:
        site: The site.
        files: One report or several; two are compared, the first is the old one.
        stamp: Key of the program.

    Raises:
        UsageError: a file cannot be read, or holds no kernel of the name that is meant.
        DataError: a report is damaged.
    """
    reports = [_Report(file) for file in files]
    done = PageCount()
    for report in reports:
        owner, key = f"{REPORTS}:{report.folder}", digest(stamp, report.content)
        unchanged = site.fresh(owner, key)
        if unchanged:
            done = done.plus(PageCount(unchanged=unchanged))
        else:
            done = done.plus(site.write(_report_pages(report, key), owners=(owner,)))
    if len(reports) == 2:
        done = done.plus(_write_comparison(site, reports[0], reports[1], stamp))
    return done


def _report_pages(report: _Report, key: str) -> Iterator[Page]:
    owner, folder = f"{REPORTS}:{report.folder}", report.folder
    home = f"{folder}/index.html"
    yield Page(path=home, key=key, owner=owner, render=partial(_overview, report, home))
    launches = [launch for launch in report.profile.launches if launch.profiled]
    for place, launch in enumerate(launches):
        path = f"{folder}/{launch_page(launch.index)}"
        yield Page(
            path=path, key=key, owner=owner, render=partial(_launch, report, place, home, path)
        )


def _overview(report: _Report, home: str) -> Rendered:
    from workbench.views.html.pages.index import summarize_files
    from workbench.views.html.pages.report import report_view
    from workbench.views.html.render import render

    view = report_view(report.profile, report.name, launch_page)
    summary = summarize_files((report.profile,), report.name, home)
    html = render("report.html", home, view=view)
    return Rendered(html=html, summary=msgspec.to_builtins(summary))


def _launch(report: _Report, place: int, home: str, path: str) -> Rendered:
    from workbench.views.html.pages.report import launch_page_view
    from workbench.views.html.pages.version import render_version

    view = launch_page_view(report.profile, place, report.name, home, launch_page)
    return render_version(path, view)


# --- two reports -----------------------------------------------------------------------


def _write_comparison(site: Site, old: _Report, new: _Report, stamp: str) -> PageCount:
    names = f"{page_part(old.name)}..{page_part(new.name)}"
    folder = f"files/{names}-{digest(old.id, new.id)[:8]}"
    page = Page(
        path=f"{folder}/index.html",
        key=digest(stamp, old.content, new.content),
        owner=f"{REPORTS}:{folder}",
        render=partial(_comparison, old, new, f"{folder}/index.html"),
    )
    return site.write([page], owners=(page.owner,))


def kernels_of(old: Profile, new: Profile) -> str:
    """The kernels of two reports, those first that take most of the time of both."""
    from workbench.analysis.aggregate import value_of

    taken: dict[str, float] = {}
    for launch in (*old.launches, *new.launches):
        taken.setdefault(launch.kernel, 0.0)
        taken[launch.kernel] += value_of(launch, "duration") or 0.0
    order = sorted(taken, key=lambda name: -taken[name])
    sides = [{launch.kernel for launch in profile.launches} for profile in (old, new)]
    named = [listed([one for one in order if one in side], _NAMED) for side in sides]
    return " → ".join(dict.fromkeys(named))


def _comparison(old: _Report, new: _Report, path: str) -> Rendered:
    from workbench.analysis.story import Step
    from workbench.views.html.pages.diff import diff_view, render_diff
    from workbench.views.html.pages.index import summarize_files

    labels = (old.label, new.label)
    if labels[0] == labels[1]:
        labels = (f"{labels[0]} (old)", f"{labels[1]} (new)")
    step = Step(old.profile, new.profile, labels)
    head = Head(
        name=f"{labels[0]} → {labels[1]}",
        heading=kernels_of(old.profile, new.profile),
        crumbs=(Link("Overview", "index.html"), Link(f"{labels[0]} → {labels[1]}")),
        pages=tuple(
            Link(label, f"../../{report.folder}/index.html")
            for label, report in zip(labels, (old, new), strict=True)
        ),
        chips=tuple(
            Badge(text=notice.message, tone="warn")
            for notice in dict.fromkeys((*old.profile.notices, *new.profile.notices))
        ),
    )
    summary = summarize_files((step.old, step.new), head.name, path)
    page = render_diff(path, diff_view(step, head))
    return replace(page, summary=msgspec.to_builtins(summary))
