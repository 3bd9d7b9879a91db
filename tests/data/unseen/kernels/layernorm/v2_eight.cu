/* ---
title = "Eight halves a load, Welford's means merged by shuffles"
requires = "C % 8 == 0 and C <= 2048"
[[launch]]
kernel = "layernorm"
grid   = ["R"]
block  = [64]
args   = ["x", "gain", "bias", "y", "C"]
--- */
#include <cuda_fp16.h>

union Pack {
    uint4 u;
    half2 h[4];
};

struct Welford {
    float mean, m2, n;
};

__device__ Welford merge(Welford a, Welford b) {
    float n = a.n + b.n;
    if (n == 0.0f) return a;
    float d = b.mean - a.mean;
    return {a.mean + d * (b.n / n), a.m2 + b.m2 + d * d * (a.n * b.n / n), n};
}

extern "C" __global__ void layernorm(const uint4* x, const uint4* gain, const uint4* bias, uint4* y, int C) {
    __shared__ Welford parts[2];
    const int n = C / 8;
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    Welford w = {0, 0, 0};
    for (int i = threadIdx.x; i < n; i += 64) {
        Pack p;
        p.u = x[i];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float2 f = __half22float2(p.h[k]);
            w.n += 1;
            float d = f.x - w.mean;
            w.mean += d / w.n;
            w.m2 += d * (f.x - w.mean);
            w.n += 1;
            d = f.y - w.mean;
            w.mean += d / w.n;
            w.m2 += d * (f.y - w.mean);
        }
    }
    for (int o = 16; o > 0; o /= 2) {
        Welford t = {__shfl_down_sync(~0u, w.mean, o), __shfl_down_sync(~0u, w.m2, o),
                     __shfl_down_sync(~0u, w.n, o)};
        w = merge(w, t);
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = w;
    __syncthreads();
    w = merge(parts[0], parts[1]);
    const float mean = w.mean, rstd = rsqrtf(w.m2 / C + 1e-5f);
    for (int i = threadIdx.x; i < n; i += 64) {
        Pack p, g, b;
        p.u = x[i], g.u = __ldg(&gain[i]), b.u = __ldg(&bias[i]);
        for (int k = 0; k < 4; ++k) {
            float2 f = __half22float2(p.h[k]), gf = __half22float2(g.h[k]), bf = __half22float2(b.h[k]);
            p.h[k] = __floats2half2_rn((f.x - mean) * rstd * gf.x + bf.x, (f.y - mean) * rstd * gf.y + bf.y);
        }
        y[i] = p.u;
    }
}
