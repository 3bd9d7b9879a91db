"""The report in a real browser: opened from the disk, with the network cut.

Screenshots of every kind of page are written to ``artifacts/screenshots/`` for whoever
changes a template or the stylesheet to look at.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.browser.conftest import kinds, wait_for_charts
from tests.factories import make_instructions, make_launch, make_profile, make_timing
from tests.views import site_data
from tests.views.site_data import INJECTION
from workbench.model import SourceFile
from workbench.project import find_project
from workbench.store import Store
from workbench.views.html.build import build_report

pytestmark = pytest.mark.browser

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def kernel_page(reported: Path) -> Path:
    """The page of ``sgemm_v2``, whose store to shared memory conflicts 32 ways."""
    (page,) = reported.glob("files/*/launch2.html")
    return page


@pytest.mark.parametrize("kind", ["index", "glossary", "ladder", "version", "diff"])
def test_pages_open_and_fit(site: Path, open_page: Open, kind: str) -> None:
    page = open_page(kinds(site)[kind], width=360)
    assert page.locator("h1").count() == 1
    for width in (360, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_real_report_fits_a_phone(kernel_page: Path, reported: Path, open_page: Open) -> None:
    (overview,) = reported.glob("files/*/index.html")
    for path in (kernel_page, overview):
        page = open_page(path, width=360)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_charts_are_drawn(site: Path, open_page: Open) -> None:
    page = open_page(kinds(site)["ladder"])
    assert page.locator("#speed .bars .point").count() == 3
    assert "v0" in page.locator("#speed").inner_text()
    assert page.locator(".stacked i").count() >= 4


def test_a_chart_answers_to_hovering(site: Path, open_page: Open) -> None:
    page = open_page(kinds(site)["ladder"])
    page.locator("#speed").scroll_into_view_if_needed()
    page.locator("#speed .bars .point").nth(2).hover(force=True)
    hover = page.locator("#speed .hoverlayer")
    hover.get_by_text("cublas").wait_for(timeout=5_000)
    assert "95%" in hover.text_content()


def test_a_narrow_chart_keeps_its_labels_inside(site: Path, open_page: Open) -> None:
    page = open_page(kinds(site)["ladder"], width=390)
    frame = page.locator("#speed").bounding_box()
    for text in page.locator("#speed .bartext").all():
        box = text.bounding_box()
        assert box["x"] + box["width"] <= frame["x"] + frame["width"]


def test_charts_do_not_move_the_page(kernel_page: Path, open_page: Open) -> None:
    page = open_page(kernel_page)
    shift = page.evaluate(
        """() => new Promise((done) => {
            let total = 0;
            new PerformanceObserver((list) => {
                for (const entry of list.getEntries()) total += entry.value;
            }).observe({ type: "layout-shift", buffered: true });
            setTimeout(() => done(total), 300);
        })"""
    )
    assert shift < 0.01


def test_the_gutter_switches_by_keyboard(kernel_page: Path, open_page: Open) -> None:
    page = open_page(kernel_page)
    row = page.locator("#L28")
    assert row.locator(".v").inner_text() == "16.1%"
    page.get_by_role("radio", name="Warp samples").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("radio", name="Shared wavefronts").is_checked()
    assert row.locator(".v").inner_text() == "33.6 M"
    assert row.locator(".w").inner_text() == "32.0× the ideal"
    assert row.locator(".v i.x").count() == 1
    assert page.locator("#k0f0 th.v").inner_text() == "Shared wavefronts"
    page.get_by_role("radio", name="Warp samples").check()
    assert row.locator(".v").inner_text() == "16.1%"


def test_a_link_to_a_line_shows_the_line(kernel_page: Path, open_page: Open) -> None:
    page = open_page(kernel_page, anchor="L71")
    row = page.locator("#L71")
    box, head = row.bounding_box(), page.locator("#k0f0 thead").bounding_box()
    assert head["y"] + head["height"] <= box["y"] < 900
    page.locator("#L28 .n a").click()
    assert page.url.endswith("#L28")
    page.go_back()
    assert page.url.endswith("#L71")


def test_a_link_to_a_folded_instruction_unfolds_it(kernel_page: Path, open_page: Open) -> None:
    page = open_page(kernel_page, anchor="k0-i60")
    page.locator("#k0-i60").wait_for(state="visible")
    page.locator("#k0-i60 td:nth-child(4) a").click()
    assert "#L" in page.url


def test_hovering_a_line_marks_its_instructions(kernel_page: Path, open_page: Open) -> None:
    page = open_page(kernel_page, anchor="k0-i0")
    page.locator("#L28 .c").hover()
    marked = page.locator(".sass tr.on")
    assert marked.count() > 1
    lines = {marked.nth(i).get_attribute("data-at") for i in range(marked.count())}
    assert lines == {page.locator("#L28").get_attribute("data-at")}


def test_all_instructions_are_read_when_they_are_looked_at(
    kernel_page: Path, open_page: Open
) -> None:
    page = open_page(kernel_page)
    rows = page.locator(".sass tbody tr:not(.gap)")
    first = rows.count()
    assert page.evaluate("window.workbenchCode") is None
    page.locator(".machine").scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelectorAll('.sass tbody tr').length > 100")
    assert first <= 60 < rows.count()
    hottest = page.locator(".sass tr:not(.cold)")
    assert hottest.filter(has=page.locator("td i")).count() >= 5
    page.get_by_role("radio", name="PTX").check()
    page.locator(".ptx tbody tr[data-at]").first.wait_for()
    assert "ld.shared" in page.locator(".ptx tbody").inner_text()


def test_a_long_kernel_is_a_window_around_its_hot_instructions(
    tmp_path: Path, open_page: Open
) -> None:
    """What lies between unfolds on a click, for a deep link and for a chosen line."""
    count, hot = 2_000, 1_200
    table = msgspec.structs.replace(
        make_instructions(smsp__pcsamp_sample_count={100: 9, hot: 90, hot + 1: 30}),
        address=tuple(range(0, 16 * count, 16)),
        text=("NOP",) * count,
        file=(0,) * 1_000 + (1,) * 1_000,
        line=(3,) * hot + (500,) + (40,) * (count - hot - 1),
    )
    site_data.study(tmp_path)
    text = "\n".join(f"line {number}" for number in range(1, 1_001))
    Store(tmp_path / "profiles").save(
        make_profile(
            launches=(make_launch(instructions=table),),
            sources=(SourceFile("demo.cuh", "x\n" * 9), SourceFile("demo.cu", text)),
        )
    )
    build_report(tmp_path / "reports", project=find_project(tmp_path))
    (path,) = (tmp_path / "reports").rglob("v2.html")
    page = open_page(path)
    page.locator(".machine").scroll_into_view_if_needed()
    page.locator(".sass .gap button").first.wait_for()
    assert page.locator(".sass tbody tr").count() < count / 2
    assert page.locator("table.src").first.get_attribute("id") == "k0f1"  # headers come last
    box, row = page.locator(".sass").locator("..").bounding_box(), page.locator(f"#k0-i{hot}")
    assert box["y"] <= row.bounding_box()["y"] <= box["y"] + box["height"]
    page.locator(".machine [data-next]").click()
    assert "sel" in row.get_attribute("class")
    page.evaluate("location.hash = '#k0-i700'")
    page.locator("#k0-i700").wait_for()
    page.locator(".machine").get_by_role("button", name="Hottest first").click()
    first = page.locator(".sass tbody tr").first
    assert first.get_attribute("id") == f"k0-i{hot}"
    page.locator("#k0f1 .gap button").first.click()
    page.locator("#k0f1 td.c", has_text="line 150").first.wait_for()
    page.keyboard.press("h")
    assert page.locator("#k0f1 tr.sel").count() == 1


def test_a_page_without_its_file_keeps_the_hottest_instructions(
    kernel_page: Path, tmp_path: Path, chromium: Any
) -> None:
    site = kernel_page.parents[2]
    shutil.copytree(site, tmp_path / "site")
    page_path = tmp_path / "site" / kernel_page.relative_to(site)
    page_path.with_name(kernel_page.stem + ".code.js").unlink()
    page = chromium.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(page_path.as_uri() + "#k0-i60")
    page.wait_for_timeout(500)
    assert 10 < page.locator(".sass tbody tr:not(.gap)").count() <= 60
    assert errors == []
    page.close()


def test_a_phone_shows_what_every_step_did(site: Path, open_page: Open) -> None:
    page = open_page(kinds(site)["ladder"], width=360)
    row = page.locator("tr#v2")
    assert row.locator(".what .strip").is_visible()
    assert "Identical machine code" in row.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_sweep_of_families_is_chosen_by_two_things(tmp_path: Path, open_page: Open) -> None:
    site_data.study(tmp_path)
    store = Store(tmp_path / "profiles")
    for n, stride in itertools.product((64, 128, 256), (1, 2)):
        shape = {"N": n, "U": stride}
        for version in ("v0", "v2"):
            store.save_timing(
                make_timing(
                    n * 1e-6, version=version, problem=f"n{n}_s{stride}", parameters=shape, flops=n
                )
            )
    build_report(tmp_path / "reports", project=find_project(tmp_path))
    page = open_page(tmp_path / "reports/studies/demo/h200/n64_s1/index.html")
    shown = page.locator("#sweep > :visible")
    assert shown.count() == 1 and page.locator("#sweep-rate").is_visible()
    page.get_by_role("radio", name="U = 2").check()
    assert shown.count() == 1 and page.locator("#sweep-rate1").is_visible()
    page.get_by_role("radio", name="Time").check()
    wait_for_charts(page)
    assert shown.count() == 1 and page.locator("#sweep-time1 .scatterlayer .trace").count() == 2


def test_the_filter_filters(site: Path, open_page: Open) -> None:
    page = open_page(kinds(site)["glossary"])
    page.get_by_label("Find").fill("bank conflict")
    shown = page.locator("#terms tbody tr:not(.group):visible")
    assert 2 <= shown.count() <= 8
    assert f"{shown.count()} shown" == page.get_by_role("status").inner_text()
    page.get_by_label("Find").fill("")
    assert shown.count() > 80


def test_every_control_can_be_reached_by_tab(kernel_page: Path, open_page: Open) -> None:
    page = open_page(kernel_page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    seen = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate(
                """() => {
                    const node = document.activeElement;
                    return node.name || node.getAttribute("aria-label") || node.tagName;
                }"""
            )
        )
    assert {"k0-gutter", "SUMMARY", "A"} <= seen


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_take_the_colours_of_the_page(site: Path, open_page: Open, scheme: str) -> None:
    page = open_page(kinds(site)["ladder"], scheme=scheme)
    wanted = page.evaluate(
        """() => {
            const probe = document.createElement("i");
            probe.style.color = "var(--ink)";
            document.body.append(probe);
            return getComputedStyle(probe).color;
        }"""
    )
    tick = page.locator("#speed .ytick text").first
    assert tick.evaluate("(node) => getComputedStyle(node).fill") == wanted


def test_changing_to_dark_repaints_the_charts(site: Path, open_page: Open) -> None:
    page = open_page(kinds(site)["ladder"])
    tick = page.locator("#speed .ytick text").first
    before = tick.evaluate("(node) => getComputedStyle(node).fill")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        """(before) => getComputedStyle(document.querySelector("#speed .ytick text")).fill
            !== before""",
        arg=before,
    )
    assert tick.evaluate("(node) => getComputedStyle(node).fill") != before


def test_a_dark_page_prints_light_charts(site: Path, open_page: Open) -> None:
    page = open_page(kinds(site)["ladder"], scheme="dark")
    page.emulate_media(media="print")
    ink = "rgb(28, 29, 31)"  # --ink of the light palette
    page.wait_for_function(
        """(ink) => getComputedStyle(document.querySelector("#speed .ytick text")).fill === ink""",
        arg=ink,
    )
    assert page.evaluate("getComputedStyle(document.body).color") == ink


def test_hostile_strings_are_shown_and_inert(hostile: Path, open_page: Open) -> None:
    paths = sorted(hostile.rglob("*.html"))
    assert len(paths) == 7  # index, glossary, study, ladder, two versions, the step between them
    shown = 0
    for path in paths:
        page = open_page(path)
        page.evaluate("document.querySelectorAll('details').forEach((node) => (node.open = true))")
        wait_for_charts(page)
        if page.locator(".machine").count():
            page.locator(".machine").scroll_into_view_if_needed()
            page.wait_for_function("() => window.workbenchCode")
        for radio in page.get_by_role("radio").all():
            radio.check()
        page.wait_for_timeout(100)
        assert page.evaluate("window.pwned") is None
        assert page.locator("img").count() == 0
        scripts = page.evaluate("[...document.scripts].filter((s) => !s.src && !s.type).length")
        assert scripts == 0
        shown += page.locator("main").inner_text().count(INJECTION[:30])
    assert shown > 10


def test_pages_read_without_scripts(kernel_page: Path, chromium: Any) -> None:
    context = chromium.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(kernel_page.as_uri())
    assert page.locator("#L28 .v").inner_text() == "16.1%"
    assert "MIO throttle" in page.locator("#k0-waits + .grid2").inner_text()
    context.close()


def test_printing_hides_controls_and_unrolls_windows(kernel_page: Path, open_page: Open) -> None:
    page = open_page(kernel_page)
    page.emulate_media(media="print")
    assert not page.locator(".toc").is_visible()
    assert page.locator(".gutters:visible").count() == 0
    heights = page.locator("#k0f0").evaluate(
        "(node) => [node.parentElement.clientHeight, node.clientHeight]"
    )
    assert heights[0] >= heights[1]


def test_screenshots(
    site: Path, kernel_page: Path, reported: Path, compared: Path, open_page: Open, repo: Path
) -> None:
    (overview,) = reported.glob("files/*/index.html")
    folder = repo / "artifacts/screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    real = {"launch": kernel_page, "report": overview, "compared": compared}
    for kind, path in {**kinds(site), **real}.items():
        page = open_page(path)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(250)  # charts follow width and scheme
                target = folder / f"{kind}-{width}-{scheme}.png"
                page.screenshot(path=target, full_page=kind != "glossary")
                assert target.stat().st_size > 5_000


def test_a_line_leads_to_the_hottest_copy_of_its_instructions(
    reported: Path, open_page: Open
) -> None:
    """An unrolled line has many copies; the first one may never have run."""
    page = open_page(next(reported.glob("files/*/launch4.html")))
    rows = page.locator(".sass tbody tr[data-at]")
    page.locator(".machine").scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelectorAll('.sass tbody tr[id]').length > 200")
    at = rows.evaluate_all(
        """(rows) => {
          const heat = (row) => parseFloat(row.cells[1].querySelector('i')?.style.width || 0);
          const first = new Map();
          for (const row of rows) {
            const found = first.get(row.dataset.at) || [heat(row), 0, 0];
            first.set(row.dataset.at, [found[0], Math.max(found[1], heat(row)), found[2] + 1]);
          }
          return [...first].sort((a, b) => (b[1][1] - b[1][0]) - (a[1][1] - a[1][0]))[0][0];
        }"""
    )
    page.locator(f"table.src:not(.sass) tr[data-at='{at}']").first.click()
    seen = page.locator(f".sass tr[data-at='{at}']").evaluate_all(
        """(rows) => {
          const heat = (row) => parseFloat(row.cells[1].querySelector('i')?.style.width || 0);
          const best = rows.reduce((a, b) => heat(b) > heat(a) ? b : a);
          const box = best.closest('.window').getBoundingClientRect();
          const row = best.getBoundingClientRect();
          return [rows.indexOf(best), row.top >= box.top && row.bottom <= box.bottom];
        }"""
    )
    assert seen[0] > 0 and seen[1]


def test_branches_lead_to_labels(reported: Path, open_page: Open) -> None:
    page = open_page(next(reported.glob("files/*/launch4.html")))
    page.locator(".machine").scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelectorAll('.sass tbody tr[id]').length > 200")
    branch = page.locator(".sass td:nth-child(5) a").first
    label = branch.inner_text()
    branch.click()
    target = page.locator(page.url[page.url.index("#") :])
    assert target.locator("em").inner_text().startswith(f"{label}:")
    assert page.locator(".sass", has_text="0x7f").count() == 0
