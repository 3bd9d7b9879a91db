"""Launches that go on where a GPU does: faults are collected, hosts are waited for, text comes."""

from __future__ import annotations

import threading
import time
from typing import Any, Unpack

import numpy as np
import pytest

import ptxemu
from ptxemu.api import Options
from tests.ptxemu.conftest import Compile

CODE = r"""
#include <cstdio>
#include <cassert>
extern "C" {
__global__ void fill(int* list, int* rest, int* count, int n) {
  __shared__ int mine[64]; __shared__ int taken;
  if (threadIdx.x == 0) taken = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int at = atomicAdd(&taken, 1);
    if (at < 64) mine[at] = i; else { taken = 64; list[atomicAdd(count, 1)] = i; }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < taken; i += blockDim.x) rest[i] = mine[i];
}
__global__ void turn(const float* in, float* out) {
  __shared__ float t[8][9]; int x = threadIdx.x & 7, y = threadIdx.x >> 3;
  for (int i = y; i < 8; i += 4) t[i][x] = in[i * 8 + x];
  for (int i = y; i < 8; i += 4) out[i * 8 + x] = t[x][i];
}
__global__ void add(float* sum) { atomicAdd(sum, 1.f); }
__global__ void copy(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void matters(int* out) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x + 32];
}
__global__ void harmless(int* out) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x + 32] * 0 + s[threadIdx.x];
}
__global__ void apart(int* out) {
  if (threadIdx.x & 1) __syncthreads(); else out[threadIdx.x] = 1;
  out[threadIdx.x] += 2;
}
__global__ void wait_for(volatile unsigned* latch, int* out) { while (*latch < 1) {} *out = 7; }
__global__ void each(volatile unsigned* latch, int* out) {
  while (*latch < 1) {}
  out[blockIdx.x * blockDim.x + threadIdx.x] = 7;
}
__global__ void say(int n) {
  if (threadIdx.x == 0) for (int i = 0; i < n; ++i) printf("block %d says %60d\n", blockIdx.x, i);
}
__global__ void accent() { printf("\xc3\xa9%c%c", 0xc3, 0xa9); }
__global__ void racing_then_lost(int* out) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = s[63 - threadIdx.x];
  out[1000 + threadIdx.x] = 1;
}
__global__ void sure(int n) { assert(n > 0); }
}
"""


def ran(
    cuda: Compile, kernel: str, grid: int, block: int, args: list[Any], **options: Unpack[Options]
) -> ptxemu.Result:
    options = {"go_on": True, "workers": 1, **options}
    return ptxemu.Module(cuda(CODE)).kernel(kernel).run(grid, block, args, **options)


def kinds(result: ptxemu.Result) -> list[str]:
    return [fault.kind for fault in result.faults]


def test_a_race_is_told_once_a_place_and_the_result_is_there(cuda: Compile) -> None:
    listed, rest, count = np.zeros(1000, "i4"), np.zeros(64, "i4"), np.zeros(1, "i4")
    got = ran(cuda, "fill", 1, 256, [listed, rest, count, 1000])
    assert set(kinds(got)) == {"race"} and not any(fault.fatal for fault in got.faults)
    places = [fault.place for fault in got.faults]
    assert len(set(places)) == len(places) and all(place is not None for place in places)
    out = got.outputs
    assert out["arg2"] == 936
    assert out["arg0"][:936].sum() + out["arg1"].sum() == 1000 * 999 // 2
    assert got.counts.thread_instructions > 1000


def test_lanes_without_syncwarp_and_their_transpose(cuda: Compile) -> None:
    x = np.arange(64, dtype="f4")
    got = ran(cuda, "turn", 1, 32, [x, np.zeros_like(x)])
    assert kinds(got) == ["race"]
    assert got.outputs["arg1"].reshape(8, 8).T.reshape(-1).tolist() == x.tolist()


def test_what_nothing_has_written_is_told_and_read(cuda: Compile) -> None:
    got = ran(cuda, "add", 1, 32, [np.zeros(1, "f4")], unwritten=["arg0"])
    assert kinds(got) == ["uninitialized"] and got.outputs["arg0"] == 32
    got = ran(cuda, "copy", 1, 32, [np.ones(32, "i4"), np.zeros(32, "i4")], unwritten=["arg0"])
    assert kinds(got) == ["uninitialized"] and got.outputs["arg1"].sum() == 32


