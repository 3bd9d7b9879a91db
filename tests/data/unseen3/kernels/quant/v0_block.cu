/* ---
title = "A block per row, a maximum by shared memory tree, single elements"
[[launch]]
kernel = "quantise"
grid = ["R"]
block = [128]
args = ["x", "q", "scale", "C"]
--- */
#include <cuda_fp16.h>
extern "C" __global__ void quantise(const half* __restrict__ x, signed char* __restrict__ q, float* __restrict__ scale, int c) {
    __shared__ float top[128];
    const half* row = x + blockIdx.x * c;
    float m = 0.f;
    for (int i = threadIdx.x; i < c; i += 128) m = fmaxf(m, fabsf(__half2float(row[i])));
    top[threadIdx.x] = m;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (threadIdx.x < s) top[threadIdx.x] = fmaxf(top[threadIdx.x], top[threadIdx.x + s]);
        __syncthreads();
    }
    m = top[0];
    const float inv = 127.f / m;
    for (int i = threadIdx.x; i < c; i += 128) q[blockIdx.x * c + i] = (signed char)__float2int_rn(__half2float(row[i]) * inv);
    if (threadIdx.x == 0) scale[blockIdx.x] = m / 127.f;
}
