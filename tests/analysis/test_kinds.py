"""Counters of one kind of instruction: loads stand where code loads, copies where they start."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import structs

from tests.factories import make_instructions, make_launch, make_profile
from workbench.analysis.attribution import Attribution, attribute
from workbench.analysis.cause.places import Origin, place_of
from workbench.model import Profile, SourceFile

TAGS = "memory_l1_tag_requests_global"
#: Line 3 loads and line 5 stores; both are edited, two lines apart.
OLD = """\
__global__ void scale(const float* in, float* out) {
  __shared__ float tile[32][32];
  tile[threadIdx.x][threadIdx.y] = in[threadIdx.y * 32 + threadIdx.x];
  __syncthreads();
  out[threadIdx.y * 32 + threadIdx.x] = 2.0f * tile[threadIdx.y][threadIdx.x];
}
"""
NEW = OLD.replace("= in[threadIdx.y", "= in[2 * threadIdx.y").replace("2.0f", "3.0f")


def profile(
    source: str, columns: Mapping[str, Mapping[int, int]], texts: Mapping[int, str] = {}
) -> Profile:
    table = make_instructions(**columns)
    text = tuple(texts.get(row, text) for row, text in enumerate(table.text))
    launch = make_launch(instructions=structs.replace(table, text=text))
    return make_profile(launches=(launch,), sources=(SourceFile(path="scale.cu", text=source),))


def place(counter: str, change: float, attribution: Attribution) -> Origin:
    return place_of(counter, "count", attribution, None, (), change=change)


def lines_of(attribution: Attribution, origin: Origin) -> list[int]:
    return [hunk.new[0] for hunk in attribution.hunks if hunk.id in origin.hunks]


@pytest.mark.parametrize(
    ("counter", "change", "line"),
    [("global_load_requests", -60, 3), ("global_store_requests", 400, 5)],
)
def test_loads_and_stores_of_one_line_counter_are_told_apart(
    counter: str, change: float, line: int
) -> None:
    """Tags rose by 340 in all, nearly all of it by stores: the loads became fewer nevertheless."""
    found = attribute(profile(OLD, {TAGS: {0: 100, 4: 100}}), profile(NEW, {TAGS: {0: 40, 4: 500}}))
    origin = place(counter, change, found)
    assert lines_of(found, origin) == [line] and origin.share == 1.0


def test_what_cannot_be_read_is_not_told_apart() -> None:
    ptx = {0: "ld.global.f32 %f1, [%rd1];", 4: "st.global.f32 [%rd2], %f1;"}
    found = attribute(
        profile(OLD, {TAGS: {0: 100, 4: 100}}, ptx), profile(NEW, {TAGS: {0: 40, 4: 500}}, ptx)
    )
    assert not found.kinds
    # The lines' counter rose where loads fell: it does not speak of loads.
    assert place("global_load_requests", -60, found) == Origin(link="elsewhere")
    assert lines_of(found, place("global_load_requests", 340, found)) == [5]


@pytest.mark.parametrize("change", [-1e6, 1e6])
def test_reads_of_the_copy_engine_stand_where_its_copies_start(change: float) -> None:
    """Reads that became more while copies became fewer are not the copies'."""
    bulk = {0: "UTMALDG.2D [UR8], [UR4]"}
    old, new = (
        profile(source, {"inst_executed": {0: copies, 4: stores}}, bulk)
        for source, copies, stores in ((OLD, 90, 100), (NEW, 30, 900))
    )
    found = attribute(old, new)
    origin = place("l2_read_sectors", change, found)
    if change < 0:
        assert lines_of(found, origin) == [3] and origin.share is None
    else:
        assert origin == Origin(link="elsewhere")
