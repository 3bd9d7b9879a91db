"""What kernels do wrong: each is found, and said with thread, array and line."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pytest

from ptxemu.counts import Counts
from ptxemu.errors import Fault
from ptxemu.ptx.parser import parse
from tests.ptxemu.conftest import HEADER, Compile, execute

pytestmark = pytest.mark.nvcc


def judged(cuda: Compile, body: str, *, shared: int = 0) -> Counts:
    """Run a kernel whose body starts at line 2 and has x, y and n."""
    text = f'extern "C" __global__ void k(const float* x, float* y, int n) {{\n{body}\n}}'
    buffers = {"x": np.ones(100, "f4"), "y": np.zeros(100, "f4")}
    return execute(
        cuda(text), "k", buffers, ["x", "y", 100],
        block=64, shared=shared, check=True, unwritten=["y"], limit=5_000,
    )[1]  # fmt: skip


def fails(cuda: Compile, body: str, words: str, *, shared: int = 0) -> Fault:
    """The fault of such a kernel, which has these words."""
    with pytest.raises(Fault, match=words) as caught:
        judged(cuda, body, shared=shared)
    return caught.value


def test_an_access_over_the_end_says_what_of_it_lies_outside(cuda: Compile) -> None:
    text = """extern "C" __global__ void k(const double* x, double* y) {
    y[threadIdx.x] = x[threadIdx.x + 25];
}"""
    buffers = {"x": np.ones(101, "f4"), "y": np.zeros(32, "f8")}
    words = (
        r"reads 8 bytes at x\[100\], the last 4 of them past the end of x \(101 elements\); 6 more"
    )
    with pytest.raises(Fault, match=words):
        execute(cuda(text), "k", buffers, ["x", "y"], block=32)


class Wrong(NamedTuple):
    """A body that fails with these words; what its hint says, and a body that follows it."""

    body: str
    words: str
    hint: str = ""
    right: str = ""


FAULTS = {
    "past the end": Wrong(
        "y[threadIdx.x + 60] = 1;",
        r"k\.cu:2: out of bounds: thread \(40, 0, 0\) of block \(0, 0, 0\) writes y\[100\], past "
        r"the end of y \(100 elements\); 23 more",
        "Guard the access",
        "if (threadIdx.x + 60 < n) y[threadIdx.x + 60] = 1;",
    ),
    "before the start": Wrong(
        "y[0] = x[(int)threadIdx.x - 3];",
        r"k\.cu:2: out of bounds: thread \(0, 0, 0\) .* reads x\[-3\], before x",
    ),
    "far away": Wrong(
        "y[threadIdx.x + (1ll << 40)] = 1;",
        r"k\.cu:2: out of bounds: .* writes 4 bytes at address 0x[0-9a-f]+, outside of all arrays",
    ),
    "null pointer": Wrong("*(float*)(threadIdx.x * 4ull) = 1;", r"k\.cu:2: .*a null pointer\?"),
    "misaligned vector": Wrong(
        "float4 v = *(const float4*)(x + threadIdx.x); y[threadIdx.x] = v.x + v.w;",
        r"k\.cu:2: misaligned access: thread \(1, 0, 0\) .* reads 16 bytes at x\[1\], whose",
        "only where the address is a multiple of",
        "float4 v = {x[threadIdx.x]};\n"
        "if (threadIdx.x % 4 == 0) v = *(const float4*)(x + threadIdx.x);\n"
        "y[threadIdx.x] = v.x + v.w;",
    ),
    "past shared memory": Wrong(
        "__shared__ float tile[32];\ntile[threadIdx.x] = 1;\n__syncthreads();\ny[0] = tile[0];",
        r"k\.cu:3: out of bounds: thread \(32, 0, 0\) .* writes 4 bytes at tile "
        r"\+ 128 bytes of shared memory, past the end of tile \(128 bytes\),",
        "where it is right, the array is too small",
        "__shared__ float s[64];\ns[threadIdx.x] = 1;\n__syncthreads();\n"
        "y[threadIdx.x] = s[threadIdx.x];",
    ),
    "dynamic shared memory": Wrong(
        "extern __shared__ float d[];\nd[threadIdx.x] = x[0];\n__syncthreads();\ny[0] = d[63];",
        r"k\.cu:3: out of bounds: .* past the end of d \(128 bytes\), where the block has",
    ),
    "uninitialized shared": Wrong(
        "__shared__ float tile[64];\nif (threadIdx.x < 63) tile[threadIdx.x] = 1;\n"
        "__syncthreads();\ny[threadIdx.x] = tile[threadIdx.x];",
        r"k\.cu:5: uninitialized shared memory: thread \(63, 0, 0\) .* reads tile \+ 252",
        "write it before it is read",
        "__shared__ float tile[64];\ntile[threadIdx.x] = 1;\n__syncthreads();\n"
        "y[threadIdx.x] = tile[threadIdx.x];",
    ),
    "uninitialized output": Wrong(
        "y[threadIdx.x] = y[threadIdx.x] + 1;",
        r"k\.cu:2: uninitialized memory: thread \(0, 0, 0\) .* reads y\[0\]",
        "write them before they are read",
        "y[threadIdx.x] = 0;\ny[threadIdx.x] = y[threadIdx.x] + 1;",
    ),
    "read after write": Wrong(
        "__shared__ float tile[64];\ntile[threadIdx.x] = 1;\n"
        "y[threadIdx.x] = tile[63 - threadIdx.x];",
        r"k\.cu:4: shared-memory race: .* reads tile .* written by warp \d at k\.cu:3",
        "Put a __syncthreads() between the two accesses",
        "__shared__ float tile[64];\ntile[threadIdx.x] = 1;\n__syncthreads();\n"
        "y[threadIdx.x] = tile[63 - threadIdx.x];",
    ),
    "write after read": Wrong(
        "__shared__ float tile[64];\ntile[threadIdx.x] = 1;\n__syncthreads();\n"
        "y[threadIdx.x] = tile[63 - threadIdx.x];\ntile[threadIdx.x] = x[threadIdx.x];\n"
        "__syncthreads();\ny[threadIdx.x] += tile[0];",
        r"k\.cu:6: shared-memory race: .* writes tile .* read by warp \d at k\.cu:5",
    ),
    "write after write": Wrong(
        "__shared__ float tile[64];\ntile[threadIdx.x % 32] = threadIdx.x;\n__syncthreads();\n"
        "y[threadIdx.x] = tile[threadIdx.x % 32];",
        r"k\.cu:3: shared-memory race: .* writes tile .* written by warp 1 at k\.cu:3",
    ),
    "another value for a word": Wrong(
        "__shared__ float t[96];\nt[threadIdx.x] = 0;\nt[threadIdx.x ^ 32] = threadIdx.x / 63;\n"
        "__syncthreads();\ny[threadIdx.x] = t[threadIdx.x];",
        r"k\.cu:4: shared-memory race: thread \(\d+, 0, 0\) .* writes t",
    ),
    "a neighbour's store": Wrong(
        "__shared__ float tile[64];\ntile[threadIdx.x] = 1;\n"
        "y[threadIdx.x] = tile[threadIdx.x ^ 1];",
        r"k\.cu:4: shared-memory race in a warp: thread \(0, 0, 0\) .* reads tile \+ 4 bytes, "
        r"which was written by lane 1 of its warp at k\.cu:3 without a __syncwarp\(\)",
        "put a __syncwarp()",
    ),
    "a neighbour's load": Wrong(
        "__shared__ float tile[64];\ntile[threadIdx.x] = 1;\n__syncwarp();\n"
        "float v = tile[threadIdx.x ^ 1];\ntile[threadIdx.x] = v + threadIdx.x;\n__syncwarp();\n"
        "y[threadIdx.x] = tile[threadIdx.x];",
        r"k\.cu:6: shared-memory race in a warp: .* writes tile .* read by lane 1 .* k\.cu:5",
    ),
    "half a warp's store": Wrong(
        "__shared__ float tile[64];\ntile[threadIdx.x] = 1;\n__syncthreads();\n"
        "if (threadIdx.x < 16) tile[threadIdx.x] += tile[threadIdx.x + 16];\n"
        "if (threadIdx.x < 8) tile[threadIdx.x] += tile[threadIdx.x + 8];\n"
        "__syncthreads();\ny[threadIdx.x] = tile[0];",
        r"k\.cu:6: shared-memory race in a warp: thread \(0, 0, 0\) .* written by lane 8 .*k\.cu:5",
    ),
    "a product that overflows": Wrong(
        "int wide = n * 1000, row = threadIdx.x * 1000;\nif (row == 22000) y[row * wide] = 1;",
        r"k\.cu:3: integer overflow: the index [,\d]+ × [,\d]+ = 2,200,000,000 becomes "
        r"−2,094,967,296 in 32 bits \(k\.cu:3\); out of bounds: thread \(22, 0, 0\)",
    ),
    "an overflow on the way": Wrong(
        "int row = (threadIdx.x + 22) * n * 1000000;\ny[row - (int)threadIdx.y] = 1;",
        r"k\.cu:3: integer overflow: the index [,\d]+ × [,\d]+ = 2,200,000,000 becomes "
        r"−2,094,967,296 in 32 bits \(k\.cu:2\)",
    ),
    "below zero": Wrong(
        "y[threadIdx.x - 160] = x[threadIdx.x];",
        r"k\.cu:2: integer overflow: the index 0 − 160 = −160 becomes 4,294,967,136 in 32 bits",
    ),
    "a hash": Wrong(
        "y[(threadIdx.x * 2654435761u) >> 8] = 1;",
        r"k\.cu:2: out of bounds: thread \(1, 0, 0\) .* writes y",
    ),
    "a constant that wraps round and fits": Wrong(
        "unsigned first = n - 120u;\ny[first + 80u + threadIdx.x] = 1;",
        r"k\.cu:3: out of bounds: thread \(40, 0, 0\) .* writes y\[100\]",
    ),
    "barrier in a branch": Wrong(
        "__shared__ float tile[64];\ntile[threadIdx.x] = 1;\nif (threadIdx.x % 2) {\n"
        "__syncthreads();\n}\ny[threadIdx.x] = tile[threadIdx.x];",
        r"k\.cu:5: barrier not reached by all threads: thread \(0, 0, 0\) .* has gone past it",
        "move it out of the branch",
        "__shared__ float tile[64];\ntile[threadIdx.x] = 1;\nif (threadIdx.x % 2) { }\n"
        "__syncthreads();\ny[threadIdx.x] = tile[threadIdx.x];",
    ),
    "two barriers": Wrong(
        "__shared__ float tile[64];\ntile[threadIdx.x] = 1;\nif (threadIdx.x % 2) {\n"
        "__syncthreads();\ny[0] = tile[3];\n} else {\n__syncthreads();\ny[1] = tile[4];\n}",
        r"barrier not reached by all threads: .* waits at another barrier",
    ),
    "too few at a counted barrier": Wrong(
        'if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");\ny[threadIdx.x] = 1;',
        r"barrier not reached .* wait forever at barrier 1, which needs 64 threads",
        "Check the barrier's number and count",
        'if (threadIdx.x < 32) asm volatile("bar.sync 1, 32;");\ny[threadIdx.x] = 1;',
    ),
    "endless loop": Wrong(
        "volatile float* p = y;\ny[threadIdx.x] = 0;\nwhile (p[threadIdx.x] != 3.5f) {\n"
        "p[threadIdx.x] = 1.0f - p[threadIdx.x];\n}\n",
        r"k\.cu:4: kernel k is still running after 5,000 instructions",
        "Check the loop's end condition",
        "volatile float* p = y;\ny[threadIdx.x] = 0;\n"
        "while (p[threadIdx.x] < 0.5f) p[threadIdx.x] = 1.0f - p[threadIdx.x];",
    ),
    "wait for who waits at a barrier": Wrong(
        "volatile float* p = y;\ny[threadIdx.x] = 0;\n"
        "if (threadIdx.x > 31) while (p[0] == 0) {\n}\n"
        "__syncthreads();\np[0] = 1;",
        r"k\.cu:4: endless wait: thread \(32, 0, 0\) .* others of its block wait for it at the "
        r"barrier at k\.cu:6",
    ),
    "wait past a barrier": Wrong(
        "volatile float* p = y;\ny[threadIdx.x] = 0;\nif (threadIdx.x < 32) {\n__syncthreads();\n"
        "p[0] = 1;\n} else while (p[0] == 0) {\n}",
        r"k\.cu:7: endless wait: .* wait for it at the barrier at k\.cu:5",
    ),
    "the barrier of another turn": Wrong(
        "__shared__ float t[64];\nt[threadIdx.x] = 0;\nif (threadIdx.x < 32)\n__syncthreads();\n"
        "t[threadIdx.x] = 1;\n__syncthreads();\ny[threadIdx.x] = t[63 - threadIdx.x];",
        r"k\.cu:8: shared-memory race: .* written by warp 0 at k\.cu:6",
    ),
    "wait for nobody": Wrong(
        "volatile float* p = y;\ny[threadIdx.x] = 0;\nwhile (p[threadIdx.x] != 3.0f) {\n}\n",
        r"k\.cu:4: endless wait: thread \(0, 0, 0\) of block \(0, 0, 0\) and 63 more",
        "that it writes before it waits",
        "volatile float* p = y;\ny[threadIdx.x] = 0;\np[threadIdx.x] = 3.0f;\n"
        "while (p[threadIdx.x] != 3.0f) { }",
    ),
    "trap": Wrong(
        "if (threadIdx.x == 9) __trap();", r"k\.cu:2: the kernel trapped in thread \(9, 0, 0\)"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(cuda: Compile, name: str) -> None:
    body, words, hint, right = FAULTS[name]
    found = fails(cuda, body, words, shared=128 if name.startswith("dynamic") else 0)
    assert hint in found.hint
    if right:
        judged(cuda, right)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a neighbour's store", r":4: a lane reads .* has written at k\.cu:3, .*: 1\): the value"),
        ("a neighbour's load", r":6: a lane writes .* has read at k\.cu:5, with no __syncwarp"),
    ],
)
def test_volatile_accesses_alone_are_told_of(cuda: Compile, name: str, words: str) -> None:
    body = FAULTS[name].body.replace("__shared__ float", "__shared__ volatile float")
    (warning,) = judged(cuda, body).warnings
    assert re.search(words, warning)
    plain = re.sub(r"tile(\[threadIdx.x [^]]+\])", r"((float*)tile)\1 + tile\1", body)
    fails(cuda, plain, "shared-memory race in a warp")


RIGHT = [
    "if (threadIdx.x >= 40) return;\n__shared__ float t[64];\nt[threadIdx.x] = 1;\n"
    "__syncthreads();\n"
    "y[threadIdx.x] = t[39 - threadIdx.x];",
    "__shared__ float t[2][64];\nfloat s = 0;\nfor (int i = 0; i < 4; ++i) {\n"
    "t[i % 2][threadIdx.x] = i;\n__syncthreads();\ns += t[i % 2][63 - threadIdx.x];\n}\n"
    "y[threadIdx.x] = s;",
    "__shared__ int h[4];\nif (threadIdx.x < 4) h[threadIdx.x] = 0;\n__syncthreads();\n"
    "atomicAdd(&h[threadIdx.x % 4], 1);\n__syncthreads();\ny[threadIdx.x] = h[threadIdx.x % 4];",
    "__shared__ float t[64];\nt[threadIdx.x] = 1;\n__syncwarp();\n"
    "y[threadIdx.x] = t[threadIdx.x ^ 1];\n__syncwarp();\nt[threadIdx.x ^ 1] = 2;",
    "__shared__ volatile float t[64];\nt[threadIdx.x] = 1;\n__syncwarp();\n"
    "if (threadIdx.x % 32 < 16) t[threadIdx.x] += t[threadIdx.x + 16];\n__syncwarp();\n"
    "if (threadIdx.x % 32 < 8) t[threadIdx.x] += t[threadIdx.x + 8];\n"
    "y[threadIdx.x] = t[threadIdx.x];",
    # Two warps, and lanes of one, clear a word twice.
    "__shared__ float t[96];\nt[threadIdx.x] = 0;\nt[threadIdx.x + 30] = 0;\n__syncthreads();\n"
    "t[threadIdx.x % 32] = 5;\n__syncthreads();\n"
    "y[threadIdx.x] = t[threadIdx.x] + 1;",
    # All lanes write the same; a lane reads what it wrote itself; a shuffle comes between.
    "__shared__ float t[64];\n__shared__ float all[2];\nall[threadIdx.x / 32] = 3;\n"
    "t[threadIdx.x] = all[threadIdx.x / 32];\nt[threadIdx.x] += 1;\n"
    "float v = __shfl_xor_sync(~0u, t[threadIdx.x], 1);\ny[threadIdx.x] = v + t[threadIdx.x ^ 2];",
    "__shared__ char c[64];\nc[threadIdx.x] = threadIdx.x;\n__syncthreads();\n"
    "y[threadIdx.x] = c[threadIdx.x];",
]


@pytest.mark.parametrize("number", range(len(RIGHT)))
def test_right_kernels_are_not_accused(cuda: Compile, number: int) -> None:
    text = (
        'extern "C" __global__ void k(const float* x, float* y, int n) {\n' + RIGHT[number] + "\n}"
    )
    got, counts = execute(
        cuda(text), "k", {"x": np.ones(100, "f4"), "y": np.zeros(100, "f4")}, ["x", "y", 100],
        block=64, check=True, unwritten=["y"],
    )  # fmt: skip
    assert got["y"][1] != 0 and not counts.warnings


def test_warps_at_two_barriers_run_and_are_told_of(cuda: Compile) -> None:
    """So it is on a chip, where whole warps count and not the lines that they come from."""
    text = """extern "C" __global__ void k(float* y) {
__shared__ float tile[64]; tile[threadIdx.x] = threadIdx.x;
if (threadIdx.x < 32) {
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x + 32];
} else {
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x - 32];
}
}"""
    got, counts = execute(
        cuda(text), "k", {"y": np.zeros(64, "f4")}, ["y"], block=64, check=True, grid=2
    )
    assert got["y"].tolist() == [*range(32, 64), *range(32)]
    assert counts.warnings == (
        "k.cu:4: warps of one block meet at different barriers of number 0: some wait here and "
        "some at k.cu:7; a GPU lets them go on together",
    )


@pytest.mark.parametrize(
    "body",
    [
        "if (threadIdx.x < 32) {\n__syncthreads();\n}\ny[threadIdx.x] = 1 + tile[threadIdx.x];",
        "for (int i = 0; i < 1 + threadIdx.x / 32; ++i) {\n__syncthreads();\n}\n"
        "y[threadIdx.x] = 1 + tile[threadIdx.x];",
    ],
)
def test_whole_warps_past_a_barrier_run_and_are_told_of(cuda: Compile, body: str) -> None:
    """A chip waits for warps that live, so it goes on when the others have ended."""
    text = f"""extern "C" __global__ void k(float* y) {{
__shared__ float tile[64]; tile[threadIdx.x] = threadIdx.x;
{body}
}}"""
    got, counts = execute(
        cuda(text), "k", {"y": np.zeros(64, "f4")}, ["y"], block=64, check=True, grid=2
    )
    assert got["y"].tolist() == list(range(1, 65))
    (warning,) = counts.warnings
    assert "k.cu:4: whole warps go past this barrier (at k.cu:" in warning


def test_whole_warps_that_end_before_a_barrier_are_nothing_to_tell(cuda: Compile) -> None:
    text = """extern "C" __global__ void k(float* y) {
__shared__ float tile[64]; tile[threadIdx.x] = threadIdx.x;
if (threadIdx.x >= 32) return;
__syncthreads();
y[threadIdx.x] = tile[31 - threadIdx.x];
}"""
    got, counts = execute(cuda(text), "k", {"y": np.zeros(64, "f4")}, ["y"], block=64, check=True)
    assert got["y"].tolist() == [*reversed(range(32)), *[0] * 32]
    assert counts.warnings == ()


#: Reads of shared memory that nothing has written: what is made of the value, and if it matters.
UNWRITTEN = {
    "thrown away": ("y[threadIdx.x] = threadIdx.x < 40 ? v : 1;", False),
    "the larger one": ("y[threadIdx.x] = fmaxf(v, 1);", True),
    "the smaller one": ("y[threadIdx.x] = fminf(v, 1);", True),
    "a way": ("if (v > 100) y[threadIdx.x] = 3;", True),
    "a place": ("y[__float_as_int(v) & 63] = 3;", True),
}


@pytest.mark.parametrize("name", UNWRITTEN)
def test_what_nobody_has_written_may_be_read_where_it_does_not_matter(
    cuda: Compile, name: str
) -> None:
    use, matters = UNWRITTEN[name]
    body = (
        "__shared__ float tile[64];\nif (threadIdx.x < 40) tile[threadIdx.x] = 1;\n"
        f"__syncthreads();\nfloat v = tile[threadIdx.x];\n{use}"
    )
    words = r"k\.cu:5: uninitialized shared memory: thread \(40, 0, 0\) .* reads tile \+ 160"
    if matters:
        fails(cuda, body, words)
        return
    text = f'extern "C" __global__ void k(float* y) {{\n{body}\n}}'
    got, counts = execute(
        cuda(text), "k", {"y": np.zeros(64, "f4")}, ["y"], block=64, grid=2, check=True
    )
    assert got["y"].tolist() == [1] * 64
    (warning,) = counts.warnings
    assert re.search(words, warning) and warning.endswith("; its value does not affect the result")


def test_what_goes_wrong_beside_it_is_told_instead(cuda: Compile) -> None:
    fails(
        cuda,
        "__shared__ float t[64];\nif (threadIdx.x < 40) t[threadIdx.x] = 1;\n__syncthreads();\n"
        "float v = t[threadIdx.x];\ny[threadIdx.x] = threadIdx.x < 40 ? v : 1;\n"
        "t[threadIdx.x ^ 32] = 2;",
        r"k\.cu:7: shared-memory race: .* writes t .* which was read by warp",
    )


@pytest.mark.parametrize(
    ("rest", "matters"), [("and.b32 %r4, %r2, 255;", False), ("mov.u32 %r4, %r2;", True)]
)
def test_a_register_without_a_value_is_a_fault_where_it_matters(rest: str, matters: bool) -> None:
    """Compilers put bytes into words whose other bytes are not there yet."""
    text = f"""{HEADER}
.visible .entry k(.param .u64 p)
{{
    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    setp.gt.u32 %p1, %r1, 99;
    @%p1 mov.u32 %r2, 0;
    and.b32 %r2, %r2, -256;
    or.b32 %r2, %r2, 7;
    {rest}
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r4;
    ret;
}}
"""
    buffers = {"p": np.zeros(32, "i4")}
    if matters:
        with pytest.raises(Fault, match="reads register %r2, which nothing has written"):
            execute(parse(text), "k", buffers, ["p"], check=True)
        return
    got, counts = execute(parse(text), "k", buffers, ["p"], check=True)
    assert got["p"].tolist() == [7] * 32
    assert counts.warnings == ()
