/* ---
title = "Eight lanes a row, shuffles within them"
[[launch]]
kernel = "spmv"
grid   = ["cdiv(R, 16)"]
block  = [128]
args   = ["R", "start", "column", "value", "x", "y"]
--- */
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

template <int LANES>
__device__ void rows(int n, const int* __restrict__ start, const int* __restrict__ column,
                     const float* __restrict__ value, const float* __restrict__ x, float* y) {
    auto group = cg::tiled_partition<LANES>(cg::this_thread_block());
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    if (row >= n) return;
    float sum = 0;
    for (int j = start[row] + group.thread_rank(); j < start[row + 1]; j += LANES)
        sum = fmaf(value[j], x[column[j]], sum);
    for (int d = LANES / 2; d; d >>= 1) sum += group.shfl_xor(sum, d);
    if (group.thread_rank() == 0) y[row] = sum;
}

extern "C" __global__ void spmv(int n, const int* start, const int* column, const float* value,
                                const float* x, float* y) {
    rows<8>(n, start, column, value, x, y);
}
