/* ---
title = "Count per block, one block scans, ranks by looking back, rows copied a warp each"
requires = "E <= 32"
requires_why = "experts fit into a warp"
[defines]
TPB = 128
[[scratch]]
name = "counts"
dtype = "int32"
shape = ["cdiv(T, TPB) * E"]
[[launch]]
kernel = "count"
grid = ["cdiv(T, TPB)"]
block = ["TPB"]
args = ["expert", "counts", "T", "E"]
[[launch]]
kernel = "scan"
grid = [1]
block = [32]
args = ["counts", "offset", "cdiv(T, TPB)", "E"]
[[launch]]
kernel = "rank"
grid = ["cdiv(T, TPB)"]
block = ["TPB"]
args = ["expert", "counts", "dest", "T", "E"]
[[launch]]
kernel = "copy"
grid = ["cdiv(T, 8)"]
block = [32, 8]
args = ["x", "dest", "y", "T", "D"]
--- */
#include <cuda_fp16.h>
extern "C" __global__ void count(const int* __restrict__ expert, int* counts, int t, int e) {
    __shared__ int bins[32];
    if (threadIdx.x < 32) bins[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * TPB + threadIdx.x;
    if (i < t) atomicAdd(&bins[expert[i]], 1);
    __syncthreads();
    if (threadIdx.x < e) counts[blockIdx.x * e + threadIdx.x] = bins[threadIdx.x];
}

extern "C" __global__ void scan(int* counts, int* offset, int blocks, int e) {
    const int lane = threadIdx.x;
    int total = 0;
    if (lane < e)
        for (int b = 0; b < blocks; ++b) total += counts[b * e + lane];
    int upto = total;
    for (int o = 1; o < 32; o <<= 1) {
        int other = __shfl_up_sync(0xffffffffu, upto, o);
        if (lane >= o) upto += other;
    }
    if (lane < e) {
        offset[lane + 1] = upto;
        if (lane == 0) offset[0] = 0;
        int at = upto - total;
        for (int b = 0; b < blocks; ++b) {
            int c = counts[b * e + lane];
            counts[b * e + lane] = at;
            at += c;
        }
    }
}

extern "C" __global__ void rank(const int* __restrict__ expert, const int* __restrict__ counts, int* __restrict__ dest, int t, int e) {
    __shared__ unsigned char mine[TPB];
    int i = blockIdx.x * TPB + threadIdx.x;
    int x = i < t ? expert[i] : 255;
    mine[threadIdx.x] = x;
    __syncthreads();
    if (i >= t) return;
    int before = 0;
    for (int k = 0; k < threadIdx.x; ++k) before += mine[k] == x;
    dest[i] = counts[blockIdx.x * e + x] + before;
}

extern "C" __global__ void copy(const half* __restrict__ x, const int* __restrict__ dest, half* __restrict__ y, int t, int d) {
    int row = blockIdx.x * 8 + threadIdx.y;
    if (row >= t) return;
    int to = dest[row];
    for (int c = threadIdx.x; c < d; c += 32) y[to * d + c] = x[row * d + c];
}
