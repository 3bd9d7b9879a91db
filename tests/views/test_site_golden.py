"""The whole site of small projects, page by page: its words, its structure, and its data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests import goldens
from tests.factories import make_project
from tests.views import site_data
from tests.views.outline import outline, outline_of_data
from workbench.project import find_project
from workbench.views.html.build import CapturedProgram, ReportFile, build_report

REPORT = Path(__file__).resolve().parents[1] / "data" / "ncurep" / "launch_failed.ncu-rep.zst"
CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures"


def of_project(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def build(root: Path) -> None:
        make(root)
        build_report(root / "reports", project=find_project(root))

    return build


def of_report(root: Path) -> None:
    """The pages of a report file, without the part of their folder that says where it lay."""
    root.mkdir()
    file = root / "failed.ncu-rep"
    with REPORT.open("rb") as packed, file.open("wb") as plain:
        zstandard.ZstdDecompressor().copy_stream(packed, plain)
    build_report(root / "reports", reports=(ReportFile(file),))
    (folder,) = (root / "reports" / "files").iterdir()
    shown = folder.name[: -len("01234567")] + "<path>"
    for page in (root / "reports").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(folder.name, shown), encoding="utf-8")
    folder.rename(folder.with_name("failed"))


def of_programs(root: Path) -> None:
    """The pages of two programs, without the part of their folders that says where they lay."""
    from workbench.programs.shown.captured import program_folder

    reports = root / "reports"
    both = tuple(CapturedProgram(CAPTURES, name) for name in ("manual", "fused"))
    build_report(reports, programs=both)
    # One capture's folder, and that of the two, differ in this part: it is of their paths.
    paths = {program_folder(*asked).rpartition("-")[2] for asked in (both, *zip(both, strict=True))}
    for page in reports.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for path in paths:
            text = text.replace(path, "<path>")
        page.write_text(text, encoding="utf-8")
    for folder in (reports / "programs").iterdir():
        folder.rename(folder.with_name(folder.name.rpartition("-")[0]))


SITES = {
    "plain": of_project(site_data.plain),
    "stepped": of_project(make_project),
    "wide": of_project(site_data.wide),
    "files": of_report,
    "programs": of_programs,
}


@pytest.mark.parametrize("name", SITES)
def test_site(name: str, tmp_path: Path) -> None:
    SITES[name](tmp_path / "project")
    site = tmp_path / "project" / "reports"
    found = {page: outline(page.read_text(encoding="utf-8")) for page in site.rglob("*.html")}
    found |= {
        script: outline_of_data(script.read_text(encoding="utf-8"))
        for script in site.rglob("*.code.js")
    }
    names = {path.relative_to(site).with_suffix(".txt").as_posix(): path for path in found}
    assert len(names) == len(found) and {"index.txt", "glossary.txt"} < set(names)
    # One glossary for all: it tells the catalog, and nothing of the project.
    glossary = found[names.pop("glossary.txt")]
    goldens.same("site/glossary.txt", glossary)
    for relative, path in sorted(names.items()):
        goldens.same(f"site/{name}/{relative}", found[path])
    goldens.no_others(f"site/{name}", names)


@pytest.mark.parametrize(
    "page", ["<b><i></b></i>", "<b>", "</b>", "<!-- x -->", "<tr><td><b><td>", "<ul><li><b></ul>"]
)
def test_what_is_not_closed_as_it_was_opened_is_no_page(page: str) -> None:
    with pytest.raises(AssertionError):
        outline(page)
