/* ---
title = "A warp a segment, cg::reduce"
[[launch]]
kernel = "segments"
grid = ["cdiv(S, 8)"]
block = [32, 8]
args = ["x", "offsets", "y", "S"]
--- */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void segments(const float* __restrict__ x, const int* __restrict__ offsets, float* __restrict__ y, int count) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int s = blockIdx.x * blockDim.y + threadIdx.y;
    if (s >= count) return;
    float sum = 0.0f;
    for (int i = offsets[s] + warp.thread_rank(); i < offsets[s + 1]; i += warp.size()) sum += x[i];
    sum = cg::reduce(warp, sum, cg::plus<float>());
    if (warp.thread_rank() == 0) y[s] = sum;
}
