"""The index: what comes first, and what its bars stand for."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tests.factories import make_launch, make_metrics, make_timing
from workbench.model import InstructionTable
from workbench.views.html.build import index_pages
from workbench.views.html.charts.several import key_counters
from workbench.views.html.page import Link, Page, PageCount, Rendered
from workbench.views.html.pages.index import LadderSummary, index_view, paged
from workbench.views.html.parts import interval, plus_minus, range_of
from workbench.views.html.render import render
from workbench.views.html.site import Site


def ladder(study: str, problem: str, **fields: Any) -> dict[str, object]:
    """A summary as the manifest holds it."""
    folder = f"studies/{study}/h200/{problem}"
    told: dict[str, Any] = {
        "study": study,
        "title": study.upper(),
        "device": "NVIDIA H200",
        "problem": problem,
        "captured": "2026-11-20",
        "href": f"{folder}/index.html",
        "folder": folder,
        "profiled": 3,
        "work": 0.0,
        **fields,
    }
    made: dict[str, object] = msgspec.to_builtins(LadderSummary(**told))
    return made


def test_the_order_is_the_studys_and_not_the_manifests() -> None:
    found = [
        ladder("sgemm", "n8192", place=2, profiled=0),
        ladder("conv10", "small"),
        ladder("sgemm", "n512", place=1, profiled=0),
        ladder("conv2", "small"),
        ladder("sgemm", "n1024", place=0),
        ladder("tile", "c6", default=True),
    ]
    for ladders in (found, found[::-1]):
        studies = index_view(ladders, ()).studies
        assert [line.summary.study for line in studies] == ["tile", "conv2", "conv10", "sgemm"]
        assert [line.number for line in studies] == [1, 2, 3, 4]
        assert studies[-1].summary.problem == "n1024"
        assert [other.problem for other in studies[-1].others] == ["n512", "n8192"]


def test_the_projects_own_device_stands_before_others_of_a_study() -> None:
    found = [
        ladder("sgemm", "n512", device="NVIDIA A100"),
        ladder("sgemm", "n512", own_device=True),
        ladder("conv2", "small", device="NVIDIA A100"),
    ]
    lines = [line.summary for line in index_view(found, ()).studies]
    told = [(one.study, one.device) for one in lines]
    assert told == [("conv2", "NVIDIA A100"), ("sgemm", "NVIDIA H200"), ("sgemm", "NVIDIA A100")]


def test_the_problem_with_most_work_stands_for_a_study_where_as_much_is_profiled() -> None:
    small = ladder("sgemm", "n1024", place=0, work=2e9)
    large = ladder("sgemm", "n4096", place=1, work=1e11)
    huge = ladder("sgemm", "n16384", place=2, work=9e12, profiled=1)
    (line,) = index_view([small, large, huge], ()).studies
    assert line.summary.problem == "n4096"
    (line,) = index_view([small, ladder("sgemm", "n512", place=1)], ()).studies
    assert line.summary.problem == "n1024"
    unknown = [ladder("sgemm", name, place=place) for place, name in enumerate("ab")]
    (line,) = index_view(unknown, ()).studies
    assert line.summary.problem == "a"


def test_each_device_has_a_line_of_its_own() -> None:
    found = [ladder("sgemm", "n1", device="H100"), ladder("sgemm", "n1", device="H200")]
    assert [line.summary.device for line in index_view(found, ()).studies] == ["H100", "H200"]


def test_a_sparkline_goes_over_the_problems_in_the_order_of_their_work() -> None:
    """In a box of 120 by 26 with 3 left free: twice the library's speed is its top."""
    found = [
        ladder("sgemm", "b", work=4.0, fastest_speed=2.0, baseline="cublas"),
        ladder("sgemm", "a", work=1.0, fastest_speed=0.5, baseline="cublas"),
        ladder("sgemm", "c", work=9.0),
    ]
    (line,) = index_view(found, ()).studies
    assert line.spark is not None
    assert line.spark.path == "M3.0 18.0 L117.0 3.0"
    assert (line.spark.par, line.spark.last) == ("13.0", ("117.0", "3.0"))
    assert line.spark.words == "50.0% to 200% of cublas over 2 problems"
    (line,) = index_view(found[2:], ()).studies
    assert line.spark is None


def test_more_than_five_other_problems_are_folded() -> None:
    found = [ladder("sgemm", f"n{n}", place=n) for n in range(7)]
    (line,) = index_view(found[:6], ()).studies
    assert not line.folded
    (line,) = index_view(found, ()).studies
    assert line.folded


