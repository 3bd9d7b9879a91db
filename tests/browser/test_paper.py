"""A4 and a phone: no chart is cropped, no column cut, none is one letter wide."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import kinds, wait_for_charts
from workbench.cli import main

pytestmark = pytest.mark.browser

Open = Callable[..., Any]

#: A4 within the margins of the stylesheet, in CSS pixels.
_SHEET = 703
#: What reaches beyond the sheet, by what it is.
_CUT = """(sheet) => [...document.querySelectorAll("svg.main-svg, td, th, .card, pre, b")]
    .filter((node) => node.checkVisibility() && !node.closest(".vh"))  // what is closed is not
    .filter((node) => node.getBoundingClientRect().right > sheet + 1)
    .map((node) => `${node.tagName} ${node.textContent.trim().slice(0, 40)}`)"""
#: Cells whose words stand below each other letter by letter.
_NARROW = """() => [...document.querySelectorAll("td, th")].filter((cell) => {
    const style = getComputedStyle(cell);
    const inner = cell.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const longest = Math.max(...cell.innerText.split(/\\s+/).map((word) => word.length));
    if (cell.closest(".vh") || cell.clientHeight < 4 * parseFloat(style.fontSize)) return false;
    return cell.getClientRects().length && longest > 2 && inner < 2 * parseFloat(style.fontSize);
  }).map((cell) => cell.innerText.slice(0, 40))"""


def _print(page: Any) -> None:
    page.set_viewport_size({"width": _SHEET, "height": 900})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.wait_for_timeout(300)


@pytest.mark.parametrize("kind", ["index", "study", "ladder", "version", "diff"])
def test_nothing_is_cut_on_a4(site: Path, open_page: Open, kind: str) -> None:
    page = open_page(kinds(site)[kind])
    wait_for_charts(page)
    for bars in page.locator(".rise").all():  # of a study: as many as conv2d has
        bars.evaluate("(node) => (node.innerHTML = node.innerHTML.repeat(5))")
    _print(page)
    assert page.evaluate(_CUT, _SHEET) == []
    assert page.evaluate("getComputedStyle(document.body).printColorAdjust") == "exact"  # bars


def test_a_real_step_fits_on_a4(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    wait_for_charts(page)
    _print(page)
    assert page.evaluate(_CUT, _SHEET) == []
    # A card may be longer than a page; on a page of its own it would leave the one before blank.
    style = "(card) => getComputedStyle(card).breakInside"
    assert page.locator(".card.hunk").first.evaluate(style) == "auto"
    assert page.locator(".chart").first.evaluate(style) == "avoid"
    assert page.locator("#counter-table tr.still:visible").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("names", "most"), [("sgemm", 4), ("sgemm/v10 sgemm/v15", 6)])
def test_the_longest_pages_take_few_sheets(
    repo: Path, tmp_path: Path, open_page: Open, names: str, most: int
) -> None:
    """The shipped ladder with most versions; and of its steps the largest page."""
    path = tmp_path / "page.html"
    words = ("report", "--single-file", "--out", str(path), "--problem", "n4096", *names.split())
    with contextlib.chdir(repo), contextlib.suppress(SystemExit):
        main([*words])
    page = open_page(path)
    sheets = re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))
    assert 1 < len(sheets) <= most


def test_programs_fit_on_a4_and_on_a_phone(programs: Path, open_page: Open) -> None:
    (home,) = programs.parent.glob("coalesced-*/index.html")
    for path in (programs / "index.html", home):
        page = open_page(path)
        wait_for_charts(page)
        _print(page)
        assert page.evaluate(_CUT, _SHEET) == [], path
        assert open_page(path, width=390).evaluate(_NARROW) == [], path


@pytest.mark.parametrize("kind", ["index", "diff"])
def test_no_column_of_a_phone_is_one_letter_wide(site: Path, open_page: Open, kind: str) -> None:
    assert open_page(kinds(site)[kind], width=390).evaluate(_NARROW) == []


def test_a_real_steps_columns_can_be_read_on_a_phone(compared: Path, open_page: Open) -> None:
    page = open_page(compared, width=390)
    page.locator("details.mc summary").first.click()
    page.locator(".mcode tbody tr").nth(5).wait_for()
    assert page.evaluate(_NARROW) == []