def test_uninitialized_shared_memory_is_told_where_it_matters(cuda: Compile) -> None:
    module = ptxemu.Module(cuda(CODE))
    for _ in range(6):  # also in launches that are not looked at as closely
        got = module.kernel("matters").run(1, 32, [np.zeros(32, "i4")], go_on=True, workers=1)
        assert kinds(got) == ["uninitialized"]
        got = module.kernel("harmless").run(1, 32, [np.zeros(32, "i4")], go_on=True, workers=1)
        assert kinds(got) == [] and got.outputs["arg0"].tolist() == list(range(32))


def test_a_barrier_in_a_branch_is_told_and_passed(cuda: Compile) -> None:
    got = ran(cuda, "apart", 1, 32, [np.zeros(32, "i4")])
    assert kinds(got) == ["barrier"]
    assert got.outputs["arg0"].tolist() == [3, 2] * 16


def test_what_a_gpu_does_not_survive_ends_the_launch(cuda: Compile) -> None:
    got = ran(cuda, "racing_then_lost", 1, 64, [np.zeros(64, "i4")])
    assert kinds(got) == ["race", "out-of-bounds"]
    assert [fault.fatal for fault in got.faults] == [False, True]
    with pytest.raises(ptxemu.Fault, match="out of bounds"):
        _ = got.counts
    assert kinds(ran(cuda, "sure", 1, 1, [0])) == ["assert"]


def test_faults_of_worker_processes_come_back(cuda: Compile) -> None:
    x, y = np.zeros(32, "i4"), np.zeros(32, "i4")
    got = ran(cuda, "copy", 400, 1024, [x, y], workers=2)
    assert kinds(got) == ["out-of-bounds"]
    got = ran(cuda, "matters", 4000, 32, [y], workers=2)
    assert kinds(got) == ["uninitialized"] and got.counts.blocks_run == 4000


@pytest.mark.parametrize(("kernel", "blocks", "workers"), [("wait_for", 1, 1), ("each", 400, 2)])
def test_a_launch_waits_for_its_host(cuda: Compile, kernel: str, blocks: int, workers: int) -> None:
    module = ptxemu.Module(cuda(CODE))
    memory = module.memory({"latch": np.zeros(1, "u4"), "out": np.zeros(256 * blocks, "i4")})
    writer = threading.Timer(0.2, lambda: memory.fill("latch", np.ones(1, "u4").view("u1")))
    end = time.monotonic() + 60

    def host() -> bool:
        time.sleep(0.002)
        return time.monotonic() < end

    writer.start()
    threads = 1 if kernel == "wait_for" else 256
    got = module.kernel(kernel).run(
        blocks, threads, ["latch", "out"], memory=memory, go_on=True, host=host, workers=workers
    )
    assert got.faults == () and got.outputs["out"][: threads * blocks].min() == 7


def test_a_wait_without_a_host_is_endless(cuda: Compile) -> None:
    args = [np.zeros(1, "u4"), np.zeros(1, "i4")]
    for host in (None, lambda: False):
        assert kinds(ran(cuda, "wait_for", 1, 1, args, host=host)) == ["endless"]


def test_all_text_comes_in_the_order_of_the_blocks(cuda: Compile) -> None:
    said: list[str] = []
    ran(cuda, "say", 600, 64, [3], workers=2, print=said.append)
    lines = [f"block {block} says {i:60}\n" for block in range(600) for i in range(3)]
    assert "".join(said) == "".join(lines)
    said.clear()
    ran(cuda, "say", 1, 32, [15_000], print=said.append, limits=ptxemu.Limits(1 << 40))
    assert "".join(said).count("\n") == 15_000, "more than the buffer of a GPU"
    said.clear()
    ran(cuda, "accent", 1, 1, [], print=said.append)
    assert "".join(said).encode("utf-8", "surrogateescape") == b"\xc3\xa9\xc3\xa9"
