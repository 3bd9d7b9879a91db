/* ---
title = "A block a row, halves one by one"
[[launch]]
kernel = "layernorm"
grid   = ["R"]
block  = [128]
args   = ["x", "gain", "bias", "y", "C"]
--- */
#include <cuda_fp16.h>

__device__ float sum(float v) {
    __shared__ float s[128];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int k = 64; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    v = s[0];
    __syncthreads();
    return v;
}

extern "C" __global__ void layernorm(const __half* x, const __half* gain, const __half* bias, __half* y, int C) {
    x += blockIdx.x * C;
    y += blockIdx.x * C;
    float s = 0;
    for (int i = threadIdx.x; i < C; i += blockDim.x) s += __half2float(x[i]);
    float mean = sum(s) / C;
    s = 0;
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        float d = __half2float(x[i]) - mean;
        s += d * d;
    }
    float rstd = rsqrtf(sum(s) / C + 1e-5f);
    for (int i = threadIdx.x; i < C; i += blockDim.x)
        y[i] = __float2half((__half2float(x[i]) - mean) * rstd * __half2float(gain[i]) + __half2float(bias[i]));
}
