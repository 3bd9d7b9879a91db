/* ---
title = "exp2 and table in shared memory, uint4 of eight halves"
[[launch]]
kernel = "rope"
grid = ["T"]
block = [64]
args = ["x", "y", "H", "D"]
--- */
#include <cuda_fp16.h>
union Vec {
    uint4 raw;
    half2 h[4];
};
extern "C" __global__ void rope(const uint4* __restrict__ x, uint4* __restrict__ y, int heads, int dim) {
    __shared__ float2 table[64];
    const int half_dim = dim >> 1;
    if (threadIdx.x < half_dim) {
        float angle = blockIdx.x * exp2f(-13.287712379549449f * threadIdx.x / half_dim);
        table[threadIdx.x] = make_float2(cosf(angle), sinf(angle));
    }
    __syncthreads();
    const int per_head = dim / 8, total = heads * per_head;
    for (int i = threadIdx.x; i < total; i += blockDim.x) {
        Vec v;
        v.raw = x[blockIdx.x * total + i];
        const int pair = (i % per_head) * 4;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float2 f = __half22float2(v.h[j]), cs = table[pair + j];
            v.h[j] = __floats2half2_rn(f.x * cs.x - f.y * cs.y, f.x * cs.y + f.y * cs.x);
        }
        y[blockIdx.x * total + i] = v.raw;
    }
}
