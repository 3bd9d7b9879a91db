"""Clusters: ranks, shared memory of other blocks, their barrier, multicast."""

from __future__ import annotations

import numpy as np
import pytest

from ptxemu.errors import Fault, LaunchError
from ptxemu.launch import TensorArgument
from ptxemu.tensormap import TensorMap
from tests.ptxemu.conftest import Compile, execute
from tests.ptxemu.ptxwords import PRELUDE

pytestmark = pytest.mark.nvcc

GROUPS = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n" + PRELUDE
EXCHANGE = (
    GROUPS
    + r"""
extern "C" __global__ void __cluster_dims__(2, 2, 1) exchange(int* y) {
  __shared__ int mine[32];
  cg::cluster_group cluster = cg::this_cluster();
  int rank = cluster.block_rank(), block = blockIdx.y * gridDim.x + blockIdx.x;
  mine[threadIdx.x] = block * 100 + threadIdx.x;
  BEFORE
  int other = (rank + 1) % cluster.num_blocks();
  int* theirs = cluster.map_shared_rank(mine, other);
  int got = theirs[31 - threadIdx.x];
  atomicAdd(cluster.map_shared_rank(&mine[0], 0), 0);
  unsigned far;
  asm volatile("{.reg .u32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.u32 %0, [a];}"
    : "=r"(far) : "r"(at(&mine[3])), "r"(other));
  y[(block * 2 + 0) * 32 + threadIdx.x] = got * 10 + rank;
  y[(block * 2 + 1) * 32 + threadIdx.x] = far;
  AFTER
}
"""
)


def exchange(before: str = "cluster.sync();", after: str = "cluster.sync();") -> str:
    text = EXCHANGE.replace("BEFORE", before).replace("AFTER", after)
    return text.replace("atomicAdd(cluster.map_shared_rank(&mine[0], 0), 0);", "")


def test_blocks_read_each_others_memory(hopper: Compile) -> None:
    got, _ = execute(
        hopper(exchange()), "exchange", {"y": np.zeros((6, 4, 2, 32), "i4")}, ["y"], grid=(4, 6, 1),
        block=32, check=True,
    )  # fmt: skip
    for y in range(6):
        for x in range(4):
            rank = y % 2 * 2 + x % 2
            other = (rank + 1) % 4
            block = (y // 2 * 2 + other // 2) * 4 + x // 2 * 2 + other % 2
            want = (block * 100 + 31 - np.arange(32)) * 10 + rank
            assert np.array_equal(got["y"][y, x, 0], want)
            assert (got["y"][y, x, 1] == block * 100 + 3).all()


WRONG = {
    "no barrier": (exchange(before=""), r"k\.cu:\d+: shared-memory race: warp 0 .* reads mine"),
    "not for all": (
        exchange(before="if (rank) cluster.sync();"), r"k\.cu:\d+: shared-memory race",
    ),
    "a block has ended": (
        exchange(before="if (rank == 1) return; cluster.sync();"), "of a block that has exited",
    ),
    "no such rank": (
        exchange().replace("(rank + 1) % cluster.num_blocks()", "rank + 2"), "no block has rank 4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_goes_wrong_between_blocks(hopper: Compile, name: str) -> None:
    text, words = WRONG[name]
    with pytest.raises(Fault, match=words):
        execute(
            hopper(text), "exchange", {"y": np.zeros((2, 2, 2, 32), "i4")}, ["y"],
            grid=(2, 2, 1), block=32, check=True,
        )  # fmt: skip


def test_the_grid_is_whole_clusters(hopper: Compile) -> None:
    with pytest.raises(LaunchError, match=r"grid \(3, 2, 1\) in clusters of \(2, 2, 1\)"):
        execute(hopper(exchange()), "exchange", {"y": np.zeros(9, "i4")}, ["y"], grid=(3, 2, 1))


MULTICAST = (
    GROUPS
    + r"""
extern "C" __global__ void __cluster_dims__(4, 1, 1)
spread(const __grid_constant__ CUtensorMap map, float* y) {
  __shared__ __align__(128) float tile_[4][32];
  __shared__ uint64_t bar;
  cg::cluster_group cluster = cg::this_cluster();
  int rank = cluster.block_rank();
  if (threadIdx.x == 0) { init(&bar, 1); expect(&bar, 512); }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  cluster.sync();
  if (threadIdx.x == 0)   // each block loads one row, for all of them
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" :: "r"(at(tile_[rank])), "l"(&map),
      "r"(0), "r"(blockIdx.x), "r"(at(&bar)), "h"((short)0xf) : "memory");
  wait(&bar, 0);
  for (int r = 0; r < 4; ++r) y[(blockIdx.x * 4 + r) * 32 + threadIdx.x] = tile_[r][threadIdx.x];
  cluster.sync();
}
"""
)


def test_multicast(hopper: Compile) -> None:
    x = np.random.default_rng(3).standard_normal((8, 32)).astype("f4")
    m = TensorMap("float32", (32, 8), (128,), (32, 1))
    got, _ = execute(
        hopper(MULTICAST), "spread", {"x": x, "y": np.zeros((2, 4, 4, 32), "f4")},
        [TensorArgument("x", m), "y"], grid=8, check=True, unwritten=["y"],
    )  # fmt: skip
    assert np.array_equal(got["y"], np.broadcast_to(x.reshape(2, 1, 4, 32), (2, 4, 4, 32)))
