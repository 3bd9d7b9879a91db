"""A phone of 360 pixels: nothing is cut, nothing jumps, and long ladders stay tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import kinds, wait_for_charts
from tests.fixtures import Once
from tests.views import large_data
from workbench.project import find_project
from workbench.views.html.build import build_report

pytestmark = pytest.mark.browser

Open = Callable[..., Any]

#: Regions that scroll sideways, as "label: its width < its content's".
_SCROLLING = """() => [...document.querySelectorAll(".scroll")]
    .filter((box) => box.clientWidth && box.scrollWidth > box.clientWidth)
    .map((box) => `${box.getAttribute("aria-label")}: ${box.clientWidth} < ${box.scrollWidth}`)"""


@pytest.fixture(scope="module")
def long_ladder(once: Once) -> Path:
    """The page of a ladder of fourteen versions and four libraries."""

    def fill(root: Path) -> None:
        large_data.ladder(root, problems=("a", "b"), instruction_count=40, lines=20)
        build_report(root / "reports", project=find_project(root))

    root = once("long", fill)
    (page,) = (root / "reports").glob("studies/*/*/b/index.html")
    return page


@pytest.mark.parametrize("kind", ["index", "glossary"])
def test_lists_are_read_without_scrolling_sideways(site: Path, open_page: Open, kind: str) -> None:
    page = open_page(kinds(site)[kind], width=360)
    assert page.evaluate(_SCROLLING) == []


def test_hot_lines_are_read_without_scrolling_sideways(reported: Path, open_page: Open) -> None:
    (path,) = reported.glob("files/*/launch2.html")
    page = open_page(path, width=360)
    cut = [said for said in page.evaluate(_SCROLLING) if said.startswith("Hot lines")]
    assert cut == []
    assert page.locator(".hot tbody tr").first.get_by_role("cell").count() == 2


def test_links_to_kernels_with_long_names_break(reported: Path, open_page: Open) -> None:
    (path,) = reported.glob("files/*/launch2.html")
    page = open_page(path, width=360)
    page.locator(".steps a").first.evaluate("(a) => (a.textContent = 'nvjet_sm90_tst_'.repeat(5))")
    assert page.evaluate("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("width", [360, 1280])
def test_a_chart_has_the_height_that_was_kept_for_it(
    long_ladder: Path, open_page: Open, width: int
) -> None:
    page = open_page(long_ladder, width=width)
    wait_for_charts(page)
    jumped = page.evaluate(
        """(phone) => [...document.querySelectorAll("[data-drawn]")].map((node) => {
            const style = node.style;
            const tall = phone && style.getPropertyValue("--tall");
            const kept = parseFloat(tall || style.getPropertyValue("--h"));
            return [node.id, kept, node.getBoundingClientRect().height];
        }).filter(([, kept, now]) => Math.abs(kept - now) > 0.5)""",
        width < 640,
    )
    assert jumped == []


def test_a_sweep_of_many_versions_leaves_room_for_its_lines(
    long_ladder: Path, open_page: Open
) -> None:
    page = open_page(long_ladder, width=360)
    wait_for_charts(page)
    grid = page.locator("#sweep [data-drawn] .gridlayer .xgrid").first
    assert grid.bounding_box()["height"] > 140


def test_a_waterfalls_names_and_numbers_are_whole(compared: Path, open_page: Open) -> None:
    page = open_page(compared, width=360)
    wait_for_charts(page)
    frame = page.locator("#time-waterfall").bounding_box()
    names = page.locator("#time-waterfall .ytick text")
    numbers = page.locator("#time-waterfall .annotation-text")
    assert names.count() == numbers.count() > 3
    for name, number in zip(names.all(), numbers.all(), strict=True):
        left, right = name.bounding_box(), number.bounding_box()
        assert "…" not in (name.text_content() or "")
        assert (
            left["x"] >= frame["x"] and right["x"] + right["width"] <= frame["x"] + frame["width"]
        )
        assert left["x"] + left["width"] <= right["x"]
        assert abs(left["y"] + left["height"] / 2 - right["y"] - right["height"] / 2) < 4


@pytest.mark.parametrize("width", [1280, 1600])
def test_key_counters_of_many_versions_need_no_scrolling(
    long_ladder: Path, open_page: Open, width: int
) -> None:
    page = open_page(long_ladder, width=width)
    table = page.locator("table.side")
    assert table.locator("tbody tr").count() == 14  # the libraries were not profiled
    assert [said for said in page.evaluate(_SCROLLING) if "side by side" in said] == []
