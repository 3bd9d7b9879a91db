/* ---
title = "One block, cub::BlockDiscontinuity and BlockScan"
[[fill]]
name = "values"
value = 0
[[fill]]
name = "lengths"
value = 0
[[launch]]
kernel = "rle"
grid = [1]
block = [256]
args = ["x", "values", "lengths", "runs", "N"]
--- */
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_scan.cuh>
#define ITEMS 8
struct Differs {
    __device__ bool operator()(int a, int b) const { return a != b; }
};
extern "C" __global__ void rle(const int *x, int *values, int *lengths, int *runs, int n)
{
    using Disc = cub::BlockDiscontinuity<int, 256>;
    using Scan = cub::BlockScan<int, 256>;
    __shared__ typename Disc::TempStorage disc;
    __shared__ typename Scan::TempStorage scan;
    __shared__ int start[256 * ITEMS + 1];
    int items[ITEMS], flags[ITEMS], ranks[ITEMS], total;
    for (int k = 0; k < ITEMS; k++) {
        int i = threadIdx.x * ITEMS + k;
        items[k] = i < n ? x[i] : -1;
    }
    Disc(disc).FlagHeads(flags, items, Differs());
    for (int k = 0; k < ITEMS; k++)
        if (threadIdx.x * ITEMS + k >= n)
            flags[k] = 0;
    Scan(scan).ExclusiveSum(flags, ranks, total);
    for (int k = 0; k < ITEMS; k++)
        if (flags[k]) {
            start[ranks[k]] = threadIdx.x * ITEMS + k;
            values[ranks[k]] = items[k];
        }
    if (threadIdx.x == 0) {
        start[total] = n;
        *runs = total;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < total; i += blockDim.x)
        lengths[i] = start[i + 1] - start[i];
}
