"""Who decides how often the lines of a count run: a size that launches are written with, a call."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.factories import make_instructions, make_launch, make_metrics, make_profile
from workbench.analysis.attribution import attribute
from workbench.analysis.cause.places import dealt_in, place_of
from workbench.analysis.compare import compare
from workbench.analysis.source.hunks import Size
from workbench.model import Profile, SourceFile

KERNEL = """\
/* ---
[[launch]]
grid  = ["cdiv(N, {tile})"]
block = [128]
--- */
constexpr int TILE = {tile};
constexpr int DEPTH = {depth};

__device__ float twice(float x) {{
  return x * {factor};
}}

__global__ void scale(const float* in, float* out) {{
  for (int i = 0; i < TILE; ++i) out[i] = {call};
}}
"""
#: The lines of what the function does, and of its call.
FUNCTION, CALL = 10, 14


def side(
    *,
    tile: int = 64,
    depth: int = 8,
    factor: str = "2.0f",
    call: str = "twice(in[i])",
    count: int = 100,
    blocks: int = 8,
) -> Profile:
    """A profile all of whose instructions are those of the function."""
    text = KERNEL.format(tile=tile, depth=depth, factor=factor, call=call)
    table = structs.replace(make_instructions(inst_executed={0: count}), line=(FUNCTION,) * 5)
    metrics = {
        "launch__grid_size": blocks,
        "launch__block_size": 128,
        "smsp__inst_executed.sum": count,
    }
    launch = make_launch(
        metrics=make_metrics(**metrics), instructions=table, grid=(blocks, 1, 1), block=(128, 1, 1)
    )
    return make_profile(launches=(launch,), sources=(SourceFile(path="scale.cu", text=text),))


@pytest.mark.parametrize(
    ("new", "sizes"),
    [
        # Half of the tile, twice the blocks, each with less.
        (side(tile=32, blocks=16, count=150), (Size("TILE", 64, 32),)),
        # The launch is not written with it.
        (side(depth=4, blocks=16, count=150), None),
        # The launch is, but it is not what the blocks went with.
        (side(tile=16, blocks=16, count=150), None),
        # Every thread has more: the number of threads explains a part, or all, whatever set it.
        (side(tile=32, blocks=16, count=500), ()),
        (side(depth=4, blocks=16, count=200), ()),
        (side(tile=32, blocks=16, count=90), None),
        (side(tile=32, blocks=8, count=150), None),
    ],
)
def test_a_size_that_sets_the_threads_of_a_count_is_found(
    new: Profile, sizes: tuple[Size, ...] | None
) -> None:
    old = side()
    comparison = compare(old, new)
    found = dealt_in(comparison["instructions"], comparison, attribute(old, new), old, new)
    assert (found and found.sizes) == sizes
    each = 0.75 if sizes else {500: 2.5, 200: 1.0}.get(int(comparison["instructions"].new or 0))
    assert found is None or (found.threads, found.each) == pytest.approx((2.0, each))
    assert found is None or found.alone == (each == 1.0)


def test_bytes_are_no_work_of_threads() -> None:
    old, new = side(), side(tile=32, blocks=16, count=150)
    comparison = compare(old, new)
    moved = structs.replace(comparison["instructions"], id="dram_bytes")
    assert dealt_in(moved, comparison, attribute(old, new), old, new) is None


def test_the_hunk_that_calls_the_function_of_a_count_is_named() -> None:
    old = side()
    new = side(factor="3.0f", call="twice(twice(in[i]))", count=200)
    found = attribute(old, new)
    function, caller = (
        next(hunk.id for hunk in found.hunks if hunk.new[0] <= line <= hunk.new[1])
        for line in (FUNCTION, CALL)
    )
    place = place_of("instructions", "count", found, None, (), change=100)
    assert (place.hunks, place.called) == ((function,), (caller,))
    # A call that nobody edited decides nothing.
    place = place_of(
        "instructions", "count", attribute(old, side(factor="3.0f", count=200)), None, ()
    )
    assert place.called == ()
