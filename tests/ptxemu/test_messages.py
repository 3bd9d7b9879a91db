"""``printf``, failed assertions, and barriers that bring something back."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ptxemu.errors import Fault
from tests.ptxemu.conftest import Compile, execute

pytestmark = pytest.mark.nvcc

PRINTF = r"""
#include <cstdio>
extern "C" __global__ void k(const float* f, int* taken) {
  int t = threadIdx.x;
  if (t < 2)
    taken[t] = printf("%d: %5.2f|%-6s|%c|%llu|%#x|%*d|%%|%p|%e\n", t, f[t], "abc", 'q',
                      1ull << 40, 255u, 4, -7, (void*)4096, 1e-10);
}
"""


def test_printf_prints_as_c_does(cuda: Compile, capfd: pytest.CaptureFixture[str]) -> None:
    got, _ = execute(
        cuda(PRINTF), "k", {"f": np.array([1.5, -2.25], "f4"), "n": np.zeros(2, "i4")}, ["f", "n"]
    )
    tail = "|abc   |q|1099511627776|0xff|  -7|%|0x1000|1.000000e-10\n"
    assert capfd.readouterr().err == f"0:  1.50{tail}1: -2.25{tail}"
    assert got["n"].tolist() == [10, 10]  # the width is one of them


def test_a_kernel_cannot_flood_the_terminal(
    cuda: Compile, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ptxemu.ops import moves

    monkeypatch.setattr(moves, "_MOST", 200)
    text = PRINTF.replace("t < 2", "t < 30").replace("f[t]", "f[0]").replace("taken[t]", "*taken")
    execute(cuda(text), "k", {"f": np.ones(2, "f4"), "n": np.zeros(2, "i4")}, ["f", "n"])
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 4 and "more was printed than 200 bytes" in lines[-1]


ASSERT = """
#include <cassert>
extern "C" __global__ void k(const int* x) {
  int v = x[threadIdx.x];
  assert(v < 4 && "small");
}
"""


def test_a_failed_assertion_says_what_cuda_says(
    cuda: Compile, capfd: pytest.CaptureFixture[str]
) -> None:
    x = np.zeros(64, "i4")
    x[[9, 40]] = 5
    with pytest.raises(
        Fault, match=r'k\.cu:5: assertion `v < 4 && "small"` failed in thread \(9, 0, 0\)'
    ):
        execute(cuda(ASSERT), "k", {"x": x}, ["x"], block=64)
    said = capfd.readouterr().err.splitlines()
    assert [re.sub(r"^.*?k\.cu", "k.cu", line) for line in said] == [
        f"k.cu:5: void k(const int *): block: [0,0,0], thread: [{thread},0,0] "
        'Assertion `v < 4 && "small"` failed.'
        for thread in (9, 40)
    ]


COUNTED = """
extern "C" __global__ void k(const int* x, int* y) {
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  if (t >= 90) return;
  int many = __syncthreads_count(x[i] > 0);
  int all = __syncthreads_and(x[i] > -50);
  int any = __syncthreads_or(x[i] > 49);
  if (t < 32) y[i] = many + 1000 * (all != 0) + 2000 * (any != 0);
  else y[i] = __syncthreads_count(t % 2);
  if (t < 32) y[i] += 10000 * __syncthreads_count(t % 4 == 0);
}
"""


def test_barriers_that_count(cuda: Compile) -> None:
    x = np.random.default_rng(3).integers(-50, 51, (40, 96)).astype("i4")
    x[7] = np.maximum(x[7], -49)
    text = COUNTED.split("  if (t < 32) y[i] = many")[0] + (
        "  y[i] = many + 1000 * (all != 0) + 2000 * (any != 0);\n}"
    )
    got, _ = execute(
        cuda(text), "k", {"x": x, "y": np.zeros_like(x)}, ["x", "y"], grid=40, block=96, check=True
    )
    live = x[:, :90]
    want = (live > 0).sum(1) + 1000 * (live > -50).all(1) + 2000 * (live > 49).any(1)
    assert np.array_equal(got["y"][:, :90], np.repeat(want[:, None], 90, 1))
    assert not got["y"][:, 90:].any() and len(set(want // 1000)) > 2


HANDED = """
extern "C" __global__ void k(int* y) {
  __shared__ int box[64];
  if (threadIdx.x < 64) {
    box[threadIdx.x] = threadIdx.x * 3;
    asm volatile("bar.arrive 1, 128;" ::: "memory");
    y[threadIdx.x] = -1;
  } else {
    int t = threadIdx.x - 64;
    asm volatile("bar.sync 1, 128;" ::: "memory");
    y[threadIdx.x] = box[63 - t];
  }
}
"""


def test_some_arrive_and_others_wait(cuda: Compile) -> None:
    got, _ = execute(cuda(HANDED), "k", {"y": np.zeros(128, "i4")}, ["y"], block=128, check=True)
    assert got["y"].tolist() == [-1] * 64 + [3 * (63 - t) for t in range(64)]
    alone = HANDED.replace('asm volatile("bar.arrive 1, 128;" ::: "memory");', "")
    with pytest.raises(Fault, match=r"k\.cu:10: barrier not reached .* needs 128 threads"):
        execute(cuda(alone), "k", {"y": np.zeros(128, "i4")}, ["y"], block=128)
