"""Code that nobody wrote for the emulator: CUB, cooperative groups, the math library."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.ptxemu.conftest import Compile, execute
from workbench.compile.compilers import find_nvcc

pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.skipif(find_nvcc() is None, reason="these headers need the CUDA toolkit"),
]

RNG = np.random.default_rng(8)

CUB = """
#include <cub/cub.cuh>
extern "C" __global__ void blocks(const float* x, float* sums, int* ranks, unsigned* keys) {
  using Reduce = cub::BlockReduce<float, 128>;
  using Scan = cub::BlockScan<int, 128>;
  using Sort = cub::BlockRadixSort<unsigned, 128, 4>;
  __shared__ typename Reduce::TempStorage reduce;
  __shared__ typename Scan::TempStorage scan;
  __shared__ typename Sort::TempStorage sort;
  int i = blockIdx.x * 128 + threadIdx.x;
  float sum = Reduce(reduce).Sum(x[i]);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
  int rank;
  Scan(scan).ExclusiveSum(x[i] > 0 ? 1 : 0, rank);
  ranks[i] = rank;
  unsigned mine[4];
  for (int k = 0; k < 4; ++k) mine[k] = keys[i * 4 + k];
  Sort(sort).Sort(mine);
  for (int k = 0; k < 4; ++k) keys[i * 4 + k] = mine[k];
}
"""


@pytest.mark.slow
def test_cub_reduces_scans_and_sorts(cuda: Compile) -> None:
    x = RNG.standard_normal((6, 128)).astype("f4")
    keys = RNG.integers(0, 1 << 32, (6, 512), dtype=np.uint64).astype("u4")
    got, _ = execute(
        cuda(CUB), "blocks",
        {"x": x, "sums": np.zeros(6, "f4"), "ranks": np.zeros((6, 128), "i4"), "keys": keys},
        ["x", "sums", "ranks", "keys"], grid=6, block=128, check=True,
    )  # fmt: skip
    assert np.abs(got["sums"] - x.astype("f8").sum(1)).max() < 1e-4
    assert np.array_equal(got["ranks"], np.cumsum(x > 0, axis=1) - (x > 0))
    assert np.array_equal(got["keys"], np.sort(keys, axis=1))


GROUPS = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void tiles(const float* x, float* y) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
  float v = x[blockIdx.x * block.size() + block.thread_rank()];
  for (int o = tile.size() / 2; o; o /= 2) v += tile.shfl_down(v, o);
  if (tile.thread_rank() == 0) y[(blockIdx.x * blockDim.x + threadIdx.x) / 16] = v;
  block.sync();
}
"""


def test_cooperative_groups(cuda: Compile) -> None:
    x = RNG.standard_normal(1024).astype("f4")
    got, _ = execute(
        cuda(GROUPS), "tiles", {"x": x, "y": np.zeros(64, "f4")}, ["x", "y"], grid=8, block=128
    )
    assert np.abs(got["y"] - x.astype("f8").reshape(-1, 16).sum(1)).max() < 1e-5


MATH = """
extern "C" __global__ void curves(const float* x, float* y, double* d, unsigned long long* w,
                                  int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  y[i] = tanhf(v) + erff(v) + powf(fabsf(v), 1.5f) + logf(fabsf(v) + 1) + cosf(v * 100) + cbrtf(v);
  double q = v;
  d[i] = sin(q * 1e6) + exp(q) + sqrt(fabs(q)) / (1 + q * q) + log(fabs(q) + 1) + pow(fabs(q), 0.3);
  unsigned long long a = i * 0x9E3779B97F4A7C15ull, b = ~a;
  w[i] = __umul64hi(a, b) ^ (a % 1000003ull) ^ ((long long)b / 7);
}
"""


def test_the_math_library(cuda: Compile) -> None:
    n = 600
    x = RNG.standard_normal(n).astype("f4")
    got, _ = execute(
        cuda(MATH), "curves",
        {"x": x, "y": np.zeros(n, "f4"), "d": np.zeros(n), "w": np.zeros(n, "u8")},
        ["x", "y", "d", "w", n], grid=5, block=128,
    )  # fmt: skip
    v = x.astype("f8")
    waves = np.cos((x * np.float32(100)).astype("f8"))
    y = np.tanh(v) + np.vectorize(math.erf)(v) + abs(v) ** 1.5 + np.log(abs(v) + 1) + waves
    assert np.abs(got["y"] - y - np.cbrt(v)).max() < 1e-5
    d = np.sin(v * 1e6) + np.exp(v) + np.sqrt(abs(v)) / (1 + v * v) + np.log(abs(v) + 1)
    assert np.abs(got["d"] - d - abs(v) ** 0.3).max() < 1e-12
    for i in range(n):
        a = i * 0x9E3779B97F4A7C15 % (1 << 64)
        b = ~a % (1 << 64)
        signed = b - (1 << 64) if b >> 63 else b
        seventh = abs(signed) // 7 * (1 if signed >= 0 else -1)
        assert int(got["w"][i]) == (a * b >> 64) ^ (a % 1000003) ^ (seventh % (1 << 64))
