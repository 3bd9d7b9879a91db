/* ---
title = "Cooperative groups: tiles and cg::reduce"
[[launch]]
kernel = "clear"
grid   = [1]
block  = [1]
args   = ["total"]
[[launch]]
kernel = "reduce"
grid   = ["min(132, cdiv(N, 1024))"]
block  = [512]
args   = ["x", "total", "N"]
--- */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

extern "C" __global__ void clear(float* total) { *total = 0.0f; }

extern "C" __global__ void reduce(const float* __restrict__ x, float* total, int n) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
    __shared__ float sums[16];
    float v = 0.0f;
    for (int i = blockIdx.x * blockDim.x + block.thread_rank(); i < n; i += gridDim.x * blockDim.x)
        v += x[i];
    v = cg::reduce(tile, v, cg::plus<float>());
    if (tile.thread_rank() == 0) sums[tile.meta_group_rank()] = v;
    block.sync();
    if (tile.meta_group_rank() == 0) {
        v = tile.thread_rank() < tile.meta_group_size() ? sums[tile.thread_rank()] : 0.0f;
        v = cg::reduce(tile, v, cg::plus<float>());
        if (tile.thread_rank() == 0) atomicAdd(total, v);
    }
}
