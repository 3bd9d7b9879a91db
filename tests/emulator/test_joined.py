"""Which loads and stores ptxas is taken to join, and what it leaves out of vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.emulator.conftest import Compile, execute
from workbench.emulator.cost.joined import merged
from workbench.emulator.ptx.flow import control_flow
from workbench.emulator.ptx.inlining import flatten
from workbench.emulator.ptx.parser import parse

KERNEL = """
.version 8.3
.target sm_90
.address_size 64

.visible .entry k()
{{
.reg .b32 %r<4>;
.reg .f32 %f<32>;
.reg .pred %p<2>;
.reg .b64 %rd<5>;
.shared .align 16 .b8 tile[4096];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, {shift};
mov.u32 %r3, tile;
add.s32 %r2, %r3, %r2;
{loads}
ret;
}}
"""


def widths(
    loads: str,
    shift: int = 4,
    op: str = "ld",
    symbol: Callable[[str], int | None] = lambda name: 0,
) -> list[int | None]:
    """What each load is charged: its joined width, 0 where another has it, None if alone."""
    flat = flatten(parse(KERNEL.format(loads=loads, shift=shift)), "k")
    graph = control_flow(flat)
    found = merged(graph, symbol)
    every = [each for block in graph.blocks for each in block.instrs if each.op == op]
    return [found.get(id(each)) for each in every]


@pytest.mark.parametrize(
    ("loads", "charged"),
    [
        (("f32 %f1, [%r2]", "f32 %f2, [%r2+4]"), [8, 0]),
        (("f32 %f1, [%r2+4]", "f32 %f2, [%r2+8]"), [None, None]),
        (("v2.f32 {%f1, %f2}, [%r2]", "v2.f32 {%f3, %f4}, [%r2+8]"), [16, 0]),
        # ptxas makes one load of a pair and two single words, in whatever order they come.
        (
            ("v2.f32 {%f1, %f2}, [%r2+3816]", "f32 %f3, [%r2+3808]", "f32 %f4, [%r2+3812]"),
            [16, 0, 0],
        ),
        # Three words of four are enough, whichever they are; two that are no neighbours are not.
        (("v2.f32 {%f1, %f2}, [%r2]", "f32 %f3, [%r2+8]"), [16, 0]),
        (("f32 %f1, [%r2+4]", "f32 %f2, [%r2+8]", "f32 %f3, [%r2+12]"), [16, 0, 0]),
        (("f32 %f1, [%r2]", "f32 %f2, [%r2+8]", "f32 %f3, [%r2+12]"), [16, 0, 0]),
        (("f32 %f1, [%r2]", "f32 %f2, [%r2+12]"), [None, None]),
        (("v4.f32 {%f1, %f2, %f3, %f4}, [%r2]", "f32 %f5, [%r2+16]"), [None, None]),
        (("v2.f32 {%f1, %f2}, [%r2]", "f32 %f3, [%r2+4]"), [None, None]),
    ],
)
def test_neighbours_are_joined(loads: tuple[str, ...], charged: list[int | None]) -> None:
    assert widths("".join(f"ld.shared.{load};\n" for load in loads)) == charged


def test_only_what_is_aligned_is_joined() -> None:
    pair = "ld.shared.f32 %f1, [%r2];\nld.shared.f32 %f2, [%r2+4];\n"
    assert widths(pair, shift=3) == [8, 0]
    assert widths(pair, shift=2) == [None, None]


def test_a_store_keeps_loads_apart() -> None:
    one, two = "ld.shared.f32 %f1, [%r2];\n", "ld.shared.f32 %f2, [%r2+4];\n"
    assert widths(one + "st.shared.f32 [%r3], %f1;\n" + two) == [None, None]


def test_a_load_behind_a_branch_is_joined_if_there_is_no_other_way_to_it() -> None:
    """As ptxas 13.0 compiles it for compute capability 9.0: LDS.64 before the branch."""
    one, two = "ld.shared.f32 %f1, [%r2];\n", "ld.shared.f32 %f2, [%r2+4];\n"
    skip = "setp.gt.f32 %p1, %f1, 0f00000000;\n@%p1 bra after;\n"
    assert widths(one + skip + two + "after:\n") == [8, 0]
    assert widths(one + skip + "st.global.f32 [%rd1], %f1;\n" + two + "after:\n") == [8, 0]
    assert widths(one + skip + "st.shared.f32 [%r3], %f1;\n" + two + "after:\n") == [None, None]
    # Two ways lead to a loop's first block.
    again = "again:\n" + two + "setp.gt.f32 %p1, %f2, 0f00000000;\n@%p1 bra again;\n"
    assert widths(one + again) == [None, None]
    # What is joined already is not joined again, whichever branch comes first.
    most = "ld.shared.f32 %f3, [%r2+8];\nld.shared.f32 %f4, [%r2+12];\n"
    other = "bra end;\nafter:\n" + two.replace("f2", "f5") + "end:\n"
    found = widths(one + skip + two + most + other)
    assert found == [8, 0, 8, 0, 0]


ONE, TWO = "st.shared.f32 [%r2], %f1;\n", "st.shared.f32 [%r2+4], %f2;\n"
#: Stores, and what ptxas 13.0 makes of them for compute capability 9.0.
STORES = {
    "two": (ONE + TWO, [0, 8]),  # STS.64, on the line of the last
    "descending": (TWO + ONE, [0, 8]),
    "four": (ONE + TWO + TWO.replace("+4", "+8") + TWO.replace("+4", "+12"), [0, 0, 0, 16]),
    "three": (ONE + TWO + TWO.replace("+4", "+8"), [0, 8, None]),
    "pairs": (
        "st.shared.v2.f32 [%r2], {%f1, %f2};\nst.shared.v2.f32 [%r2+8], {%f3, %f4};\n", [0, 16]
    ),
    "guarded": ("@%p1 " + ONE + "@%p1 " + TWO, [None, None]),
    "behind a branch": ("@%p1 bra after;\n" + ONE + TWO + "after:\n", [0, 8]),
    "another between": (ONE + "st.shared.f32 [%r1+512], %f3;\n" + TWO, [None] * 3),
    "one far off between": (ONE + TWO.replace("+4", "+512") + TWO, [None] * 3),
    "a load between": (ONE + "ld.shared.f32 %f5, [%r1];\n" + TWO, [None] * 2),
    "a global store between": (ONE + "st.global.f32 [%rd1], %f3;\n" + TWO, [0, None, 8]),
    "a barrier between": (ONE + "bar.sync 0;\n" + TWO, [None] * 2),
    "volatile": ((ONE + TWO).replace("st.", "st.volatile."), [None] * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", STORES)
def test_stores_that_follow_one_another_are_joined(name: str) -> None:
    text, charged = STORES[name]
    assert widths(text, op="st") == charged
    assert widths(text, shift=2, op="st") == [None] * len(charged)


A, B = "ld.global.f32 %f1, [%rd1];\n", "ld.global.f32 %f2, [%rd1+4];\n"
NA, NB = A.replace("global", "global.nc"), B.replace("global", "global.nc")
WIDE = "ld.global.v2.f32 {%f3, %f4}, [%rd1+32];\n"
WIDEST = "ld.global.v4.f32 {%f3, %f4, %f5, %f6}, [%rd1+32];\n"
SKIP = "@%p1 bra after;\n"
#: Global loads beside one that says how its register is aligned, as ptxas 13.0 compiles them.
LOADS = {
    "no proof": (A + B, [None, None]),
    "a pair behind": (A + B + WIDE, [8, 0, None]),
    "a pair before": (WIDE + A + B, [None, 8, 0]),
    "a pair in an odd place": (A + B + WIDE.replace("+32", "+36"), [None] * 3),
    "another register's": (A + B + WIDE.replace("%rd1", "%rd0"), [None] * 3),
    "a store's": (A + B + "st.global.v2.f32 [%rd1+32], {%f1, %f2};\n", [8, 0]),
    "four": (A + B + WIDEST, [8, 0, None]),
    "three of four": (A + B + A.replace("%rd1", "%rd1+8") + WIDEST, [16, 0, 0, None]),
    "two pairs": (WIDE.replace("+32", "") + WIDE.replace("+32", "+8") + WIDEST, [16, 0, None]),
    "another register, a literal away": (
        "add.s64 %rd1, %rd0, 4;\n" + A.replace("%rd1", "%rd0") + A + WIDE.replace("%rd1", "%rd0"),
        [8, 0, None],
    ),
    "the same sum, twice": (
        "cvta.to.global.u64 %rd3, %rd0;\nadd.s64 %rd1, %rd3, %rd2;\nadd.s64 %rd4, %rd2, %rd0;\n"
        + A + B.replace("%rd1", "%rd4") + WIDE, [8, 0, None],
    ),
    "a register that grows": ("add.s64 %rd1, %rd1, 4;\n" + A + B + WIDE, [8, 0, None]),
    "guarded proof": (A + B + "@%p1 " + WIDE, [None] * 3),
    "guarded": ("@%p1 " + A + "@%p1 " + B + WIDE, [None] * 3),
    "proof behind a branch": (A + B + SKIP + WIDE + "after:\n", [None] * 3),
    "proof before a branch": (WIDE + SKIP + "st.global.f32 [%rd0], %f9;\nafter:\n" + A + B,
                              [None, 8, 0]),
    "one behind a branch": (WIDE + A + SKIP + B + "after:\n", [None] * 3),
    "a store between": (A + "st.global.f32 [%rd0], %f9;\n" + B + WIDE, [None] * 3),
    "a shared store between": (A + "st.shared.f32 [%r2], %f9;\n" + B + WIDE, [8, 0, None]),
    "a barrier between": (A + "bar.sync 0;\n" + B + WIDE, [None] * 3),
    "constant, a store between": (NA + "st.global.f32 [%rd0], %f9;\n" + NB + WIDE, [8, 0, None]),
    "volatile": ((A + B).replace("ld.", "ld.volatile.") + WIDE, [None] * 3),
    "the register is written between": (A + "add.s64 %rd1, %rd1, 4;\n" + B + WIDE, [None] * 3),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADS)
def test_global_loads_are_joined_where_another_access_proves_them_aligned(name: str) -> None:
    text, charged = LOADS[name]
    assert widths(text) == charged


@pytest.mark.parametrize(
    ("text", "charged"),
    [
        (ONE.replace("shared", "global") + TWO.replace("shared", "global"), [0, 8]),
        (TWO.replace("shared", "global") + ONE.replace("shared", "global"), [0, 8]),
        (ONE.replace("shared", "global") + "ld.global.f32 %f5, [%rd0];\n"
         + TWO.replace("shared", "global"), [None, None]),
        (ONE.replace("shared", "global") + "st.shared.f32 [%r2], %f1;\n"
         + TWO.replace("shared", "global"), [0, None, 8]),
    ],
)  # fmt: skip
def test_global_stores_are_joined_like_shared_ones(text: str, charged: list[int | None]) -> None:
    text = text.replace("global.f32 [%r2", "global.f32 [%rd1")
    assert widths(text, op="st") == [None] * len(charged)
    assert widths(WIDE + text, op="st") == charged


def test_what_is_joined_costs_what_it_begins_at() -> None:
    """Sectors of a pair whose second word comes first in the code."""
    text = KERNEL.format(
        shift=3,
        loads="ld.param.u64 %rd0, [x];\ncvta.to.global.u64 %rd0, %rd0;\n"
        "mul.wide.u32 %rd1, %r1, 8;\n"
        "add.s64 %rd1, %rd0, %rd1;\nst.global.f32 [%rd1+4], 0f3F800000;\n"
        "st.global.f32 [%rd1], 0f40000000;\nld.global.v2.f32 {%f1, %f2}, [%rd1];\n",
    ).replace("k()", "k(.param .u64 x)")
    got, found = execute(parse(text), "k", {"x": np.zeros(64, "f4")}, ["x"], block=32)
    assert got["x"].tolist() == [2.0, 1.0] * 32
    stores = [row.site for row in found.rows if row.instr.op == "st"]
    assert [(site.requests, site.sectors) for site in stores] == [(0, 0), (1, 8)]


def test_words_of_several_variables_are_neighbours() -> None:
    """A word, eight words and a word, declared one after the other (read off ptxas 13.0)."""
    places = {"one": 1024, "eight": 1028, "last": 1060}
    loads = "".join(f"ld.shared.f32 %f{k}, [eight+{4 * k}];\n" for k in range(8))
    assert widths(loads, symbol=places.get) == [16, 0, 0, 16, 0, 0, 0, None]
    stores = "st.shared.f32 [last], %f1;\nst.shared.f32 [eight+28], %f1;\n"
    assert widths(stores, op="st", symbol=places.get) == [0, 8]


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("reads", "load", "sectors", "asked"),
    [
        ("v.x + v.y + v.z + v.w", "float4", 16, 16), ("v.x + v.w", "float4", 16, 16),
        ("v.x + v.y", "float4", 16, 8), ("v.x", "float4", 16, 4), ("v.x", "float2", 8, 4),
    ],
)  # fmt: skip
def test_the_half_of_a_vector_that_nobody_reads_is_not_loaded(
    cuda: Compile, reads: str, load: str, sectors: int, asked: int
) -> None:
    text = f"""extern "C" __global__ void k(const {load}* x, float* y) {{
        {load} v = x[threadIdx.x]; y[threadIdx.x] = {reads};
    }}"""
    buffers = {"x": np.ones(128, "f4"), "y": np.zeros(32, "f4")}
    _, outcome = execute(cuda(text), "k", buffers, ["x", "y"])
    (site,) = (row.site for row in outcome.rows if row.instr.op == "ld" and row.site.sectors)
    assert (site.sectors, site.ideal) == (sectors, asked)
