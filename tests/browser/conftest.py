"""A real Chromium without a network, and the pages it opens from the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import Once
from tests.views import site_data
from workbench.project import find_project
from workbench.session.site import SitePlan
from workbench.session.workspace import Workspace
from workbench.views.html.build import CapturedProgram, ReportFile, build_report

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures"
Open = Callable[..., Any]

#: Kinds of console messages that no page may cause; Plotly warns with a trace.
COMPLAINTS = ("error", "warning", "trace", "assert")


def _built(root: Path) -> None:
    build_report(root / "reports", project=find_project(root))


@pytest.fixture(scope="session")
def site(once: Once) -> Path:
    """The report of the hand-made project."""
    return once("site", lambda root: _built(site_data.plain(root))) / "reports"


@pytest.fixture(scope="session")
def chinese(once: Once) -> Path:
    """The report of the hand-made project in two languages: the folder of the Chinese pages."""

    def fill(root: Path) -> None:
        workspace = Workspace(site_data.plain(root))
        SitePlan(workspace, (), root / "reports", languages=("en", "zh")).build()

    return once("chinese", fill) / "reports/zh"


@pytest.fixture(scope="session")
def reported(once: Once, report: Callable[[str], Path]) -> Path:
    """The report of a real file: five kernels with source, instructions and rules."""
    path = report("ladder_full")
    return once("reported", lambda out: build_report(out, reports=(ReportFile(path),)))


@pytest.fixture(scope="session")
def compared(once: Once, report: Callable[[str], Path]) -> Path:
    """The page that compares two kernels of a real report: a padded tile against an unpadded."""
    path = report("ladder_full")
    both = (ReportFile(path, "sgemm_v2"), ReportFile(path, "sgemm_v3"))
    out = once("compared", lambda out: build_report(out, reports=both))
    (page,) = out.glob("files/*..*/index.html")
    return page


@pytest.fixture(scope="session")
def programs(once: Once) -> Path:
    """The folder of two captured programs, before and after; the kernel that changed has a page."""
    from workbench.programs.shown.captured import program_folder

    both = tuple(CapturedProgram(CAPTURES, name) for name in ("strided", "coalesced"))
    return once("programs", lambda out: build_report(out, programs=both)) / program_folder(*both)


@pytest.fixture(scope="session")
def hostile(once: Once) -> Path:
    """The report of a project whose every string is an attack."""
    return once("hostile", lambda root: _built(site_data.hostile(root))) / "reports"


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Open]:
    """``open_page(path, width=, scheme=, hash=)`` -> page; fails on any complaint or request.

    Complaints are console errors and warnings, uncaught exceptions, failed requests, and
    requests for anything but files.
    """
    contexts: list[Any] = []
    complaints: list[str] = []
    asked: list[str] = []

    def open_(
        path: Path, *, width: int = 1280, scheme: str = "light", anchor: str = "", wait: bool = True
    ) -> Any:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            offline=True,
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type in COMPLAINTS else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.extend(_failure(request)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri() + (f"#{anchor}" if anchor else ""))
        if wait:
            wait_for_charts(page)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def _failure(request: Any) -> list[str]:
    # Leaving a page aborts what it is still loading; that is no fault of the page.
    return [] if request.failure == "net::ERR_ABORTED" else [f"failed: {request.url}"]


def wait_for_charts(page: Any) -> None:
    """Until every chart that is not folded away or hidden has been drawn."""
    page.wait_for_function(
        """() => [...document.querySelectorAll("[data-figure]")]
            .filter((node) => !node.closest("details:not([open]), [hidden]"))
            .every((node) => node.dataset.drawn)""",
        timeout=20_000,
    )


def kinds(site: Path) -> dict[str, Path]:
    """One page of each kind of the hand-made project."""
    ladder = site / "studies/demo/h200/n1024"
    return {
        "index": site / "index.html",
        "glossary": site / "glossary.html",
        "study": site / "studies/demo/index.html",
        "ladder": ladder / "index.html",
        "version": ladder / "v2.html",
        "diff": ladder / "v0..v2.html",
    }
