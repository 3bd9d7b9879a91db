/* ---
title = "Eight copies of the shared histogram, interleaved and padded, sixteen bytes a load"
requires = "N % 16 == 0"
requires_why = "it loads sixteen bytes at a time"
[[launch]]
kernel = "zero"
grid   = [1]
block  = [256]
args   = ["bins"]
[[launch]]
kernel = "histogram"
grid   = [64]
block  = [512]
args   = ["data", "bins", "N"]
--- */

#define COPIES 8

extern "C" __global__ void zero(int* bins) { bins[threadIdx.x] = 0; }

extern "C" __global__ void __launch_bounds__(512) histogram(const uint4* data, int* bins, int n) {
    __shared__ int hist[COPIES][257];
    for (int i = threadIdx.x; i < COPIES * 257; i += blockDim.x) (&hist[0][0])[i] = 0;
    __syncthreads();
    int* mine = hist[threadIdx.x % COPIES];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 16; i += gridDim.x * blockDim.x) {
        uint4 v = data[i];
        unsigned w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int k = 0; k < 16; ++k) atomicAdd(mine + ((w[k / 4] >> (k % 4 * 8)) & 255), 1);
    }
    __syncthreads();
    if (threadIdx.x < 256) {
        int sum = 0;
        for (int c = 0; c < COPIES; ++c) sum += hist[c][threadIdx.x];
        atomicAdd(&bins[threadIdx.x], sum);
    }
}
