/* ---
title = "cub::BlockRadixSort of a row"
[[launch]]
kernel = "topk"
grid = ["R"]
block = [128]
args = ["x", "y", "C"]
--- */
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>

extern "C" __global__ void __launch_bounds__(128) topk(const float* x, float* y, int columns) {
    using Load = cub::BlockLoad<float, 128, 8, cub::BLOCK_LOAD_TRANSPOSE>;
    using Sort = cub::BlockRadixSort<float, 128, 8>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Sort::TempStorage sort;
    } temp;
    float items[8];
    Load(temp.load).Load(x + blockIdx.x * columns, items);
    __syncthreads();
    Sort(temp.sort).SortDescending(items);
    if (threadIdx.x == 0) {
#pragma unroll
        for (int k = 0; k < 8; ++k) y[blockIdx.x * 8 + k] = items[k];
    }
}
