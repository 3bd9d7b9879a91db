/* ---
title = "Groups of eight lanes per edge, float4, the row in registers"
change = "Four edges of a row at a time; the row of x is loaded once."
requires = "K == 64"
requires_why = "eight lanes keep eight floats each"
[[launch]]
kernel = "sddmm"
grid = ["cdiv(N, 4)"]
block = [128]
args = ["row", "col", "w", "x", "y", "out", "N"]
--- */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__device__ __forceinline__ float dot4(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

extern "C" __global__ void __launch_bounds__(128) sddmm(const int* __restrict__ row, const int* __restrict__ col,
                                                        const float* __restrict__ w, const float4* __restrict__ x,
                                                        const float4* __restrict__ y, float* __restrict__ out, int n) {
    auto group = cg::tiled_partition<8>(cg::this_thread_block());
    const int r = blockIdx.x * 4 + threadIdx.x / 32;
    if (r >= n) return;
    const int sub = (threadIdx.x % 32) / 8, l = group.thread_rank();
    const int begin = row[r], end = row[r + 1];
    if (begin == end) return;
    const float4 x0 = x[r * 16 + l], x1 = x[r * 16 + 8 + l];
    for (int e = begin + sub; e < end; e += 4) {
        const float4* yr = y + col[e] * 16;
        float sum = dot4(x0, yr[l]) + dot4(x1, yr[l + 8]);
        sum = cg::reduce(group, sum, cg::plus<float>());
        if (l == 0) out[e] = sum * w[e];
    }
}
