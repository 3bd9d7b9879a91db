"""Which lines a value comes from, and who wrote it."""

from __future__ import annotations

import numpy as np

from ptxemu.arena import memory_for
from ptxemu.faults.origins import Origins
from ptxemu.launch import KernelLaunch
from ptxemu.ptx.instructions import Ptx
from ptxemu.run import run
from tests.ptxemu.conftest import Compile

THROUGH_SHARED = """\
extern "C" __global__ void k(const float4* x, float4* y, unsigned* count) {
  __shared__ float4 tile[64];
  int t = threadIdx.x;
  float4 v = x[blockIdx.x * 64 + t];
  if (t == 5)
    v.x = x[9].x;
  tile[t] = v;
  __syncthreads();
  y[blockIdx.x * 64 + t] =
    tile[63 - t];
  if (t < 3)
    atomicAdd(count, 1u);
  else if (t == 7)
    atomicMax(count + 1, 7u);
}
"""

EXCHANGED = """\
extern "C" __global__ void k(const float4* x, float4* y, unsigned* count) {
  int t = threadIdx.x;
  float v = 1;
  if (t == 40)
    v = x[3].x;
  float other =
    __shfl_xor_sync(~0u, v, 1);
  y[t].x = other;
}
"""

COPIED = """\
extern "C" __global__ void k(const float4* x, float4* y, unsigned* count) {
  __shared__ float4 tile[64];
  unsigned to = __cvta_generic_to_shared(&tile[threadIdx.x]);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(to), "l"(x + threadIdx.x));
  asm volatile("cp.async.wait_all;");
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x ^ 1];
}
"""


def traced(module: Ptx, blocks: int) -> Origins:
    x = np.arange(blocks * 256, dtype="f4")
    arena = memory_for(module, {"x": x, "y": np.zeros_like(x), "count": np.zeros(2, "u4")})
    origins = Origins(module, arena)
    launch = KernelLaunch("k", (blocks, 1, 1), (64, 1, 1), ["x", "y", "count"])
    run(module, launch, arena, origins=origins)
    return origins


def lines_of(origins: Origins, name: str, flat: int) -> set[int]:
    found = origins.of(name, np.array([flat]), 4)[0]
    return {origins.lines[i][1] for i in np.nonzero(found)[0]}


def test_lines_follow_values_through_shared_memory(cuda: Compile) -> None:
    origins = traced(cuda(THROUGH_SHARED), 2)
    # Thread 58 of block 1 writes what thread 5 read at line 6, which its neighbours never did.
    touched, spared = (64 + 58) * 4, (64 + 57) * 4
    assert {4, 6, 7} <= lines_of(origins, "y", touched)
    assert {4, 7} <= lines_of(origins, "y", spared)
    assert 6 not in lines_of(origins, "y", spared)
    # Only x was replaced.
    assert 6 not in lines_of(origins, "y", touched + 1)
    writer = origins.writer("y", touched + 3, 4)
    assert writer is not None
    assert (writer.block, writer.thread, writer.grid) == (1, 58, (2, 1, 1))
    assert writer.instr.op == "st"


def test_what_nobody_writes_has_no_writer(cuda: Compile) -> None:
    origins = traced(cuda(EXCHANGED), 1)
    assert origins.writer("y", 4, 4) is not None
    assert origins.writer("y", 5, 4) is None
    assert not origins.of("y", np.array([5]), 4).any()
    assert [instr.op for instr in origins.stores["y"]] == ["st"]
    assert "count" not in origins.stores


def test_atomics_keep_the_lines_of_all(cuda: Compile) -> None:
    origins = traced(cuda(THROUGH_SHARED), 1)
    assert len(origins.stores["count"]) == 2
    assert origins.of("count", np.array([0, 1]), 4).any(axis=1).all()
    last = origins.writer("count", 0, 4)
    assert last is not None and last.thread == 2


def test_exchanges_mix_the_lines_of_a_warp(cuda: Compile) -> None:
    origins = traced(cuda(EXCHANGED), 1)
    assert 5 not in lines_of(origins, "y", 4 * 3)  # the first warp loads nothing
    assert 5 in lines_of(origins, "y", 4 * 41)
    assert 5 in lines_of(origins, "y", 4 * 63)  # more than the truth, never less


def test_asynchronous_copies_carry_lines(cuda: Compile) -> None:
    origins = traced(cuda(COPIED), 1)
    assert {4, 7} <= lines_of(origins, "y", 17)
