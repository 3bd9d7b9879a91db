"""The index: what comes first, and what its bars stand for."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.factories import make_launch, make_metrics, make_timing
from workbench.model import InstructionTable
from workbench.views.html.pages.index import LadderSummary, index_view
from workbench.views.html.pages.version import interval
from workbench.views.html.parts.common import Link, plus_minus, range_of
from workbench.views.html.parts.keys import key_counters


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
        assert [other.summary.problem for other in studies[-1].others] == ["n512", "n8192"]


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
        ladder("sgemm", "b", place=1, fastest_speed=2.0),
        ladder("sgemm", "c", place=2, fastest_speed=0.5),
    ]
    (line,) = index_view(found, ()).studies
    assert [(other.width, other.par) for other in line.others] == [
        ("100.0", "50.0"),
        ("25.0", "50.0"),
    ]
    (line,) = index_view([found[0], found[2]], ()).studies
    assert [(other.width, other.par) for other in line.others] == [("50.0", "")]


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
    ids = [column.id for column in table.columns]
    assert "tensor_utilization" not in ids and ids[0] == "duration"
    registers = [cells[ids.index("registers")][0] for _, cells in table.rows]
    assert (registers[0].value, registers[0].missing) == ("29", "")
    assert registers[1].value == "—" and "not collected" in registers[1].missing
    units = {column.id: column.unit for column in table.columns}
    assert units["instructions"] == "" and units["shared_wavefronts"] == ""
    bare = make_launch(metrics={}, instructions=InstructionTable())
    assert key_counters([(Link("v0"), bare)]) is None
