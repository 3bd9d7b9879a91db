/* ---
title = "A block per row, half2, the row read again for the second pass"
requires = "C % 2 == 0"
requires_why = "pairs of halves"
[[launch]]
kernel = "rmsnorm"
grid = ["R"]
block = [256]
args = ["x", "residual", "g", "h", "y", "C"]
--- */
#include <cuda_fp16.h>
extern "C" __global__ void rmsnorm(const half2* x, const half2* residual, const half2* g, half2* h, half2* y, int c) {
    __shared__ float part[8];
    const int pairs = c / 2, base = blockIdx.x * pairs;
    float sum = 0.f;
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        half2 v = __hadd2(x[base + i], residual[base + i]);
        h[base + i] = v;
        float2 f = __half22float2(v);
        sum += f.x * f.x + f.y * f.y;
    }
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0.f;
    for (int k = 0; k < 8; ++k) total += part[k];
    const float scale = rsqrtf(total / c + 1e-6f);
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        float2 f = __half22float2(h[base + i]), w = __half22float2(g[i]);
        y[base + i] = __floats2half2_rn(f.x * scale * w.x, f.y * scale * w.y);
    }
}
