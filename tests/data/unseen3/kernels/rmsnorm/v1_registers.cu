/* ---
title = "A warp per row, 16-byte loads, the row kept in registers"
change = "Eight halves a load; nothing is read twice and nothing synchronises beyond a warp."
requires = "C % 8 == 0 and C <= 1024"
requires_why = "a lane keeps four chunks of eight halves"
[[launch]]
kernel = "rmsnorm"
grid = ["cdiv(R, 4)"]
block = [32, 4]
args = ["x", "residual", "g", "h", "y", "R", "C"]
--- */
#include <cuda_fp16.h>
union Chunk {
    uint4 raw;
    half2 h[4];
};

extern "C" __global__ void __launch_bounds__(128) rmsnorm(const uint4* __restrict__ x, const uint4* __restrict__ residual,
                                                          const uint4* __restrict__ g, uint4* __restrict__ h,
                                                          uint4* __restrict__ y, int rows, int c) {
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) return;
    const int chunks = c / 8, base = row * chunks;
    Chunk keep[4];
    float sum = 0.f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int i = k * 32 + threadIdx.x;
        if (i < chunks) {
            Chunk a, b;
            a.raw = x[base + i];
            b.raw = residual[base + i];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                keep[k].h[j] = __hadd2(a.h[j], b.h[j]);
                float2 f = __half22float2(keep[k].h[j]);
                sum = fmaf(f.x, f.x, fmaf(f.y, f.y, sum));
            }
            h[base + i] = keep[k].raw;
        }
    }
#pragma unroll
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    const float scale = rsqrtf(sum / c + 1e-6f);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int i = k * 32 + threadIdx.x;
        if (i < chunks) {
            Chunk w, out;
            w.raw = __ldg(g + i);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                float2 f = __half22float2(keep[k].h[j]), q = __half22float2(w.h[j]);
                out.h[j] = __floats2half2_rn(f.x * scale * q.x, f.y * scale * q.y);
            }
            y[base + i] = out.raw;
        }
    }
}
