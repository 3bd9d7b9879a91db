"""Lines of headers: whose they are, in PTX and in what ncu recorded of machine code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.factories import make_launch, make_profile
from workbench.analysis.source.files import compare_sources
from workbench.callers import folded, following, foreign, placed
from workbench.model import Build, Column, InstructionTable, Profile, SourceFile, line_counters
from workbench.store import Store
from workbench.store.codec import decode

REPO = Path(__file__).resolve().parent.parent
FILES = {1: "kernels/demo/v1.cu", 2: "kernels/demo/own.cuh", 3: "cuda/cub/reduce.cuh",
         4: "system/shfl.h"}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "outside"),
    [
        ("kernels/demo/v1.cu", False),
        ("cuda/cub/reduce.cuh", True),
        ("system/shfl.h", True),
        ("/usr/local/cuda/include/shfl.h", True),
        ("", False),
    ],
)
def test_files_of_a_toolkit(path: str, outside: bool) -> None:
    assert foreign(path) is outside


def test_a_chain_of_headers_ends_at_the_line_that_is_ours() -> None:
    callers = following(FILES)
    assert callers.home((1, 16), None) == (1, 16)
    assert callers.home((3, 518), (1, 16)) == (1, 16)
    assert callers.home((3, 599), (3, 518)) == (1, 16)
    # A template that calls itself: its own line is its caller's.
    assert callers.home((3, 534), (3, 599)) == (1, 16)
    assert callers.home((3, 534), (3, 534)) == (1, 16)
    assert callers.home((4, 9), (3, 534)) == (1, 16)
    # The next call of the same function is told from the outside inwards again.
    assert callers.home((3, 518), (1, 20)) == (1, 20)
    assert callers.home((3, 599), (3, 518)) == (1, 20)


def test_our_own_functions_keep_their_lines() -> None:
    callers = following(FILES)
    assert callers.home((2, 5), (1, 30)) == (2, 5)
    assert callers.home((4, 9), (2, 5)) == (2, 5)
    assert callers.home((4, 9), None) == (4, 9)  # called for real: PTX does not say by whom


PTX = """
.visible .entry _Z4scalePf(
)
{
	.loc	1 10 3
	mov.u32 	%r1, %tid.x;
	.loc	4 7 1, function_name $L__info_string0, inlined_at 1 12 5
	ld.global.nc.f32 	%f1, [%rd1];
	.loc	1 13 3
	add.f32 	%f3, %f1, %f1;
	.loc	4 7 1, function_name $L__info_string0, inlined_at 1 14 5
	ld.global.nc.f32 	%f2, [%rd1+4];
	.loc	4 8 1, function_name $L__info_string0, inlined_at 1 12 5
	cp.async.commit_group;
	.loc	4 8 1, function_name $L__info_string0, inlined_at 1 14 5
	cp.async.commit_group;
	ret;
}
	.file	1 "kernels/demo/v1.cu"
	.file	4 "system/shfl.h"
