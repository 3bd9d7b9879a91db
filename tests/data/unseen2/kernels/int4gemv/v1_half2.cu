/* ---
title = "A block a row, half2 products, uint4 of 32 weights a thread"
[[launch]]
kernel = "gemv"
grid = ["M"]
block = [64]
args = ["w", "scale", "x", "y", "K"]
--- */
#include <cuda_fp16.h>
__device__ float warp_sum(float v)
{
    for (int mask = 16; mask > 0; mask >>= 1)
        v += __shfl_xor_sync(0xffffffff, v, mask, 32);
    return v;
}

extern "C" __global__ void gemv(const uint4 *w, const half *scale, const half2 *x, float *y, int K)
{
    __shared__ float partial[2];
    float acc = 0.f;
    for (int i = threadIdx.x; i < K / 32; i += blockDim.x) {
        uint4 q = w[blockIdx.x * (K / 32) + i];
        unsigned words[4] = {q.x, q.y, q.z, q.w};
        half2 sum = __float2half2_rn(0.f);
        for (int j = 0; j < 4; j++)
            for (int b = 0; b < 4; b++) {
                int lo = (words[j] >> (8 * b)) & 0xf, hi = (words[j] >> (8 * b + 4)) & 0xf;
                half2 v = __halves2half2(__int2half_rn(lo - 8), __int2half_rn(hi - 8));
                sum = __hfma2(v, x[i * 16 + j * 4 + b], sum);
            }
        float2 f = __half22float2(sum);
        acc += (f.x + f.y) * __half2float(scale[blockIdx.x * (K / 64) + i / 2]);
    }
    acc = warp_sum(acc);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = acc;
    __syncthreads();
    if (threadIdx.x == 0)
        y[blockIdx.x] = partial[0] + partial[1];
}
