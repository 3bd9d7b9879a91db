"""The diff page in a real browser: gutters of both sides, layout, waterfalls, table, links."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser

Open = Callable[..., Any]


def test_it_fits_every_width(compared: Path, open_page: Open) -> None:
    page = open_page(compared, width=360)
    for width in (360, 390, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_strip_and_the_time_waterfall_tell_the_step(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    assert "1.39× faster" in page.locator("h1 + .lede + .strip").inner_text()
    assert page.locator("#time-waterfall .bars .point").count() >= 5
    text = page.locator("#time-waterfall").inner_text()
    assert "MIO throttle" in text
    assert "±" in text
    assert page.locator("#time-waterfall .xerror").count() >= 5


def test_the_gutter_switches_on_both_sides(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    old, new = (page.locator(f"#{prefix}L{line} + .v").first for prefix, line in SIDES)
    assert "µs" in old.inner_text() and "µs" in new.inner_text()
    page.locator("input[name=pair-gutter][value=shared]").check()
    assert old.inner_text() == "33.6 M"
    assert old.locator("i.x").count() == 1  # what exceeds the ideal is hatched
    assert "1.05 M" in new.inner_text()
    assert new.locator("i.x").count() == 0
    assert old.locator("span").get_attribute("title") == "32.0× the ideal"
    page.locator("input[name=pair-gutter][value=time]").check()
    assert "µs" in old.inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("input[name=pair-gutter][value=shared]").is_checked()


#: The store to the padded array, on the old side and on the new one.
SIDES = (("old-", 28), ("", 44))


def test_side_by_side_and_unified(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    # The first hunk has half of a first screen: there one side is below the other.
    removed, added = page.locator("#old-L22"), page.locator("#L38")
    a, b = removed.bounding_box(), added.bounding_box()
    assert a["x"] == b["x"] and a["y"] < b["y"]
    page.locator("#whole-0 summary").click()
    removed, added = (page.locator(f"#whole-0 .mod .n >> nth={place}") for place in (0, 1))
    a, b = removed.bounding_box(), added.bounding_box()
    assert a["y"] == b["y"] and a["x"] < b["x"]
    page.get_by_role("radio", name="Unified").check()
    a, b = removed.bounding_box(), added.bounding_box()
    assert a["x"] == b["x"] and a["y"] < b["y"]
    # An unchanged line is told once, with both of its values.
    assert not page.locator("#old-L28").is_visible()
    page.locator("input[name=pair-gutter][value=shared]").check()
    assert page.locator("#L44 + .v").inner_text() == "33.6 M → 1.05 M"
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("document.querySelector('main').classList.contains('unified')")


def test_a_narrow_page_is_unified(compared: Path, open_page: Open) -> None:
    page = open_page(compared, width=390)
    a, b = page.locator("#old-L22").bounding_box(), page.locator("#L38").bounding_box()
    assert a["x"] == b["x"] and a["y"] < b["y"]
    # A window of code ends between two lines, and its button stands below it.
    ends = "(box) => Array.from(box.querySelectorAll('td'), (td) => td.offsetTop + td.offsetHeight)"
    box = page.locator(".hunk .codes.window:has(+ .heats)").first
    assert box.evaluate("(box) => box.scrollTop + box.clientHeight") in box.evaluate(ends)


def test_differences_and_symbols_are_marked(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    line = page.locator("#L38 ~ .c")
    assert line.locator("mark").first.inner_text().strip() == "+ 1"
    assert line.locator("b.s").inner_text() == "As"
    assert page.locator("#L44 ~ .c b.s").first.inner_text() == "As"


def test_a_hunk_says_what_it_is_linked_to(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    card = page.locator("article.hunk").first
    text = card.inner_text()
    assert "Linked by As" in text
    assert "−32.5 M" in text
    assert "all of the change" in text
    card.get_by_role("link", name="line 44").first.click()
    assert page.url.endswith("#L44")


def test_the_table_filters_and_sorts(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    rows = page.locator("#counter-table tbody tr:visible")
    moved = rows.count()
    assert 10 <= moved <= 60
    head = page.locator("#counter-table thead th").nth(4).bounding_box()
    cell = rows.first.locator("td").nth(3).bounding_box()
    assert (cell["x"], cell["width"]) == (head["x"], head["width"])
    page.get_by_label("All", exact=True).check()
    assert rows.count() > 100
    page.get_by_label("Find").fill("bank conflict")
    assert 2 <= rows.count() <= 6
    assert page.locator("#found").inner_text() == f"{rows.count()} shown"
    page.get_by_label("Find").fill("")
    page.get_by_label("Moved", exact=True).check()
    assert rows.count() == moved
    for turn, order in (("descending", -1), ("ascending", 1)):
        page.get_by_role("button", name="Relative").click()
        head = page.get_by_role("columnheader", name="Relative")
        assert head.get_attribute("aria-sort") == turn
        keys = [key for key in _keys(page) if key]
        numbers = [order * float(key) for key in keys]
        assert len(numbers) > 5 and numbers == sorted(numbers)
    page.get_by_role("button", name="Relative").click()
    assert head.get_attribute("aria-sort") is None
    assert "Duration" in rows.first.inner_text()


def _keys(page: Any) -> list[str]:
    cells: list[str] = page.locator("#counter-table tbody tr:visible td:nth-child(6)").evaluate_all(
        "(cells) => cells.map((cell) => cell.dataset.s)"
    )
    return cells


def test_links_to_a_hunk_a_line_and_a_counter_last(compared: Path, open_page: Open) -> None:
    page = open_page(compared, anchor="counter-tex_throttle")
    row = page.locator("#counter-tex_throttle")
    row.wait_for(state="visible")  # it did not move, and is shown all the same
    page = open_page(compared, anchor="old-L26")
    line = page.locator("#old-L26")
    line.wait_for(state="visible")  # it is in the folded whole source
    box = line.bounding_box()
    assert 0 < box["y"] < 900
    hunk = page.locator("article.hunk").first.get_attribute("id")
    page = open_page(compared, anchor=hunk)
    assert 0 <= page.locator(f"#{hunk}").bounding_box()["y"] < 300


def test_the_back_button_goes_back(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    page.get_by_role("link", name="Changes").click()
    page.get_by_role("link", name="All counters").first.click()
    assert page.url.endswith("#counters")
    page.go_back()
    assert page.url.endswith("#changes")


def test_a_step_leads_to_its_versions_and_back(site: Path, open_page: Open) -> None:
    folder = site / "studies/demo/h200/n1024"
    page = open_page(folder / "index.html")
    page.get_by_role("link", name="What changed into v2").click()
    assert page.url.endswith("v0..v2.html")
    page.locator(".toc a.page").last.click()
    assert page.url.endswith("v2.html")
    page.go_back()
    assert page.url.endswith("v0..v2.html")
    assert page.locator("h1").inner_text().startswith("v0 → v2")


def test_a_waterfall_step_leads_to_its_hunk(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    page.locator("#time-waterfall").scroll_into_view_if_needed()
    page.locator("#time-waterfall .bars .point path").nth(1).click(force=True)
    page.wait_for_function("() => location.hash.startsWith('#hunk-')")
    assert page.locator(page.evaluate("location.hash")).is_visible()


def test_it_reads_without_scripts(compared: Path, chromium: Any) -> None:
    context = chromium.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(compared.as_uri())
    assert "µs" in page.locator("#L44 + .v").inner_text()
    assert "−32.5 M" in page.locator("article.hunk").first.inner_text()
    assert page.locator("#counter-table tbody tr:visible").count() > 10
    context.close()


def test_a_hunk_leads_to_its_counter_and_the_counter_back(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    card = page.locator("article.hunk").first
    card.get_by_role("link", name="−32.5 M").click()
    assert page.url.endswith("#counter-shared_wavefronts")
    row = page.locator("#counter-shared_wavefronts")
    assert row.bounding_box()["y"] < 900
    by = row.locator("td.by")
    assert "hunk 1 −32.5 M" in by.inner_text()
    by.get_by_role("link", name="line 44").click()
    assert page.url.endswith("#L44") and page.locator("#L44").bounding_box()["y"] < 900
    row.get_by_role("link", name="hunk 1").click()
    assert page.url.endswith("#hunk-1") and card.bounding_box()["y"] < 300
    # Nothing ties a utilization to a line: it has no link, and no guess.
    assert page.locator("#counter-lsu_utilization td.by").inner_text() == ""
    assert page.locator("td.by a[href^='#hunk-']").count() >= 3


def test_a_counters_name_opens_its_meaning_in_place_by_keyboard(
    compared: Path, open_page: Open
) -> None:
    page = open_page(compared, anchor="counter-mio_throttle")
    name = page.locator("#counter-mio_throttle").get_by_role("link", name="MIO throttle").first
    name.focus()
    page.keyboard.press("Enter")
    card = page.get_by_role("dialog", name="Meaning of MIO throttle")
    assert len(card.locator("p").first.inner_text()) > 20
    place, box = name.bounding_box(), card.bounding_box()
    assert 0 <= box["y"] - place["y"] - place["height"] < 40 and box["x"] + box["width"] <= 1280
    assert name.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "In the glossary"
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.querySelector('.meaning')")
    assert page.evaluate("document.activeElement.textContent") == "MIO throttle"
    assert page.url.endswith("#counter-mio_throttle")
    # Every mention opens it, though the page holds its words once; the same name closes it.
    name = page.locator("article.hunk, .card").get_by_role("link", name="Time", exact=True).first
    name.click()
    page.get_by_role("dialog", name="Meaning of Time").wait_for()
    name.click()
    page.wait_for_function("() => !document.querySelector('.meaning')")
    page.locator("#counter-mio_throttle th a").first.click()
    page.get_by_role("dialog").get_by_role("link", name="In the glossary").click()
    page.wait_for_url("**/glossary.html#mio_throttle")


def test_the_machine_code_of_a_hunk_is_aligned_and_sorts_by_time(
    compared: Path, open_page: Open
) -> None:
    page = open_page(compared)
    card = page.locator("article.hunk").first
    card.locator("details.mc summary").focus()
    page.keyboard.press("Enter")
    rows = card.locator(".mcode tbody tr")
    rows.nth(5).wait_for()
    assert "instructions" in card.locator("details.mc summary").inner_text()
    assert card.locator(".mcode thead th").count() == 8
    old = rows.locator("td:nth-child(4) b").all_inner_texts()
    new = rows.locator("td:nth-child(8) b").all_inner_texts()
    assert "LDS" in {name.partition(".")[0] for name in old}
    assert len(set(old) & set(new)) > 5
    assert page.locator(".mcode", has_text="0x7f").count() == 0  # labels, no addresses
    assert page.locator(".mcode em", has_text=".L1:").count() >= 1
    card.get_by_role("button", name="time").nth(1).click()
    times = rows.evaluate_all("(rows) => rows.map((row) => Number(row.cells[6].dataset.s || 0))")
    assert times == sorted(times, reverse=True) and times[0] > 0
    rows.first.locator("td:nth-child(6) a").click()
    line = page.url.rpartition("#")[2]
    assert page.locator(f"#{line}").bounding_box()["y"] < 900


def test_a_lines_time_leads_to_its_hottest_instruction(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    card = page.locator("article.hunk").first
    cell = card.locator("#L44 + .v")
    cell.click()
    chosen = card.locator(".mcode tr.sel")
    chosen.first.wait_for()
    key = cell.get_attribute("data-n")
    assert set(chosen.evaluate_all("(rows) => rows.map((row) => row.dataset.n)")) == {key}
    seconds = "(row) => Number(row.cells[6].dataset.s || 0)"
    hottest = max(chosen.evaluate_all(f"(rows) => rows.map({seconds})"))
    seen = [row for row in chosen.all() if row.evaluate(seconds) == hottest]
    box = seen[0].bounding_box()
    assert 0 < box["y"] < 900


def test_who_made_a_warp_wait_is_told_as_the_proof(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    path = page.locator("article.hunk .path").first
    assert "waited for" in path.inner_text() and "µs" in path.inner_text()
    path.locator("a").first.click()
    assert "L" in page.url.rpartition("#")[2]


def test_an_arrow_of_the_memory_chart_lights_up_its_lines(compared: Path, open_page: Open) -> None:
    page = open_page(compared)
    arrow = page.locator('.memory a[href="#flow-shared_stores"]')
    arrow.focus()
    lit = page.evaluate('[...document.querySelectorAll(".lit")].map((node) => node.id)')
    assert {f"{prefix}L{line}" for prefix, line in SIDES} <= set(lit)
    page.keyboard.press("Enter")  # to its row, in what was folded
    row = page.locator("#flow-shared_stores")
    assert row.is_visible()
    assert "34.6 M wavefronts" in row.inner_text() and "2.10 M" in row.inner_text()
    # The row leads to the line, and to the counter.
    assert row.locator('a[href="#L44"]').count() == 1
    row.locator("th a").click()
    assert page.locator("#counter-shared_wavefronts").is_visible()


def test_the_memory_chart_fits_a_phone_and_paper(compared: Path, open_page: Open) -> None:
    page = open_page(compared, width=390)
    hops = [page.locator(".memory .hops > div").nth(n).bounding_box() for n in range(3)]
    assert hops[0]["y"] < hops[1]["y"] < hops[2]["y"]  # below each other
    assert all(hop["x"] + hop["width"] <= 390 for hop in hops)
    page.set_viewport_size({"width": 1280, "height": 900})
    tops = [page.locator(".memory .hops > div").nth(n).bounding_box()["x"] for n in range(3)]
    assert tops == sorted(tops) and tops[1] > tops[0]
    page.emulate_media(media="print")
    assert page.locator(".memory svg").first.bounding_box()["width"] > 200
