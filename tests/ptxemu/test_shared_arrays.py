"""Arrays of shared memory by their names and sizes, and mbarriers that others must know of."""

from __future__ import annotations

import numpy as np
import pytest

from ptxemu.errors import Fault
from tests.ptxemu.conftest import Array, Compile, execute

pytestmark = pytest.mark.nvcc

ARRAYS = """extern "C" __global__ void k(const float* x, float* y, int n) {
__shared__ float a[64]; __shared__ float b[64]; extern __shared__ float d[]; int t = threadIdx.x;
a[t] = x[t]; b[t] = x[t]; d[t] = x[t];
__syncthreads();
"""
#: Body from line 5 on, and what is told of it.
OUTSIDE = {
    "past the end": (
        "y[t] = a[t + n] + b[t];",
        r"k\.cu:5: out of bounds: thread \(63, 0, 0\) of block \(0, 0, 0\) reads 4 bytes at "
        r"a \+ 256 bytes of shared memory, past the end of a \(256 bytes\): there lies b .*",
    ),
    "before the start": (
        "y[t] = b[t - n] + a[t];",
        r"k\.cu:5: out of bounds: thread \(0, 0, 0\) .* reads 4 bytes at b - 4 bytes of shared "
        r"memory, before b \(256 bytes\): there lies a \+ 252 bytes",
    ),
    "a store": (
        "a[t + n] = 1;\n__syncthreads();\ny[t] = a[t] + b[t];",
        r"k\.cu:5: out of bounds: thread \(63, 0, 0\) .* writes 4 bytes at a \+ 256 bytes of "
        r"shared memory, past the end of a \(256 bytes\): there lies b \+ 0 bytes",
    ),
    "an atomic": (
        "atomicAdd(a + 2 * t, 1.f);\n__syncthreads();\ny[t] = a[t] + b[t];",
        r"k\.cu:5: out of bounds: thread \(32, 0, 0\) .* past the end of a \(256 bytes\): there "
        r"lies b \+ 0 bytes",
    ),
    "through a pointer": (
        "float* p = a + 32;\nfor (int i = 0; i < n; ++i) p += n;\ny[t] = p[t] + b[t];",
        r"k\.cu:7: out of bounds: thread \(31, 0, 0\) .* past the end of a",
    ),
    "of a vector": (
        "float2* p = (float2*)(a + 2);\ny[t] = p[t % 32].x + b[t];\ny[t] += p[t % 32].y;",
        r"k\.cu:\d: out of bounds: .* past the end of a",
    ),
    "into dynamic memory": (
        "y[t] = a[t] + b[t + n] + d[t];",
        r"k\.cu:5: out of bounds: thread \(63, 0, 0\) .* past the end of b \(256 bytes\): there "
        r"lies d \+ 0 bytes",
    ),
}  # fmt: skip
INSIDE = {
    "each": "y[t] = a[t] + b[63 - t] + d[t] - d[t];",
    "one of two": "float* p = n ? a : b;\ny[t] = p[t] + b[63 - t];",
    "one of two by thread": "float* p = t % 2 ? a : b;\ny[t] = p[t] + (t % 2 ? b : a)[63 - t];",
    "the last": "y[t] = a[t] + (t < 63 ? b[t + 1] : 0) - (t < 63 ? b[t + 1] : 0) + b[63 - t];",
    "from behind": "float* end = a + 64;\ny[t] = end[-1 - t] + b[t];",
}  # fmt: skip


def run(cuda: Compile, body: str) -> Array:
    """One block of 64 threads."""
    buffers = {"x": np.arange(64, dtype="f4"), "y": np.zeros(64, "f4")}
    got, _ = execute(
        cuda(ARRAYS + body + "\n}"), "k", buffers, ["x", "y", 1], block=64, shared=256, check=True
    )
    return got["y"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_leaves_its_array_is_told_with_both(cuda: Compile, name: str) -> None:
    body, words = OUTSIDE[name]
    with pytest.raises(Fault, match=words):
        run(cuda, body)


@pytest.mark.parametrize("name", INSIDE)
def test_what_stays_in_its_array_is_let_be(cuda: Compile, name: str) -> None:
    assert run(cuda, INSIDE[name]).tolist() == [63] * 64


BARRIER = r"""extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ unsigned long long bar; __shared__ float s[64];
  unsigned at = __cvta_generic_to_shared(&bar), done = 0; int t = threadIdx.x;
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at) : "memory");
  SYNC
  s[t] = x[t];
  asm volatile("{.reg .b64 s; mbarrier.arrive.shared.b64 s, [%0];}" :: "r"(at) : "memory");
  while (!done) asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0;"
    "selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(at) : "memory");
  y[t] = s[63 - t];
}"""


def test_an_mbarrier_is_used_after_a_barrier(cuda: Compile) -> None:
    buffers = {"x": np.arange(64, dtype="f4"), "y": np.zeros(64, "f4")}
    text = BARRIER.replace("SYNC", "__syncthreads();")
    got, _ = execute(cuda(text), "k", buffers, ["x", "y", 1], block=64, check=True)
    assert got["y"].tolist() == list(range(63, -1, -1))
    words = (
        r"k\.cu:7: mbarrier bar: thread \(32, 0, 0\) of block \(0, 0, 0\) uses it without a "
        r"barrier after its initialization by warp 0 at k\.cu:4"
    )
    with pytest.raises(Fault, match=words):
        execute(
            cuda(BARRIER.replace("SYNC", "")), "k", buffers, ["x", "y", 1], block=64, check=True
        )
