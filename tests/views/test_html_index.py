"""The index: what comes first, and what its bars stand for."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.factories import emulate_demo, make_project
from workbench.ladder import find_ladders
from workbench.store import Store
from workbench.views.html.build import index_pages
from workbench.views.html.page import Page, PageCount, Rendered
from workbench.views.html.pages.index import (
    LadderSummary,
    RungSummary,
    index_view,
    paged,
    study_views,
    summarize,
)
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
        assert studies[-1].summary.problem == "n1024" and studies[-1].problems == 3
        ((path, study),) = study_views(one for one in ladders if one["study"] == "sgemm")
        assert path == studies[-1].href == "studies/sgemm/index.html"
        assert [row.problem for row in study.rows] == ["n1024", "n512", "n8192"]


def test_the_projects_own_device_stands_before_others_of_a_study() -> None:
    found = [
        ladder("sgemm", "n512", device="NVIDIA A100"),
        ladder("sgemm", "n512", own_device=True),
        ladder("conv2", "small", device="NVIDIA A100"),
    ]
    told = [(line.summary.study, line.devices) for line in index_view(found, ()).studies]
    assert told == [("conv2", ("NVIDIA A100",)), ("sgemm", ("NVIDIA H200", "NVIDIA A100"))]


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


def test_a_study_is_a_matrix_of_problems_and_devices() -> None:
    best = {"fastest": "v3", "fastest_time": "117 µs", "fastest_share": "4.30×"}
    found = [
        ladder("sgemm", "n2", device="H200", own_device=True, work=8.0, place=1, **best),
        ladder("sgemm", "n1", device="H200", own_device=True, work=1.0),
        ladder("sgemm", "n2", device="H100", work=8.0, place=1),
    ]
    ((path, view),) = study_views(found)
    assert view.devices == ("H200", "H100")
    told = [(row.problem, [cell and cell.device for cell in row.cells]) for row in view.rows]
    assert told == [("n1", ["H200", None]), ("n2", ["H200", "H100"])]
    text = render("study.html", path, view=view)
    assert 'href="../../studies/sgemm/h200/n2/index.html">v3</a> 117 µs' in text
    assert "<b>4.30×</b>" in text


def test_libraries_stand_with_their_errors_beside_the_fastest_version() -> None:
    rungs = (
        RungSummary(id="v0", title="Naive", page="v0.html", seconds=4e-3, error=1e-6),
        RungSummary(id="v1", title="Fast", page="v1.html", step="v0..v1.html", seconds=1e-3,
                    error=2e-7),
        RungSummary(id="cublas", title="cuBLAS, float32", seconds=4.3e-3, error=1e-6, library=True),
        RungSummary(id="cublas_tf32", title="TF32", seconds=9e-4, error=3e-4, library=True),
    )  # fmt: skip
    one = ladder("sgemm", "n1", baseline="cublas", fastest="v1", fastest_speed=4.31, rungs=rungs)
    ((path, view),) = study_views([one])
    assert view.said == (
        "On n1 v1 is 4.31× as fast as cublas (cuBLAS, float32), at 0.200× its error; "
        "the fastest library, cublas_tf32, takes 900 µs."
    )
    assert [(line.rung.id, line.beside) for line in view.libraries] == [
        ("cublas", "v1: 4.31×, at 0.200× its error"),
        ("cublas_tf32", "v1: 0.900×, at 0.000667× its error"),
    ]
    # A bar leads to the step that made it, or to the version; the slowest is the highest.
    assert [bar.href.rpartition("/")[2] for bar in view.bars][:2] == ["v0.html", "v0..v1.html"]
    heights = [float(bar.height) for bar in view.bars]
    assert max(heights) == heights[2] == 100 and min(heights) == heights[3] == 10
    text = render("study.html", path, view=view)
    assert 'title="Fast"><span>1.00 ms</span>' in text and '<td class="num">1e−06' in text


def test_a_version_without_a_time_has_none_and_not_zero(tmp_path: Path) -> None:
    """An emulated ladder knows no time: no bar, no library line, no speed, no time of 0 s."""
    project = make_project(tmp_path)
    emulate_demo(tmp_path)
    (found,) = find_ladders(Store.of(project), project)
    told = summarize(found)
    assert told.rungs and {rung.seconds for rung in told.rungs} == {None}
    assert told.fastest_speed is None and told.fastest_time == ""
    ((path, view),) = study_views([msgspec.to_builtins(told)])
    assert (view.bars, view.libraries, view.said) == ([], [], "")
    assert "0.00 s" not in render("study.html", path, view=view)


def test_a_long_index_has_pages_and_every_study_is_on_one_of_them() -> None:
    found = [
        ladder(f"study{number}", problem, place=place)
        for number in range(40)
        for place, problem in enumerate(("n1", "n2", "n3"))
    ]
    whole = index_view(found, ())
    assert dict(paged(whole)) == {"index.html": whole}  # a short one is one page, without others
    pages = dict(paged(whole, 12))
    assert list(pages) == ["index.html", "index-2.html", "index-3.html", "index-4.html"]
    assert [line for page in pages.values() for line in page.studies] == whole.studies
    assert [page.here for page in pages.values()] == [1, 2, 3, 4]
    for path, page in pages.items():
        leaf = page.leaves[page.here - 1]
        assert (leaf.href, leaf.first) == (path, page.studies[0].summary.study)
        assert leaf.last == page.studies[-1].summary.study and page.chips == whole.chips


def test_a_study_of_more_problems_than_a_page_holds_has_several() -> None:
    found = [ladder("s", f"n{at}", place=at) for at in range(100)]
    pages = dict(study_views(found, 40))
    assert list(pages) == [f"studies/s/index{end}.html" for end in ("", "-2", "-3")]
    assert [row.problem for page in pages.values() for row in page.rows] == [
        f"n{at}" for at in range(100)
    ]
    second = pages["studies/s/index-2.html"]
    assert (second.leaves[1].first, second.leaves[1].last) == ("n40", "n79")


@pytest.mark.slow
def test_no_page_of_a_long_index_is_over_its_size_and_none_is_left_over(tmp_path: Path) -> None:
    """Ten thousand profiles of a thousand ladders, then ten: pages that nobody needs are gone."""
    words = {
        "fastest": "v10", "fastest_time": "1.87 ms", "fastest_share": "93.1%", "limit": "L1 96%",
        "limit_href": "studies/x/h200/n1/v10.html#now", "gain": "147×", "fastest_speed": 0.93,
    }  # fmt: skip
    summaries = [
        ladder(f"study{number:03}", f"n{place}", place=place, work=1.0 + place, **words)
        for number in range(250)
        for place in range(4)
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
    site = tmp_path / "site"
    paths = sorted((*site.glob("[gi]*.html"), *site.glob("studies/*/index*.html")))
    assert len(paths) == written > 200
    assert max(path.stat().st_size for path in paths) < 400_000
    text = "".join(path.read_text() for path in paths)
    assert all(f'href="studies/study{number:03}/index.html"' in text for number in range(250))
    assert 'aria-current="page"' in text
    assert write(1000) == PageCount(unchanged=written)
    # The index anew, the studies of which less is there, and none that is gone.
    assert write(10) == PageCount(written=2, unchanged=3, removed=written - 5)
    assert [path.name for path in (tmp_path / "site").glob("index*.html")] == ["index.html"]
