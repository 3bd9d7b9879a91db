"""Clocks that only grow, and what waits by them."""

from __future__ import annotations

import numpy as np
import pytest

from ptxemu.errors import Fault
from tests.ptxemu.conftest import Compile, execute

X = np.random.default_rng(38).standard_normal(1024).astype("f4")

BARRIER = """
#include <cuda/barrier>
#include <cooperative_groups.h>
#pragma nv_diag_suppress static_var_with_dynamic_init
extern "C" __global__ void k(const float* x, float* y) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ float s[256];
  auto block = cooperative_groups::this_thread_block();
  if (block.thread_rank() == 0) init(&bar, COUNT);
  block.sync();
  int i = blockIdx.x * 256 + threadIdx.x;
  COPY
  bar.arrive_and_wait();
  y[i] = 2 * s[255 - threadIdx.x];
  auto token = bar.arrive();
  bar.wait(std::move(token));
}
"""
ASYNC = "cuda::memcpy_async(s + threadIdx.x, x + i, sizeof(float), bar);"


@pytest.mark.slow
@pytest.mark.parametrize("copy", [ASYNC, "s[threadIdx.x] = x[i];"])
def test_a_barrier_of_the_library_is_waited_for(cuda: Compile, copy: str) -> None:
    text = BARRIER.replace("COUNT", "block.size()").replace("COPY", copy)
    buffers = {"x": X, "y": np.zeros_like(X)}
    got, _ = execute(cuda(text), "k", buffers, ["x", "y"], grid=4, block=256, check=True)
    assert np.array_equal(got["y"], 2 * X.reshape(4, 256)[:, ::-1].ravel())


@pytest.mark.slow
def test_a_barrier_that_one_more_should_reach_ends_as_a_fault(cuda: Compile) -> None:
    text = BARRIER.replace("COUNT", "block.size() + 1").replace("COPY", "s[threadIdx.x] = x[i];")
    buffers = {"x": X, "y": np.zeros_like(X)}
    with pytest.raises(Fault, match=r"k\.cu:13 .*mbarrier bar"):
        execute(cuda(text), "k", buffers, ["x", "y"], grid=4, block=256, check=True)


SPIN = """
extern "C" __global__ void k(long long* y) {
  long long begin = clock64(), later;
  unsigned low = clock();
  do later = clock64(); while (later - begin < 1000000);
  unsigned long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  unsigned u; asm volatile("mov.u32 %0, %globaltimer_lo;" : "=r"(u));
  y[4 * threadIdx.x] = later - begin;
  y[4 * threadIdx.x + 1] = clock() - low;
  y[4 * threadIdx.x + 2] = u - (unsigned)t;
  y[4 * threadIdx.x + 3] = t > 0;
}
"""


def test_clocks_only_grow(cuda: Compile) -> None:
    got, counts = execute(cuda(SPIN), "k", {"y": np.zeros((64, 4), "i8")}, ["y"], block=64)
    assert (got["y"][:, 0] >= 1_000_000).all()
    assert (got["y"][:, 1] > got["y"][:, 0]).all()
    assert (got["y"][:, 2:] > 0).all()
    assert counts.schedule_dependent  # how often the loop runs is a matter of timing


def test_who_backs_off_by_the_time_lets_others_go_on(cuda: Compile) -> None:
    text = """
    extern "C" __global__ void k(volatile int* flag, int* y) {
      if (threadIdx.x < 32) {
        long long begin = clock64();
        while (*flag == 0) if (clock64() - begin > 4000) { __nanosleep(100); begin = clock64(); }
        y[threadIdx.x] = *flag;
      } else if (threadIdx.x == 32) *flag = 7;
    }
    """
    buffers = {"flag": np.zeros(1, "i4"), "y": np.zeros(32, "i4")}
    got, _ = execute(cuda(text), "k", buffers, ["flag", "y"], block=64)
    assert (got["y"] == 7).all()
