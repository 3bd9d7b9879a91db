"""The HTML report: a static site from stored profiles, rebuilt only where it changed.

`build_report` is the whole of it. Pages are planned from paths and contents alone
(no profile is decoded, no template loaded for a page that is up to date), rendered
one after the other, and written atomically. A new kind of page is one more
generator of `Page`s, a view model and a template.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import msgspec

from workbench import __version__
from workbench.errors import MissingError, UsageError
from workbench.model import Profile, Record
from workbench.project import Project
from workbench.store import Store
from workbench.views.html_data import Ladder, Rung, find_ladders, study_key
from workbench.views.html_render import page_part
from workbench.views.html_site import Outcome, Page, Rendered, Site, digest

_ASSETS = ("workbench.css", "workbench.js")
_LADDER, _REPORT = "ladder", "report"


class ReportFile(Record, frozen=True):
    """A report captured elsewhere, and which of its kernels are meant (None: all)."""

    path: Path
    kernel: str | None = None


class Result(Record, frozen=True):
    """Where the site is and what was done."""

    index: Path
    outcome: Outcome


def build_report(
    out: Path,
    *,
    project: Project | None = None,
    studies: tuple[str, ...] = (),
    reports: tuple[ReportFile, ...] = (),
    force: bool = False,
) -> Result:
    """Write or update the site in `out`.

    Args:
        out: The site's folder; created, or one that an earlier run made.
        project: Where profiles and studies are; None for report files alone.
        studies: Only these studies' pages (others stay as they are); none: all,
            unless `reports` are given, which then are all that is asked for.
        reports: Report files; one that is unchanged is not read again.
        force: Render every page, changed or not.

    Raises:
        UsageError: `out` is not empty and not a report, or a study has no profile.
        DataError: a stored profile or a report file is damaged.
        MissingError: `out` cannot be written, or plotly is not installed.
    """
    stamp = _program_stamp()
    with Site(out, force=force) as site:
        _copy_assets(site)
        outcome = Outcome()
        if project is not None and (studies or not reports):
            outcome = _write_ladders(site, project, studies, stamp)
        for report in reports:
            outcome = outcome.plus(_write_report(site, report, stamp))
        shared = [_glossary_page(stamp), _index_page(site, stamp)]
        outcome = outcome.plus(site.write(shared, owners=("site",)))
    return Result(index=out / "index.html", outcome=outcome)


# --- what everything depends on ------------------------------------------------------


@lru_cache(maxsize=1)
def _program_stamp() -> str:
    """Key of the program itself: a page made by other code is out of date.

    From sizes and modification times; reading every module would cost more than the
    rest of a run that changes nothing.
    """
    root = Path(str(files("workbench")))
    parts: list[str | bytes] = [__version__]
    for path in sorted(root.rglob("*")):
        if path.suffix in {".py", ".html", ".css", ".js", ".toml"}:
            status = path.stat()
            parts.append(f"{path.relative_to(root)} {status.st_size} {status.st_mtime_ns}")
    return digest(*parts)


def _copy_assets(site: Site) -> None:
    own = Path(__file__).parent / "assets"
    for name in _ASSETS:
        data = (own / name).read_bytes()
        site.asset(name, digest(data), (own / name).read_bytes)
    plotly = _plotly_script()
    status = plotly.stat()
    # Five megabytes: told apart by size and time, not read on every run.
    site.asset(plotly.name, f"{status.st_size} {status.st_mtime_ns}", plotly.read_bytes)


def _plotly_script() -> Path:
    # find_spec and not an import: importing plotly takes longer than a whole run.
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise MissingError(
            "plotly, whose script draws the charts, is not installed",
            "Run `pip install plotly`; `workbench show` and `diff` work without it.",
        )
    return Path(found.origin).parent / "package_data" / "plotly.min.js"


# --- ladders and versions -------------------------------------------------------------


def _write_ladders(site: Site, project: Project, studies: tuple[str, ...], stamp: str) -> Outcome:
    store = Store(project.profiles)
    ladders = find_ladders(store, project, studies)
    recorded = {ladder.name for ladder in ladders}
    for name in studies:
        if name not in recorded:
            from workbench.nearest import did_you_mean

            known = [ladder.name for ladder in find_ladders(store, project)]
            raise UsageError(
                f"nothing is recorded of study `{name}` below {project.profiles}",
                did_you_mean(name, known, "recorded studies")
                if known
                else f"Record a profile first: `workbench profile --study {name}`.",
            )
    owned = {f"{_LADDER}:{name}" for name in recorded}
    if not studies:
        owned |= {kept.owner for kept in site.pages(_LADDER).values()}
    keys = {name: study_key(project, name) for name in recorded}

    def pages() -> Iterator[Page]:
        while ladders:
            # Popped, so that a ladder's profiles are let go when its pages are written.
            ladder = ladders.pop(0)
            yield from _ladder_pages(ladder, digest(stamp, keys[ladder.name]))

    return site.write(pages(), owners=owned)


def _ladder_pages(ladder: Ladder, base: str) -> Iterator[Page]:
    owner = f"{_LADDER}:{ladder.name}"
    yield Page(
        path=f"{ladder.folder}/index.html",
        key=digest(base, ladder.key(of_files=True)),
        owner=owner,
        render=partial(_render_ladder, ladder),
    )
    shape = ladder.key(of_files=False)
    for rung in ladder.rungs.values():
        for engine in rung.entries:
            yield Page(
                path=f"{ladder.folder}/{rung.page(engine)}",
                key=digest(base, shape, rung.id, engine, ladder.content(rung.id, engine)),
                owner=owner,
                render=partial(_render_version, rung, engine),
            )


def _render_ladder(ladder: Ladder) -> Rendered:
    from workbench.views.html_index import summarise
    from workbench.views.html_ladder import ladder_view
    from workbench.views.html_render import render

    view = ladder_view(ladder)
    html = render("ladder.html", f"{ladder.folder}/index.html", view=view)
    return Rendered(html=html, summary=msgspec.to_builtins(summarise(ladder, view)))


def _render_version(rung: Rung, engine: str) -> Rendered:
    from workbench.views.html_render import render
    from workbench.views.html_version import version_view

    speaking = rung.profile
    profile = speaking
    if speaking is None or speaking.engine != engine:
        profile = rung.ladder.store.load(rung.entries[engine].path)
    assert profile is not None
    path = f"{rung.ladder.folder}/{rung.page(engine)}"
    return Rendered(html=render("version.html", path, view=version_view(rung, profile)))


# --- report files ---------------------------------------------------------------------


def _write_report(site: Site, report: ReportFile, stamp: str) -> Outcome:
    from workbench.ncurep.read import read_report, select_kernels

    try:
        content = report.path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read {report.path}: {error.strerror}", "Check the path and its permissions."
        ) from error
    name = report.path.name + (f"::{report.kernel}" if report.kernel else "")
    # Two files of the same name from two folders are two reports; the path stays private.
    folder = f"files/{page_part(name)}-{digest(str(report.path.resolve()))[:8]}"
    owner = f"{_REPORT}:{folder}"
    key = digest(stamp, content)
    unchanged = site.fresh(owner, key)
    if unchanged:
        return Outcome(unchanged=unchanged)
    profile = select_kernels(read_report(report.path), report.kernel)
    return site.write(_report_pages(profile, name, folder, key), owners=(owner,))


def _report_pages(profile: Profile, name: str, folder: str, key: str) -> Iterator[Page]:
    owner = f"{_REPORT}:{folder}"

    def overview() -> Rendered:
        from workbench.views.html_index import summarise_report
        from workbench.views.html_render import render
        from workbench.views.html_report import report_view

        view = report_view(profile, name, _launch_page)
        summary = summarise_report(profile, name, f"{folder}/index.html")
        html = render("report.html", f"{folder}/index.html", view=view)
        return Rendered(html=html, summary=msgspec.to_builtins(summary))

    yield Page(path=f"{folder}/index.html", key=key, owner=owner, render=overview)
    launches = [launch for launch in profile.launches if launch.profiled]
    for place, launch in enumerate(launches):

        def page(place: int = place) -> Rendered:
            from workbench.views.html_render import render
            from workbench.views.html_report import launch_page_view

            view = launch_page_view(profile, place, name, f"{folder}/index.html", _launch_page)
            return Rendered(html=render("version.html", f"{folder}/x.html", view=view))

        yield Page(path=f"{folder}/{_launch_page(launch.index)}", key=key, owner=owner, render=page)


def _launch_page(index: int) -> str:
    return f"launch{index}.html"


# --- pages of the site ----------------------------------------------------------------


def _index_page(site: Site, stamp: str) -> Page:
    ladders = [kept.summary for kept in site.pages(_LADDER).values() if kept.summary]
    reports = [kept.summary for kept in site.pages(_REPORT).values() if kept.summary]

    def render_index() -> Rendered:
        from workbench.views.html_index import index_view
        from workbench.views.html_render import render

        view = index_view(ladders, reports)
        return Rendered(html=render("index.html", "index.html", view=view))

    key = digest(stamp, msgspec.json.encode([ladders, reports]))
    return Page(path="index.html", key=key, owner="site", render=render_index)


def _glossary_page(stamp: str) -> Page:
    def render_glossary() -> Rendered:
        from workbench.views.html_glossary import glossary_view
        from workbench.views.html_render import render

        html = render("glossary.html", "glossary.html", groups=glossary_view())
        return Rendered(html=html)

    return Page(path="glossary.html", key=digest(stamp), owner="site", render=render_glossary)
