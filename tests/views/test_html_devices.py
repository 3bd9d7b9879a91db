"""The table of a version's page that says what the same version does on other devices."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.views.site_data import plain
from workbench.errors import UsageError
from workbench.model import Device, Estimate
from workbench.project import require_project
from workbench.store import Store
from workbench.views.html.build import BuiltReport, build_report

H100 = Device(name="NVIDIA H100 80GB HBM3", slug="h100-80gb-hbm3")
LADDER = "studies/demo/{}/n1024"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return plain(tmp_path)


def built(root: Path) -> BuiltReport:
    return build_report(root / "reports", project=require_project(root))


def page(root: Path, device: str, name: str) -> str:
    return (root / "reports" / LADDER.format(device) / name).read_text(encoding="utf-8")


def record(root: Path, version: str, factor: float, source: str | None = None) -> None:
    """Store a version as it would be on another device, in `factor` times the time."""
    store = Store(root / "profiles")
    (entry,) = store.find(study="demo", version=version, problem="n1024", engine="ncu")[:1]
    profile = msgspec.structs.replace(store.load(entry.path), device=H100)
    if source is not None:
        profile = msgspec.structs.replace(profile, source_hash=source)
    store.save(profile)
    for timing in store.timings(study="demo", version=version, problem="n1024", device="h200"):
        time = timing.time
        scaled = Estimate(time.value * factor, time.low * factor, time.high * factor, time.n)
        store.save_timing(msgspec.structs.replace(timing, device=H100, time=scaled))


def test_of_one_device_there_is_no_table(project: Path) -> None:
    built(project)
    assert 'id="devices"' not in page(project, "h200", "v2.html")


def test_each_devices_page_leads_to_the_others(project: Path) -> None:
    record(project, "v2", 2.0)
    built(project)
    here, there = page(project, "h200", "v2.html"), page(project, H100.slug, "v2.html")
    assert f'<a href="../../{H100.slug}/n1024/v2.html">{H100.name}</a>' in here
    assert "2.00× slower" in here and "2.00× faster" in there
    assert '<a href="../../h200/n1024/v2.html">NVIDIA H200</a>' in there
    command = "workbench report --single-file demo/v2:n1024@{} demo/v2:n1024@{}"
    assert command.format(H100.slug, "h200") in here
    assert command.format("h200", H100.slug) in there
    assert 'id="devices"' not in page(project, "h200", "v0.html")


def test_another_state_of_the_source_is_told(project: Path) -> None:
    record(project, "v2", 1.0, source="0" * 64)
    built(project)
    assert "from a different source" in page(project, "h200", "v2.html")
    assert "equally fast" in page(project, "h200", "v2.html")


def test_what_is_recorded_elsewhere_renews_the_page_and_no_other(project: Path) -> None:
    built(project)
    record(project, "v2", 2.0)
    built(project)
    folder = project / "reports" / LADDER.format("h200")
    old = {path: path.stat().st_mtime_ns for path in folder.glob("*.html")}
    assert "2.00× slower" in (folder / "v2.html").read_text(encoding="utf-8")
    record(project, "v2", 3.0)
    built(project)
    assert "3.00× slower" in (folder / "v2.html").read_text(encoding="utf-8")
    new = {path: path.stat().st_mtime_ns for path in folder.glob("*.html")}
    assert [path.name for path in old if old[path] != new[path]] == ["v2.html"]


def test_two_devices_have_a_page_that_compares_them_and_one_on_request_is_kept(
    project: Path,
) -> None:
    record(project, "v0", 2.0)
    record(project, "v2", 2.0)
    site = project / "reports"
    built(project)
    # The last version that both have stands there unasked, and the ladder leads to it.
    assert [path.name for path in site.rglob("*@*.html")] == ["v2@h200..v2@h100.html"]
    assert 'href="v2@h200..v2@h100.html">v2@h200 → v2@h100</a>' in page(
        project, H100.slug, "index.html"
    )
    assert built(project).pages.written == 0
    asked = build_report(
        site, project=require_project(project), studies=("demo/v0@h200..v2@h100",)
    ).asked
    name = "v0@h200..v2@h100.html"
    assert asked == (site / LADDER.format(H100.slug) / name,) and asked[0].is_file()
    assert built(project).asked == () and asked[0].is_file()
    assert built(project).pages.written == 0
    text = asked[0].read_text(encoding="utf-8")
    assert "v0@h200 → v2@h100" in text and "on NVIDIA H200 and NVIDIA H100 80GB HBM3" in text
    assert f"studies/demo/{H100.slug}/n1024" in (site / "site.js").read_text(encoding="utf-8")
    with pytest.raises(UsageError, match="no profile of demo/v9 is recorded"):
        build_report(site, project=require_project(project), studies=("demo/v9@h200..v2@h100",))
