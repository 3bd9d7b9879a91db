"""``cp.async``: what a copy may still be writing nobody may touch, its own thread included."""

from __future__ import annotations

import numpy as np
import pytest

from ptxemu.errors import Fault
from tests.ptxemu.conftest import Array, Compile, execute

pytestmark = pytest.mark.nvcc

HEAD = """#include <cuda_pipeline.h>
#define copy(to, from) __pipeline_memcpy_async(to, from, 4)
#define commit() __pipeline_commit()
#define wait(n) __pipeline_wait_prior(n)
extern "C" __global__ void k(const float* x, float* y, int n) {
__shared__ float s[4][64]; int t = threadIdx.x, i = blockIdx.x * 64 + t;
"""
STAGES = """for (int k = 0; k < {ahead}; ++k) {{ copy(&s[k % 4][t], x + 64 * k + t); commit(); }}
float sum = 0;
for (int k = 0; k < 8; ++k) {{
wait({ahead} - 1); __syncthreads();
sum += s[k % 4][t ^ 33];
{barrier}
if (k + {ahead} < 8) copy(&s[(k + {ahead}) % 4][t], x + 64 * (k + {ahead}) + t);
commit();
}}
y[i] = sum;"""
#: Body, and what is told of it. It begins at line 7.
WRONG = {
    "read while a copy is on its way": (
        "s[0][t] = x[i];\n__syncthreads();\ncopy(&s[0][t], x + (i ^ 1)); commit();\n"
        "__syncthreads();\ny[i] = 2 * s[0][t];\nwait(0);",
        r"k\.cu:11: shared-memory race: thread \(0, 0, 0\) of block .* reads s \+ 0 bytes, "
        r"which the copy of thread .* at k\.cu:9.* that thread has not waited for its group",
    ),
    "one group too few": (
        "copy(&s[0][t], x + i); commit();\ncopy(&s[1][t], x + i); commit();\nwait(1);\n"
        "__syncthreads();\ny[i] = s[0][t ^ 1] + s[1][t ^ 1];",
        r"k\.cu:11: .* reads s \+ 260 bytes, which the copy of thread \(1, 0, 0\) at k\.cu:8",
    ),
    "only one warp waits": (
        "copy(&s[0][t], x + i); commit();\nif (t < 32) wait(0);\n__syncthreads();\n"
        "y[i] = s[0][t ^ 32];",
        r"k\.cu:10: .* reads s \+ 128 bytes, which the copy of thread \(32, 0, 0\) at k\.cu:7",
    ),
    "waited for, and no barrier": (
        "copy(&s[0][t], x + i); commit();\n__syncthreads();\nwait(0);\ny[i] = s[0][t ^ 32];",
        r"k\.cu:10: .* reads s \+ 128 .*, which was written by warp 1 at k\.cu:7.* without",
    ),
    "written over": (
        "copy(&s[0][t], x + i); commit();\n__syncthreads();\ns[0][t] = 1;\nwait(0);\n"
        "__syncthreads();\ny[i] = s[0][t];",
        r"k\.cu:9: .* writes s \+ 0 bytes, which the copy of thread \(0, 0, 0\) at k\.cu:7",
    ),
    "five stages in four buffers": (
        STAGES.format(ahead=5, barrier="__syncthreads();"),
        r"k\.cu:7 .* writes s \+ 0 bytes, which the copy of thread \(0, 0, 0\) at k\.cu:7",
    ),
    "a buffer that others still read": (
        STAGES.format(ahead=4, barrier=""),
        r"k\.cu:13 .*: shared-memory race: .* writes s .* was read by warp \d at k\.cu:11",
    ),
}  # fmt: skip
RIGHT = {
    "four stages": STAGES.format(ahead=4, barrier="__syncthreads();"),
    "three stages": STAGES.format(ahead=3, barrier=""),
    "its own": "copy(&s[0][t], x + i); commit();\nwait(0);\ny[i] = s[0][t];",
    "not committed": 'copy(&s[0][t], x + i);\nasm volatile("cp.async.wait_all;" ::: "memory");\n'
    "__syncthreads();\ny[i] = s[0][t ^ 32];",
    "the first of two": "copy(&s[0][t], x + i); commit();\ncopy(&s[1][t], x + i); commit();\n"
    "wait(1);\n__syncthreads();\ny[i] = s[0][t ^ 32];\nwait(0);",
    "a warp of its own": "if (t < 32) { copy(&s[0][t], x + i); copy(&s[0][t + 32], x + i + 32); "
    "commit(); wait(0); }\n__syncthreads();\ny[i] = s[0][t ^ 32];",
}  # fmt: skip


def run(cuda: Compile, body: str) -> Array:
    """Two blocks of 64 threads."""
    buffers = {"x": np.arange(512, dtype="f4"), "y": np.zeros(512, "f4")}
    got, _ = execute(
        cuda(HEAD + body + "\n}"), "k", buffers, ["x", "y", 0], grid=2, block=64, check=True
    )
    return got["y"]


@pytest.mark.parametrize("name", WRONG)
def test_what_a_copy_may_still_write_is_told_with_both_lines(cuda: Compile, name: str) -> None:
    body, words = WRONG[name]
    with pytest.raises(Fault, match=words):
        run(cuda, body)


@pytest.mark.parametrize("name", RIGHT)
def test_nobody_is_accused_who_waited(cuda: Compile, name: str) -> None:
    thread = np.arange(64)
    want = np.concatenate([thread, thread + 64])
    if "stages" in name:
        want = np.tile((np.arange(512).reshape(8, 64)[:, thread ^ 33]).sum(0), 2)
    elif name != "its own":
        want ^= 32
    assert run(cuda, RIGHT[name])[:128].tolist() == want.tolist()
