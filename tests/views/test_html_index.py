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
        assert [study.name for study in studies] == ["tile", "conv2", "conv10", "sgemm"]
        (shown,) = studies[-1].ladders
        assert shown.problem == "n1024"
        assert [other.summary.problem for other in studies[-1].others] == ["n512", "n8192"]


def test_the_first_problem_of_the_study_is_shown_where_several_are_profiled() -> None:
    found = [ladder("sgemm", "n4096", place=1), ladder("sgemm", "n1024", place=0)]
    (study,) = index_view(found, ()).studies
    assert [shown.problem for shown in study.ladders] == ["n1024"]
    more = [ladder("sgemm", "n4096", place=1, profiled=4), found[1]]
    (study,) = index_view(more, ()).studies
    assert [shown.problem for shown in study.ladders] == ["n4096"]


def test_a_bar_tells_twice_the_baselines_speed_from_once() -> None:
    found = [
        ladder("sgemm", "a"),
        ladder("sgemm", "b", place=1, fastest_speed=2.0),
        ladder("sgemm", "c", place=2, fastest_speed=0.5),
    ]
    (study,) = index_view(found, ()).studies
    assert [(other.width, other.par) for other in study.others] == [
        ("100.0", "50.0"),
        ("25.0", "50.0"),
    ]
    (study,) = index_view([found[0], found[2]], ()).studies
    assert [(other.width, other.par) for other in study.others] == [("50.0", "")]


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
