/* ---
title = "A warp a row, half2 throughout"
requires = "C % 64 == 0"
[[launch]]
kernel = "layernorm"
grid   = ["cdiv(R, 8)"]
block  = [256]
args   = ["x", "gain", "bias", "y", "R", "C // 2"]
--- */
#include <cuda_fp16.h>

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

extern "C" __global__ void layernorm(const half2* __restrict__ x, const half2* __restrict__ gain,
                                     const half2* __restrict__ bias, half2* __restrict__ y, int rows, int n) {
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += row * n;
    y += row * n;
    float s = 0.f, q = 0.f;
    for (int i = lane; i < n; i += 32) {
        float2 v = __half22float2(x[i]);
        s += v.x + v.y;
        q += v.x * v.x + v.y * v.y;
    }
    float mean = warp_sum(s) / (2 * n);
    float var = warp_sum(q) / (2 * n) - mean * mean;
    half2 m = __float2half2_rn(mean), r = __float2half2_rn(rsqrtf(var + 1e-5f));
    for (int i = lane; i < n; i += 32)
        y[i] = __hfma2(__hmul2(__hsub2(x[i], m), r), gain[i], bias[i]);
}
