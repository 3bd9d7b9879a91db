"""axe-core on every kind of page, light and dark, wide and narrow: nothing at all is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import kinds

pytestmark = pytest.mark.browser

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def pages(
    site: Path, chinese: Path, reported: Path, compared: Path, programs: Path
) -> dict[str, Path]:
    """One page of each kind, with real data where there is some; three of them in Chinese."""
    (overview,) = reported.glob("files/*/index.html")
    (launch,) = reported.glob("files/*/launch2.html")
    (program,) = programs.parent.glob("coalesced-*/index.html")
    return {
        **kinds(site),
        "report": overview,
        "launch": launch,
        "compared": compared,
        "program": program,
        "programs": programs / "index.html",
        **{f"{kind} zh": page for kind, page in kinds(chinese).items()},
    }


KINDS = (
    *("index", "glossary", "study", "ladder", "version", "diff", "report", "launch", "compared"),
    *("program", "programs", "index zh", "version zh", "diff zh"),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_no_fault(
    pages: dict[str, Path], open_page: Open, kind: str, scheme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not here")
    page = open_page(pages[kind], scheme=scheme, width=width)
    # Without `preload` it would ask for the stylesheet by XMLHttpRequest, which a disk refuses.
    options = {"resultTypes": ["violations"], "preload": False}
    found = axe.Axe().run(page, options=options).response["violations"]
    said = [(v["id"], v["impact"], v["nodes"][0]["html"][:120]) for v in found]
    assert said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
