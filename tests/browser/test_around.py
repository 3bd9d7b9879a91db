"""The way around a site: search, switchers, keys, theme, copies, downloads, any two."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fixtures import Once
from tests.views import site_data
from workbench.language import using
from workbench.model import Device
from workbench.project import find_project
from workbench.store import Store
from workbench.views.html.build import build_report
from workbench.views.html.pages.glossary import glossary_view

pytestmark = pytest.mark.browser

Open = Callable[..., Any]
OTHER = Device(name="NVIDIA H100 80GB HBM3", slug="h100-80gb-hbm3")
STEP = "studies/demo/h200/n1024/v0..v2.html"


@pytest.fixture(scope="module")
def devices(once: Once) -> Path:
    """The report of the hand-made project, as it would be with all of it on two devices."""

    def fill(root: Path) -> None:
        store = Store(site_data.plain(root) / "profiles")
        for entry in store.find(study="demo"):
            store.save(msgspec.structs.replace(store.load(entry.path), device=OTHER))
        build_report(root / "reports", project=find_project(root))

    return once("devices", fill) / "reports"


def menu(page: Any) -> list[str]:
    page.locator(".menu a").first.wait_for()
    return [text.strip() for text in page.locator(".menu a").all_inner_texts()]


def test_a_search_finds_versions_counters_and_kernels_by_keys_alone(
    devices: Path, open_page: Open
) -> None:
    page = open_page(devices / STEP)
    page.keyboard.press("/")
    page.locator(".menu input").wait_for()
    page.keyboard.type("bank conf")
    assert "Shared bank conflicts (counter)" in menu(page)
    page.locator(".menu input").fill("kernel of demo")
    assert menu(page)[0].startswith("scale")
    page.locator(".menu input").fill("v0 v2 demo h200")
    assert menu(page)[0].startswith("demo v0 → v2 · NVIDIA H200")
    page.locator(".menu input").fill("v2_tile.cu:3")
    assert menu(page) == ["kernels/demo/v2_tile.cu:3"] * 2
    page.locator(".menu input").fill("demo/v2")
    page.keyboard.press("Enter")
    page.wait_for_url("**/h200/n1024/v2.html")


def test_the_same_page_of_another_device_is_two_clicks_away(devices: Path, open_page: Open) -> None:
    page = open_page(devices / STEP)
    page.get_by_role("button", name="Switch device").click()
    assert sorted(menu(page)) == ["NVIDIA H100 80GB HBM3", "NVIDIA H200"]
    assert page.locator(".menu a[aria-current]").inner_text() == "NVIDIA H200"
    page.get_by_role("link", name="NVIDIA H100 80GB HBM3").click()
    page.wait_for_url("**/h100-80gb-hbm3/n1024/v0..v2.html")
    page.get_by_role("button", name="Switch version").click()
    assert [line.split()[0] for line in menu(page)] == ["v0", "v2"]


def test_keys_go_from_section_to_section_and_say_themselves(devices: Path, open_page: Open) -> None:
    page = open_page(devices / STEP)
    page.keyboard.press("j")
    page.wait_for_function("() => scrollY > 50")
    page.keyboard.press("k")
    page.wait_for_function("() => scrollY < 50")
    page.keyboard.press("?")
    assert "next and previous section" in page.locator(".menu").inner_text()
    page.keyboard.press("Escape")
    page = open_page(devices / "studies/demo/h200/n1024/v0.html")
    page.keyboard.press("n")
    page.wait_for_url("**/v2.html")


def test_the_theme_is_switched_and_kept(devices: Path, open_page: Open) -> None:
    page = open_page(devices / STEP, scheme="light")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(251, 251, 250)"
    page.get_by_role("button", name="Theme: system").click()
    assert page.evaluate(ground) == "rgb(21, 23, 26)"
    page.reload()
    page.get_by_role("button", name="Theme: dark").wait_for()
    assert page.evaluate(ground) == "rgb(21, 23, 26)"


def test_tables_leave_as_they_stand(devices: Path, open_page: Open) -> None:
    page = open_page(devices / "studies/demo/h200/n1024/index.html")
    with page.expect_download() as waited:
        page.get_by_role("button", name="Data and link of this page").click()
        page.get_by_role("button", name="Tables as JSON").click()
    tables = json.loads(Path(waited.value.path()).read_text(encoding="utf-8"))["tables"]
    assert tables[0]["title"] == "Versions"
    assert [row[0] for row in tables[0]["rows"]] == ["Version", "v0", "v2", "cublas"]
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.keyboard.press("Escape")
    page.locator("table.ladder").hover()  # what copies a table shows itself over it
    page.get_by_role("button", name="Copy Markdown").first.click()
    page.get_by_role("button", name="Copied").wait_for()
    text = page.evaluate("() => navigator.clipboard.readText()")
    assert text.startswith("| Version |") and "\n| v0 |" in text


def test_any_two_lead_to_their_page_or_say_how_to_write_it(devices: Path, open_page: Open) -> None:
    page = open_page(devices / "studies/demo/h200/n1024/index.html")
    page.get_by_role("button", name="Compare any two").click()
    old, new = page.get_by_label("Old", exact=True), page.get_by_label("New", exact=True)
    assert menu(page) == ["v0 → v2"]
    old.select_option(label="v2 · NVIDIA H200 · n1024")
    new.select_option(label="v0 · NVIDIA H200 · n1024")
    assert "workbench report demo/v2..v0" in page.locator(".menu").inner_text()
    old.select_option(label="v2 · NVIDIA H200 · n1024")
    new.select_option(label="v2 · NVIDIA H100 80GB HBM3 · n1024")
    assert menu(page) == ["v2@h200 → v2@h100"]
    page.locator(".menu a").click()
    page.wait_for_url("**/h100-80gb-hbm3/n1024/v2@h200..v2@h100.html")


def test_a_page_leads_to_the_same_one_in_the_other_language(chinese: Path, open_page: Open) -> None:
    page = open_page(chinese / "studies/demo/h200/n1024/v2.html")
    assert page.get_by_role("button", name="搜索", exact=True).count() == 1
    page.get_by_role("link", name="English").click()
    page.wait_for_url("**/reports/studies/demo/h200/n1024/v2.html")
    page.get_by_role("link", name="中文").click()
    page.wait_for_url("**/reports/zh/studies/demo/h200/n1024/v2.html")
    page.locator(".nw a[href*='glossary.html#mio_throttle']").first.click()
    card = page.locator(".meaning")
    card.wait_for()
    with using("zh"):
        view = glossary_view()
    assert view.examples["mio_throttle"] in card.inner_text()


def test_code_leads_to_its_commit_and_line(tmp_path: Path, open_page: Open) -> None:
    root = site_data.plain(tmp_path)
    store = Store(root / "profiles")
    (text,) = {store.load(one.path).sources[0].text for one in store.find(study="demo")}
    (root / "kernels").mkdir(exist_ok=True)
    (root / "kernels/v0.cu").write_text(text or "")
    for words in ("init -q", "add -A", "commit -qm one", "update-ref refs/remotes/origin/it HEAD"):
        who = ("-c", "user.name=x", "-c", "user.email=x@y.invalid")
        subprocess.run(["git", *who, *words.split()], cwd=root, check=True)
    page = root / "reports/studies/demo/h200/n1024/v2.html"
    links = "[data-contents] p a[href^=https]"
    build_report(root / "reports", project=find_project(root))
    assert open_page(page).locator(links).count() == 0
    remote = ("remote", "add", "origin", "git@gitee.com:me/it.git")
    subprocess.run(["git", *remote], cwd=root, check=True)
    build_report(root / "reports", project=find_project(root))
    shown = open_page(page)
    shown.locator("[data-contents] tr[id] .c").nth(1).click()
    line, commit = (one.get_attribute("href") for one in shown.locator(links).all())
    hash_ = commit.rpartition("/")[2]
    assert commit == f"https://gitee.com/me/it/commit/{hash_}"
    assert line == f"https://gitee.com/me/it/blob/{hash_}/kernels/v0.cu#L2"
