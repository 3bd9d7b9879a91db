/* ---
title = "A warp per token, half2 loads, the query from shared memory"
[[launch]]
kernel = "scores"
grid = ["T // 16", "NH", "B"]
block = [32, 4]
args = ["q", "k", "page", "length", "score", "NH", "D", "T"]
dynamic_shared = "4 * D"
--- */
#include <cuda_fp16.h>
extern "C" __global__ void scores(const half* __restrict__ q, const half* __restrict__ k, const int* __restrict__ page,
                                  const int* __restrict__ length, float* __restrict__ score, int heads, int d, int tokens) {
    extern __shared__ float query[];
    const int b = blockIdx.z, h = blockIdx.y, lane = threadIdx.x;
    for (int i = threadIdx.y * 32 + lane; i < d; i += 128) query[i] = __half2float(q[(b * heads + h) * d + i]) * rsqrtf((float)d);
    __syncthreads();
    const int entry = page[b * gridDim.x + blockIdx.x], n = length[b];
    for (int s = threadIdx.y; s < 16; s += 4) {
        const int t = blockIdx.x * 16 + s;
        float sum = -1.f;
        if (t < n) {
            sum = 0.f;
            const half2* key = (const half2*)(k + ((size_t)(entry * 16 + s) * heads + h) * d);
            for (int i = lane; i < d / 2; i += 32) {
                float2 f = __half22float2(key[i]);
                sum += f.x * query[2 * i] + f.y * query[2 * i + 1];
            }
            for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
        }
        if (lane == 0) score[(b * heads + h) * tokens + t] = sum;
    }
}
