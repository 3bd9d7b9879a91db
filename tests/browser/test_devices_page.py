"""The page that compares two devices, and the way to a version's page on another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.views import site_data
from workbench.ladder import find_ladders
from workbench.model import Device
from workbench.project import require_project
from workbench.store import Store
from workbench.views.html.build import build_devices_page, build_report

pytestmark = pytest.mark.browser

Open = Callable[..., Any]
H100 = Device(name="NVIDIA H100 80GB HBM3", slug="h100-80gb-hbm3", sms=132)


@pytest.fixture(scope="module")
def recorded_twice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of which one version is recorded on two devices."""
    root = site_data.plain(tmp_path_factory.mktemp("devices"))
    store = Store(root / "profiles")
    for entry in store.find(study="demo", version="v2"):
        store.save(msgspec.structs.replace(store.load(entry.path), device=H100))
    for timing in store.timings(study="demo", version="v2"):
        store.save_timing(msgspec.structs.replace(timing, device=H100))
    return root


@pytest.mark.parametrize(("width", "scheme"), [(1600, "light"), (390, "dark")])
def test_two_devices_on_one_page(
    recorded_twice: Path, tmp_path: Path, open_page: Open, width: int, scheme: str
) -> None:
    project = require_project(recorded_twice)
    ladders = {each.device: each for each in find_ladders(Store.of(project), project)}
    rungs = ladders[H100.slug].rungs["v2"], ladders["h200"].rungs["v2"]
    made = build_devices_page(tmp_path / "site", rungs, ("v2@h100", "v2@h200"), "ncu")
    page = open_page(made, width=width, scheme=scheme)
    assert page.title().startswith("v2@h100 → v2@h200: ")
    assert "NVIDIA H100 80GB HBM3 and NVIDIA H200" in page.inner_text("h1")
    assert "Two devices" in page.inner_text(".strip")
    heads = page.eval_on_selector_all(
        "#counter-table th[scope=col]", "heads => heads.map((head) => head.innerText)"
    )
    assert heads[2:4] == ["v2@h100", "v2@h200"]
    assert page.locator("#predicted, #advice, .refused").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_a_version_leads_to_its_page_on_another_device(
    recorded_twice: Path, open_page: Open
) -> None:
    out = recorded_twice / "reports"
    build_report(out, project=require_project(recorded_twice))
    page = open_page(out / "studies/demo/h200/n1024/v2.html", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.click(f"text={H100.name}")
    assert H100.slug in page.url and "v2.html" in page.url
    assert "this page" in page.inner_text("section[aria-labelledby=devices]")
    page.click("section[aria-labelledby=devices] a")
    assert "/h200/" in page.url