"""
#: Position, PTX: what ncu tells of each machine instruction.
ROWS = [
    ((0, 10), "mov.u32 \t%r1, %tid.x;"),
    ((1, 7), "ld.global.nc.f32 \t%f2, [%rd1+4];"),
    ((1, 7), "ld.global.nc.f32 \t%f1, [%rd1];"),
    ((0, 12), "mul.wide.u32 \t%rd1, %r1, 4;"),
    ((1, 8), "cp.async.commit_group;"),
    ((0, 13), "add.f32 \t%f3, %f1, %f1;"),
    ((1, 8), "cp.async.commit_group;"),
    ((0, 14), "st.global.f32 \t[%rd1], %f3;"),
    ((1, 99), "nothing.of.this;"),
    ((-1, 0), ""),
]


def recorded(ptx: str = PTX) -> Profile:
    table = InstructionTable(
        address=tuple(range(0, 16 * len(ROWS), 16)),
        text=tuple("NOP" for _ in ROWS),
        file=tuple(file for (file, _), _ in ROWS),
        line=tuple(line for (_, line), _ in ROWS),
        ptx=tuple(text for _, text in ROWS),
        columns={"inst_executed": Column(rows=tuple(range(len(ROWS))), values=(1,) * len(ROWS))},
    )
    return make_profile(
        launches=(make_launch(kernel="scale", instructions=table),),
        sources=(SourceFile(path="kernels/demo/v1.cu", text="…"), SourceFile(path="system/shfl.h")),
        build=Build(compiler="nvcc 13", arch="sm_90", ptx=ptx),
    )


def test_machine_instructions_go_to_the_caller_that_their_ptx_names() -> None:
    table = folded(recorded()).launches[0].instructions
    places = list(zip(table.file, table.line, strict=True))
    assert places[1:3] == [(0, 14), (0, 12)]
    # The same PTX behind two callers: the one whose own code is next to it.
    assert (places[4], places[6]) == ((0, 12), (0, 14))
    for row in (0, 3, 5, 7, 8, 9):
        assert places[row] == ROWS[row][0]


DEEP = """
.visible .entry _Z4scalePf(
)
{
	.loc	4 20 1, function_name $L__info_string0, inlined_at 1 12 5
	.loc	4 30 1, function_name $L__info_string1, inlined_at 4 20 1
	ld.acquire.gpu.u32 	%r1, [%rd1];
	.loc	4 40 1, function_name $L__info_string0, inlined_at 1 12 5
	.loc	4 50 1, function_name $L__info_string1, inlined_at 4 40 1
	st.shared.f32 	[%r9], %f1;
	.loc	4 40 1, function_name $L__info_string0, inlined_at 1 12 5
	bar.sync 	0;
	.loc	1 13 3
	mov.u32 	%r7, temp;
	.loc	4 40 1, function_name $L__info_string2, inlined_at 1 14 5
	.loc	4 50 1, function_name $L__info_string3, inlined_at 4 40 1
	st.shared.f32 	[%r10], %f2;
	.loc	4 40 1, function_name $L__info_string2, inlined_at 1 14 5
	bar.sync 	0;
	ret;
}
	.file	1 "kernels/demo/v1.cu"
	.file	4 "system/shfl.h"
"""


def at_lines(*rows: tuple[tuple[int, int], str]) -> list[tuple[int, int]]:
    """Where machine instructions of these places and statements are put, by ``DEEP``."""
    profile = recorded(DEEP)
    launch = profile.launches[0]
    table = replace(
        launch.instructions,
        address=tuple(range(0, 16 * len(rows), 16)),
        text=tuple("NOP" for _ in rows),
        file=tuple(file for (file, _), _ in rows),
        line=tuple(line for (_, line), _ in rows),
        ptx=tuple(text for _, text in rows),
        columns={},
    )
    moved = folded(replace(profile, launches=(replace(launch, instructions=table),)))
    found = moved.launches[0].instructions
    return list(zip(found.file, found.line, strict=True))


def test_the_line_of_a_call_on_the_way_has_its_caller() -> None:
    # A grid's barrier: the load that waits is put on the line that calls for it.
    assert at_lines(((1, 20), "ld.acquire.gpu.u32 \t%r1, [%rd1];")) == [(0, 12)]


def test_a_statement_tells_which_call_of_a_function_it_is_of() -> None:
    # Two sums by one function of CUB; the next row of our own is of the second's line.
    rows = (
        ((0, 14), "mov.u32 \t%r7, temp;"),
        ((1, 40), "st.shared.f32 \t[%r9], %f1;"),
        ((1, 40), "bar.sync \t0;"),
        ((0, 13), "add.f32 \t%f5, %f5, %f5;"),
        ((0, 13), "add.f32 \t%f6, %f5, %f5;"),
        ((1, 40), "st.shared.f32 \t[%r10], %f2;"),
        ((1, 40), "bar.sync \t0;"),
    )
    found = at_lines(*rows)
    assert found[1:3] == [(0, 12), (0, 12)]
    assert found[5:] == [(0, 14), (0, 14)]


def test_what_one_line_of_ours_makes_is_its_own_wherever_ptxas_left_it() -> None:
    """A load is left on the barrier behind it, a header's line that two of our lines call."""
    assert at_lines(((1, 40), "mov.u32 \t%r7, temp;")) == [(0, 13)]