def test_a_bar_tells_twice_the_baselines_speed_from_once() -> None:
    found = [
        ladder("sgemm", "a"),
        ladder("sgemm", "b", place=1, fastest_speed=2.0, fastest_share="200%"),
        ladder("sgemm", "c", place=2, fastest_speed=0.5, fastest_share="50%"),
    ]
    shown = [
        re.findall(r'<i style="width:([^%]*)%"></i>(?:<u style="left:([^%]*)%">)?', page)
        for page in (
            render("index.html", "index.html", view=index_view(some, ()))
            for some in (found, [found[0], found[2]])
        )
    ]
    assert shown == [[("100.0", "50.0"), ("25.0", "50.0")], [("50.0", "")]]


def test_narrow_intervals_are_told_by_their_width() -> None:
    assert interval(make_timing(310e-6, width=0.0004)) == "±0.0400% (95%)"
    assert range_of(1.381, 1.382, 1.383) == "±0.0724%"
    assert range_of(1.37, 1.38, 1.39) == "1.37 – 1.39"
    assert plus_minus(1.0, 0.0) == "±0%"


def test_key_counters_grow_downwards() -> None:
    fewer = make_metrics(launch__registers_per_thread=None)
    named = [
        (Link("v0", "v0.html"), make_launch()),
        (Link("v1", "v1.html"), make_launch(metrics=fewer)),
    ]
    table = key_counters(named)
    assert table is not None
    assert [link.text for link, _ in table.rows] == ["v0", "v1"]
    ids = [column.id for column, _ in table.columns]
    assert "tensor_utilization" not in ids and ids[0] == "duration"
    registers = [cells[ids.index("registers")] for _, cells in table.rows]
    assert (registers[0].value, registers[0].missing) == ("29", "")
    assert registers[1].value == "—" and "not collected" in registers[1].missing
    units = {column.id: unit for column, unit in table.columns}
    assert units["instructions"] == "" and units["shared_wavefronts"] == ""
    bare = make_launch(metrics={}, instructions=InstructionTable())
    assert key_counters([(Link("v0"), bare)]) is None


def test_a_long_index_has_pages_and_every_study_is_on_one_of_them() -> None:
    found = [
        ladder(f"study{number}", problem, place=place)
        for number in range(40)
        for place, problem in enumerate(("n1", "n2", "n3"))
    ]
    whole = index_view(found, ())
    assert dict(paged(whole)) == {"index.html": whole}  # a short one is one page, without others
    pages = dict(paged(whole, 60))
    assert list(pages) == ["index.html", "index-2.html", "index-3.html", "index-4.html"]
    assert tuple(line for page in pages.values() for line in page.studies) == whole.studies
    assert [page.here for page in pages.values()] == [1, 2, 3, 4]
    for path, page in pages.items():
        leaf = page.leaves[page.here - 1]
        assert (leaf.href, leaf.first) == (path, page.studies[0].summary.study)
        assert leaf.last == page.studies[-1].summary.study and page.chips == whole.chips


def test_a_study_of_more_problems_than_a_page_holds_stands_on_several() -> None:
    whole = index_view([ladder("s", f"n{at}", place=at) for at in range(100)], ())
    pages = [view for _, view in paged(whole, 40)]
    assert [len(page.studies) for page in pages] == [1, 1, 1]
    others = [other for page in pages for other in page.studies[0].others]
    assert tuple(others) == whole.studies[0].others and len(others) == 99


def test_no_page_of_a_long_index_is_over_its_size_and_none_is_left_over(tmp_path: Path) -> None:
    """Ten thousand profiles of a thousand ladders, then ten: pages that nobody needs are gone."""
    words = {
        "fastest": "v10", "fastest_time": "1.87 ms", "fastest_share": "93.1%", "limit": "L1 96%",
        "limit_href": "studies/x/h200/n1/v10.html#now", "gain": "147×", "fastest_speed": 0.93,
    }  # fmt: skip
    summaries = [
        ladder(f"study{number:03}", f"n{place}", place=place, work=1.0 + place, **words)
        for number in range(200)
        for place in range(5)
    ]

    def write(count: int) -> PageCount:
        with Site(tmp_path / "site") as site:
            made = [
                Page(
                    path=f"{one['folder']}/index.html",
                    key="k",
                    owner="ladder:x",
                    render=partial(Rendered, html="", summary=one),
                )
                for one in summaries[:count]
            ]
            site.write(made, owners=("ladder:x",))
            return site.write(index_pages(site, "stamp"), owners=("site",))

    written = write(1000).written
    paths = sorted((tmp_path / "site").glob("index*.html"))
    assert len(paths) == written > 1
    assert max(path.stat().st_size for path in paths) < 400_000
    text = "".join(path.read_text() for path in paths)
    assert all(
        f'href="studies/study{number:03}/h200/n0/index.html"' in text for number in range(200)
    )
    assert 'aria-current="page"' in text
    assert write(1000) == PageCount(unchanged=written)
    assert write(10) == PageCount(written=1, removed=written - 1)
    assert [path.name for path in (tmp_path / "site").glob("index*.html")] == ["index.html"]
