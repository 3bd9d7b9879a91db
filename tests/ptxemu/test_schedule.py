"""Which instructions run as often as the timing of warps has it, and which do not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptxemu.conftest import Compile, execute

pytestmark = pytest.mark.nvcc

KERNELS = """
extern "C" __global__ void spin(int* a) {
  if (threadIdx.x == 0) {
    while (atomicCAS(&a[0], 0, 1) != 0) {}
    *(volatile int*)&a[1] += 1;
    __threadfence();
    atomicExch(&a[0], 0);
  }
}
extern "C" __global__ void hold(int* a) {
  bool done = false;
  while (!done) {
    if (atomicCAS(&a[0], 0, 1) == 0) {
      *(volatile int*)&a[1] += 1;
      __threadfence();
      atomicExch(&a[0], 0);
      done = true;
    }
  }
}
extern "C" __global__ void swaps(int* a) {
  int seen, old = a[0];
  do {
    seen = old;
    old = atomicCAS(&a[0], seen, __float_as_int(1.0f + __int_as_float(seen)));
  } while (seen != old);
}
extern "C" __global__ void look_back(volatile int* a) {
  if (threadIdx.x) return;
  int before = 0;
  if (blockIdx.x) while ((before = a[blockIdx.x - 1]) == 0) {}
  __threadfence();
  a[blockIdx.x] = before + 1;
}
extern "C" __global__ void counted(int* a) {
  for (int i = 0; i < 3; ++i) atomicAdd(&a[threadIdx.x % 4], 1);
}
extern "C" __global__ void one_swap(int* a) {
  for (int i = 0; i < 3; ++i) a[4 + threadIdx.x % 4] = atomicCAS(&a[0], i, i + 1) * 0;
}
extern "C" __global__ void fresh(volatile int* a) {
  int sum = 0;
  for (int i = 0; i < 4; ++i) sum += a[i];
  a[4] = sum * 0;
}
extern "C" __global__ void until(int* a) {
  __shared__ volatile int left;
  if (threadIdx.x == 0) left = 3;
  __syncthreads();
  while (left) {
    __syncthreads();
    if (threadIdx.x == 0) left = left - 1;
    __syncthreads();
  }
}
extern "C" __global__ void words(unsigned long long* a) {
  __shared__ unsigned long long sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, 1ull + threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) a[0] = sum;
}
extern "C" __global__ void own_words(unsigned long long* a) {
  __shared__ unsigned long long sum[32];
  sum[threadIdx.x / 32] = 0;
  __syncwarp();
  atomicAdd(&sum[threadIdx.x / 32], 1ull + threadIdx.x);
}
extern "C" __global__ void first_come(int* a) {
  if (atomicCAS(&a[threadIdx.x / 3], 0, 1) == 0) a[31] = 5;
}
extern "C" __global__ void seen_already(int* a) {
  if (!(((volatile int*)a)[threadIdx.x / 3] & 4)) atomicOr(&a[threadIdx.x / 3], 4);
}
extern "C" __global__ void last_block(int* a) {
  __shared__ bool last;
  if (threadIdx.x == 0) last = atomicAdd(&a[0], 1) == gridDim.x - 1;
  __syncthreads();
  if (last) a[1 + threadIdx.x % 16] = 3;
}
extern "C" __global__ void narrow(int* a) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, (int)threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) a[0] = sum;
}
extern "C" __global__ void packed(int* a) {
  if (threadIdx.x % 3 == 0) a[1 + atomicAdd(&a[0], 1)] = 7;
}
extern "C" __global__ void packed_by_block(int* a) {
  __shared__ int mine, first;
  if (threadIdx.x == 0) mine = 0;
  __syncthreads();
  int place = threadIdx.x % 3 == 0 ? atomicAdd(&mine, 1) : -1;
  __syncthreads();
  if (threadIdx.x == 0) first = atomicAdd(&a[0], mine);
  __syncthreads();
  if (place >= 0) a[1 + first + place] = 7;
}
extern "C" __global__ void queue(int* a) {
  __shared__ int tile;
  if (threadIdx.x == 0) tile = atomicAdd(&a[0], 1);
  __syncthreads();
  if (threadIdx.x < 8) a[8 + tile * 8 + threadIdx.x] = 1;
}
extern "C" __global__ void short_queue(int* a) {
  __shared__ int tile;
  if (threadIdx.x == 0) tile = atomicAdd(&a[0], 4);
  __syncthreads();
  if (threadIdx.x < 4) a[8 + tile + threadIdx.x] = 1;
}
extern "C" __global__ void drawn_unlike(int* a) {
  __shared__ int tile;
  if (threadIdx.x == 0) tile = atomicAdd(&a[0], 1 + blockIdx.x % 2);
  __syncthreads();
  if (threadIdx.x < 4) a[8 + tile + threadIdx.x] = 1;
}
extern "C" __global__ void whole_warps(int* a) {
  if (threadIdx.x < 32) a[1 + atomicAdd(&a[0], 1) % 64] = 7;
}
extern "C" __global__ void shifted(int* a) {
  if (threadIdx.x % 3 == 0) a[1 + __popc(0xffffffffu << atomicAdd(&a[0], 1))] = 7;
}
extern "C" __global__ void by_rows(int* a, int width) {
  __shared__ int row;
  if (threadIdx.x == 0) row = atomicAdd(&a[0], 1);
  __syncthreads();
  a[8 + (row * width + threadIdx.x) % 64] = 1;
}
"""


@pytest.mark.parametrize(
    ("kernel", "timed"),
    [
        ("spin", {"atom", "bra", "setp"}),
        ("hold", {"atom"}),
        ("swaps", {"atom", "bra", "setp"}),
        ("look_back", {"ld", "bra", "setp"}),
        ("words", {"atom"}),
        ("first_come", {"st"}),
        ("seen_already", {"atom"}),
        ("last_block", set()),
        ("counted", set()),
        ("one_swap", set()),
        ("fresh", set()),
        ("until", set()),
        ("own_words", set()),
        ("narrow", set()),
        ("packed", {"st"}),
        ("packed_by_block", {"st"}),
        ("drawn_unlike", {"st"}),
        ("short_queue", set()),
        ("queue", set()),
        ("whole_warps", set()),
        ("shifted", set()),
        ("by_rows", set()),
    ],
)
def test_what_depends_on_timing(cuda: Compile, kernel: str, timed: set[str]) -> None:
    args: list[str | int] = ["a", 8] if kernel == "by_rows" else ["a"]
    _, found = execute(cuda(KERNELS), kernel, {"a": np.zeros(128, "i4")}, args, grid=4, block=64)
    ops = {"atom" if row.instr.op == "red" else row.instr.op for row in found.schedule_dependent}
    assert bool(ops) == bool(timed) and timed <= ops


SUMS = """
extern "C" __global__ void one_word(float* a) {
  __shared__ float sum;
  if (threadIdx.x == 0) sum = 0;
  __syncwarp();
  atomicAdd(&sum, (float)threadIdx.x);
}
extern "C" __global__ void own_words(float* a) {
  __shared__ float sum[32];
  sum[threadIdx.x] = 0;
  atomicAdd(&sum[threadIdx.x], 1.0f);
}
extern "C" __global__ void doubles(float* a) {
  __shared__ double sum;
  if (threadIdx.x == 0) sum = 0;
  __syncwarp();
  atomicAdd(&sum, (double)threadIdx.x);
}
extern "C" __global__ void extremes(float* a) {
  __shared__ unsigned long long most;
  if (threadIdx.x == 0) most = 0;
  __syncwarp();
  atomicMax(&most, 7ull * threadIdx.x);
}
"""


@pytest.mark.parametrize(
    ("kernel", "turns", "instructions"),
    [("one_word", 32, 192), ("own_words", 1, 5), ("doubles", 32, 224), ("extremes", 32, 288)],
)
def test_a_sum_that_is_a_loop_counts_its_turns(
    cuda: Compile, kernel: str, turns: int, instructions: int
) -> None:
    _, found = execute(cuda(SUMS), kernel, {"a": np.zeros(32, "f4")}, ["a"], block=32)
    code = found.machine_code()
    assert code is not None
    ((row, issued),) = (
        (row, issued)
        for row, issued in zip(found.rows, code.issued, strict=True)
        if row.instr.op in ("atom", "red")
    )
    assert row.site.spins == turns
    assert issued == instructions


def test_one_warp_alone_meets_nobody(cuda: Compile) -> None:
    _, found = execute(cuda(KERNELS), "swaps", {"a": np.zeros(32, "i4")}, ["a"], block=32)
    assert not found.schedule_dependent
