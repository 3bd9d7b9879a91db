"""A real Chromium without a network, and the pages it opens from the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.views import site_data
from workbench.project import find_project
from workbench.session.asked import Workspace
from workbench.session.site import SitePlan
from workbench.views.html.build import CapturedProgram, ReportFile, build_report
from workbench.views.html.captured import program_folder

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures"
Open = Callable[..., Any]

#: Kinds of console messages that no page may cause; Plotly warns with a trace.
COMPLAINTS = ("error", "warning", "trace", "assert")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the hand-made project."""
    root = site_data.plain(tmp_path_factory.mktemp("site"))
    build_report(root / "reports", project=find_project(root))
    return root / "reports"


@pytest.fixture(scope="session")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the hand-made project in two languages: the folder of the Chinese pages."""
    root = site_data.plain(tmp_path_factory.mktemp("chinese"))
    SitePlan(Workspace(root), (), root / "reports", languages=("en", "zh")).build()
    return root / "reports/zh"


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory, report: Callable[[str], Path]) -> Path:
    """The report of a real file: five kernels with source, instructions and rules."""
    out = tmp_path_factory.mktemp("reported")
    build_report(out, reports=(ReportFile(report("ladder_full")),))
    return out


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory, report: Callable[[str], Path]) -> Path:
    """The page that compares two kernels of a real report: a padded tile against an unpadded."""
    out = tmp_path_factory.mktemp("compared")
    path = report("ladder_full")
    build_report(out, reports=(ReportFile(path, "sgemm_v2"), ReportFile(path, "sgemm_v3")))
    (page,) = out.glob("files/*..*/index.html")
    return page


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two captured programs, before and after; the kernel that changed has a page."""
    out = tmp_path_factory.mktemp("programs")
    both = tuple(CapturedProgram(CAPTURES, name) for name in ("strided", "coalesced"))
    build_report(out, programs=both)
    return out / program_folder(*both)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a project whose every string is an attack."""
    root = site_data.hostile(tmp_path_factory.mktemp("hostile"))
    build_report(root / "reports", project=find_project(root))
    return root / "reports"


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
        path: Path,
        *,
        width: int = 1280,
        scheme: str = "light",
        anchor: str = "",
        wait: bool = True,
    ) -> Any:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            offline=True,
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console",
            lambda m: complaints.append(m.text) if m.type in COMPLAINTS else None,
        )
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