def test_without_ptx_headers_keep_their_lines() -> None:
    profile = recorded("")
    assert folded(profile) is profile


def test_every_recorded_header_line_has_a_caller_and_nothing_is_lost() -> None:
    """Steps on an H200, as they were recorded and as they are read."""
    store = Store(REPO / "profiles")
    moved = 0
    for entry in store.find(study="conv2d_half", engine="ncu", device="h200"):
        raw, read = decode(entry.path, Profile), store.load(entry.path)
        for before, after in zip(raw.launches, read.launches, strict=True):
            moved += before.instructions != after.instructions
            files = {read.sources[file].path for file in after.instructions.file if file >= 0}
            assert not any(map(foreign, files)), entry.path
            sums = []
            for launch in (before, after):
                total: Counter[str] = Counter()
                for counters in line_counters(launch).values():
                    total.update(counters)
                sums.append(total)
            assert sums[0] == pytest.approx(sums[1], rel=1e-12)
    assert moved >= 10


PROGRAM = """#define LANES 32
__global__ void scale(float *y) {
    float f = 2.0f;
    y[threadIdx.x] *= f;
}
int main() {
    scale<<<1, LANES>>>(y);
}
"""
OWN = f"""/* ---
image = "{"0" * 64}"
--- */
// from app.cu:2
{PROGRAM.partition("int")[0].partition(chr(10))[2]}"""


def lifted(*places: tuple[int, int], own: str = OWN) -> Profile:
    """A profile of a lifted kernel whose instructions lie in the program's file, 0, or a header."""
    table = InstructionTable(
        address=tuple(range(len(places))),
        text=("NOP",) * len(places),
        file=tuple(file for file, _ in places),
        line=tuple(line for _, line in places),
        columns={
            "inst_executed": Column(rows=tuple(range(len(places))), values=(1,) * len(places))
        },
    )
    launch = make_launch(kernel="scale(float *)", instructions=table)
    texts = {"app.cu": PROGRAM, "/usr/include/shfl.h": "go();\n", "kernels/s/v0_lifted.cu": own}
    sources = tuple(SourceFile(path=path, text=text) for path, text in texts.items())
    return make_profile(launches=(launch,), sources=sources)


def test_lines_of_a_program_stand_in_the_text_that_was_cut_from_it() -> None:
    """Its file is no part of the version: the next version would seem to have removed it."""
    found = placed(lifted((0, 3), (1, 1), (2, 7)))
    table = found.launches[0].instructions
    assert [each.path for each in found.sources] == [
        "/usr/include/shfl.h",
        "kernels/s/v0_lifted.cu",
    ]
    assert list(zip(table.file, table.line, strict=True)) == [(1, 6), (0, 1), (1, 7)]
    new = replace(found.sources[1], path="kernels/s/v1.cu", text=OWN.replace("*= f", "*= f + f"))
    step = compare_sources(found, replace(found, sources=(found.sources[0], new)), ())
    assert [(hunk.old_file, hunk.old) for hunk in step.hunks] == [
        ("kernels/s/v0_lifted.cu", (7, 7))
    ]


def test_of_a_programs_file_what_the_text_does_not_hold_stays() -> None:
    found = placed(lifted((0, 3), (0, 7)))
    table = found.launches[0].instructions
    assert list(zip(table.file, table.line, strict=True)) == [(2, 6), (0, 7)]
    assert (found.sources[0].text or "").split() == ["scale<<<1,", "LANES>>>(y);"]


def test_a_version_that_is_compiled_keeps_its_headers() -> None:
    """`new --from` copies the comments as well."""
    profile = lifted((0, 3), own=OWN.replace("image", "title"))
    assert placed(profile) is profile
