"""The memory chart as shapes and rows: widths are amounts, the unknown is dashed, all is linked."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from msgspec.structs import replace

from tests.factories import make_launch, make_metrics, make_profile, make_timing
from tests.views import site_data
from workbench.analysis.limits.memory import MemoryChart, memory
from workbench.model import LineKey, Profile
from workbench.project import find_project
from workbench.store import Store
from workbench.views.html.build import build_report
from workbench.views.html.charts.drawn import Drawing
from workbench.views.html.page import View

#: Counters of all levels; names as in the recorded profiles.
CHIP = {
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 4096.0,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": 1024.0,
    "lts__t_sectors_srcunit_tex_op_read.sum": 2048.0,
    "lts__t_sectors_srcunit_tex_op_write.sum": 0.0,
    "dram__bytes_read.sum": 65536.0,
}


def chart(**changes: float | None) -> MemoryChart:
    found = memory(profile(**changes))
    assert found is not None
    return found


def profile(**changes: float | None) -> Profile:
    return make_profile(launches=(make_launch(metrics=make_metrics(**(CHIP | changes))),))


def anchor(side: int, key: LineKey) -> str:
    return f"#{'old-' if side == 0 else ''}L{key[1]}"


def shape(sides: tuple[MemoryChart, ...], name: str) -> View:
    every: list[View] = [s for hop in Drawing(sides, anchor).hops() for s in hop.shapes]
    return next(each for each in every if each.href == f"#flow-{name}")


def test_what_is_unknown_is_dashed_and_what_is_zero_is_a_line() -> None:
    sides = (chart(),)
    assert shape(sides, "dram_writes").bands[1][1] == "unknown"
    assert shape(sides, "dram_writes").words[2][2] == "unknown"
    assert shape(sides, "l2_writes").bands[1][1] == "zero"
    assert shape(sides, "l2_writes").words[2][2] == "0 B"


class Page(HTMLParser):
    """Ids, links and what lights up, of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.lit: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        table = dict(attrs)
        self.ids.add(table.get("id") or "")
        if tag == "a" and (table.get("href") or "").startswith("#"):
            self.links.add((table.get("href") or "")[1:])
        self.lit.update((table.get("data-lines") or "").split())


def test_every_arrow_of_a_page_leads_somewhere(tmp_path: Path) -> None:
    site_data.study(tmp_path)
    store = Store(tmp_path / "profiles")
    for version in ("v2", "v3"):
        one = profile()
        several = (*one.launches, replace(one.launches[0], index=1, kernel="second"))
        launches = several if version == "v3" else one.launches
        store.save(replace(one, version=version, launches=launches))
        store.save_timing(make_timing(1e-3, version=version))
    build_report(tmp_path / "reports", project=find_project(tmp_path))
    folder = tmp_path / "reports/studies/demo/h200/n1024"
    for name in ("v2", "v3", "v2..v3"):
        page = Page((folder / f"{name}.html").read_text(encoding="utf-8"))
        flows = {link for link in page.links if "flow-" in link}
        assert len(flows) >= 8 * (2 if name == "v3" else 1)
        assert page.links <= page.ids
        assert page.lit and page.lit <= page.ids
