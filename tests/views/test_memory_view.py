"""The memory chart as shapes and rows: widths are amounts, the unknown is dashed, all is linked."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.factories import make_launch, make_metrics, make_profile, make_timing
from tests.views import site_data
from workbench.analysis.limits.memory import MemoryChart, memory
from workbench.model import LineKey, Profile
from workbench.project import find_project
from workbench.store import Store
from workbench.views.html.build import build_report
from workbench.views.html.charts.drawn import Drawing, memory_view
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


def view(*sides: MemoryChart) -> View:
    return memory_view(sides, ("v2", "v3")[: len(sides)], anchor)


def shape(sides: tuple[MemoryChart, ...], name: str) -> View:
    every: list[View] = [s for hop in Drawing(sides, anchor).hops() for s in hop.shapes]
    return next(each for each in every if each.href == f"#flow-{name}")


def thickness(path: str) -> float:
    """The height of an arrow's tail: its first and last corner."""
    corners = [tuple(map(float, pair.split())) for pair in re.findall(r"[ML]([^MLz]+)", path)]
    return abs(corners[0][1] - corners[-1][1])


def test_arrows_are_as_wide_as_their_bytes_on_one_scale_for_both_sides() -> None:
    old, new = chart(), chart(**{"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 2048.0})
    _, (before, tone), (after, now) = shape((old, new), "global_loads").bands
    assert thickness(before) == pytest.approx(2 * thickness(after), abs=0.11)
    assert (tone.split()[-1], "was" in now) == ("was", False)
    _, (stores, _), _ = shape((old, new), "global_stores").bands
    assert thickness(stores) == pytest.approx(thickness(before) / 4, abs=0.11)


def test_loads_point_to_the_sm_and_stores_away_from_it() -> None:
    sides = (chart(),)
    for name, towards in (("global_loads", -1), ("global_stores", 1), ("dram_reads", -1)):
        path = shape(sides, name).bands[1][0]
        xs = [float(x) for x in re.findall(r"[ML]([\d.]+) ", path)]
        assert (xs[3] - xs[0]) * towards > 0, name  # the head against the tail


def test_what_is_unknown_is_dashed_and_what_is_zero_is_a_line() -> None:
    sides = (chart(),)
    assert shape(sides, "dram_writes").bands[1][1] == "unknown"
    assert shape(sides, "dram_writes").words[2][2] == "unknown"
    assert shape(sides, "l2_writes").bands[1][1] == "zero"
    assert shape(sides, "l2_writes").words[2][2] == "0 B"


def test_colours_are_quarters_of_peak() -> None:
    name = "l1tex__m_xbar2l1tex_read_sectors.sum.pct_of_peak_sustained_elapsed"
    for percent, tone in ((10.0, "p0"), (30.0, "p1"), (74.0, "p2"), (100.0, "p3")):
        assert shape((chart(**{name: percent}),), "l2_reads").bands[1][1] == tone
    assert shape((chart(),), "l2_reads").bands[1][1] == "p"  # amount known, share not


def test_rows_lead_to_lines_and_counters() -> None:
    rows = {row.flow.id: row for row in view(chart(), chart()).rows}
    assert [link.href for link in rows["global_loads"].lines] == ["#L3"]
    assert set(rows["global_loads"].lit.split()) == {"old-L3", "L3"}
    assert rows["global_loads"].counter == "#global_load_sectors"
    assert rows["dram_writes"].flow.why.startswith("not collected")
    assert rows["dram_writes"].flow.amounts == ("—", "—")


def test_a_shape_says_in_words_what_it_shows() -> None:
    old, new = chart(), chart(**{"dram__bytes_read.sum": 32768.0})
    said = shape((old, new), "dram_reads").label
    assert said.startswith("Device memory read, Device memory → L2: 65.5 kB → 32.8 kB; of peak")


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
