"""Which edit bounds registers: launch bounds, and the macros that they are made of."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from tests.factories import make_launch, make_profile
from workbench.analysis.attribution import attribute
from workbench.analysis.cause.places import bounded_in
from workbench.analysis.compare import compare
from workbench.analysis.story import explain
from workbench.model import InstructionTable, Profile, SourceFile
from workbench.store import Store

KERNEL = """\
/* ---
title = "{title}"
--- */
#define WIDE 128

__global__ void {bound}
scale(const float* in, float* out) {{
  out[threadIdx.x] = {factor} * in[threadIdx.x];
}}
"""


def side(bound: str, *flags: str, title: str = "a", factor: str = "2.0f") -> Profile:
    text = KERNEL.format(bound=bound, title=title, factor=factor)
    profile = make_profile(
        launches=(make_launch(instructions=InstructionTable()),),
        sources=(SourceFile(path="scale.cu", text=text),),
    )
    assert profile.build is not None
    return structs.replace(profile, build=structs.replace(profile.build, flags=flags))


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (side("__launch_bounds__(WIDE, 4)"), side("__launch_bounds__(WIDE, 3)"), [6]),
        (side(""), side("__launch_bounds__(WIDE, 4)"), [6]),
        (side("__launch_bounds__(WIDE, 4)"), side("__maxnreg__(64)"), [6]),
        # The bound reads the same, and says another thing.
        (
            side("__launch_bounds__(WIDE, BLOCKS)", "-O3", "-DBLOCKS=6"),
            side("__launch_bounds__(WIDE, BLOCKS)", "-O3", "-DBLOCKS=7", title="b"),
            [2],
        ),
        # Macros that no bound is made of, and edits beside a bound, do not count.
        (
            side("__launch_bounds__(WIDE, 4)", "-DROWS=1"),
            side("__launch_bounds__(WIDE, 4)", "-DROWS=2", title="b", factor="3.0f"),
            None,
        ),
    ],
)
def test_the_edit_of_a_bound_is_found(old: Profile, new: Profile, lines: list[int] | None) -> None:
    found = attribute(old, new)
    place = bounded_in(found, old, new)
    first = {hunk.id: hunk.new[0] for hunk in found.hunks}
    assert (None if place is None else [first[hunk] for hunk in place.hunks]) == lines
    assert place is None or (place.link, place.by) == ("compiler", "bounds")


def test_a_bound_in_an_edited_function_head_that_reads_the_same_did_not_change() -> None:
    old = side("__launch_bounds__(WIDE, 4)")
    text = (old.sources[0].text or "").replace("scale(const float* in", "scale(const double* in")
    text = text.replace("__global__ void __launch", 'extern "C" __global__ void __launch')
    new = structs.replace(old, sources=(SourceFile(path="scale.cu", text=text),))
    assert bounded_in(attribute(old, new), old, new) is None


def test_a_recorded_bound_is_told() -> None:
    store = Store(Path(__file__).parents[2] / "profiles")
    pick = {"study": "conv2d_direct", "problem": "n4096", "device": "h200"}
    old, new = (store.get(version=version, **pick) for version in ("v5", "v7"))
    words = "72 (−10.0%); the register bound changed in hunk 2 (lines 2–33)."
    assert words in explain(old, new, compare(old, new)).sentence
