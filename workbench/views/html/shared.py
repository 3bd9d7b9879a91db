"""What the whole site shares: the key of the program, the assets, the index and the glossary."""

from __future__ import annotations

from functools import cache, lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from workbench import __version__
from workbench.views.html.page import Page, Rendered, digest
from workbench.views.html.site import Site

if TYPE_CHECKING:
    from workbench.views.html.pages.index import IndexView

#: Kinds of owners: what pages that come and go together are of.
LADDERS, REPORTS, PROGRAMS, SHARED = "ladder", "report", "program", "site"
_ASSETS = ("workbench.css", "workbench.js", "plotly-basic.min.js")


@lru_cache(maxsize=1)
def program_stamp() -> str:
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


def copy_assets(site: Site) -> None:
    """Put stylesheet and scripts into the site."""
    own = Path(__file__).parent / "assets"
    for name in _ASSETS:
        status = (own / name).stat()
        # Told apart by size and time: a run that changes nothing reads no megabyte.
        site.asset(name, f"{status.st_size} {status.st_mtime_ns}", (own / name).read_bytes)
    site.forget_assets(_ASSETS)


def index_pages(site: Site, stamp: str) -> list[Page]:
    """The index, from the summaries of all pages that the site has: one page, or several."""
    ladders = [kept.summary for kept in site.pages(LADDERS).values() if "study" in kept.summary]
    reports, programs = (
        [kept.summary for kept in site.pages(kind).values() if kept.summary]
        for kind in (REPORTS, PROGRAMS)
    )
    key = digest(stamp, msgspec.json.encode([ladders, reports, programs]))
    known = {
        path: kept.key for path, kept in site.pages(SHARED).items() if path.startswith("index")
    }

    @cache
    def views() -> dict[str, IndexView]:
        from workbench.views.html.pages.index import index_view, paged

        return dict(paged(index_view(ladders, reports, programs)))

    def render_index(path: str) -> Rendered:
        from workbench.views.html.render import render

        return Rendered(html=render("index.html", path, view=views()[path]))

    # How many pages there are is known without a look at the rows where nothing changed.
    paths = known if set(known.values()) == {key} else views()
    return [
        Page(path=path, key=key, owner=SHARED, render=partial(render_index, path), group="index")
        for path in paths
    ]


def glossary_page(stamp: str) -> Page:
    """What the counters mean."""

    def render_glossary() -> Rendered:
        from workbench.views.html.pages.glossary import glossary_view
        from workbench.views.html.render import render

        html = render("glossary.html", "glossary.html", groups=glossary_view())
        return Rendered(html=html)

    return Page(path="glossary.html", key=digest(stamp), owner=SHARED, render=render_glossary)
