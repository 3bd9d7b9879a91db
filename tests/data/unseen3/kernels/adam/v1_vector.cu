/* ---
title = "Four elements a thread, float4 and 8-byte bfloat16, scalar tail"
change = "One quarter of the memory instructions; reciprocals are multiplied in."
[[scratch]]
name = "copy"
dtype = "bfloat16"
shape = ["N"]
[[launch]]
kernel = "adamw"
grid = ["cdiv(N, 1024)"]
block = [256]
args = ["grad", "w", "m", "v", "w2", "m2", "v2", "copy", "N"]
--- */
#include <cuda_bf16.h>
__device__ __forceinline__ void step(float g, float& w, float& m, float& v) {
    m = fmaf(0.9f, m, 0.1f * g);
    v = fmaf(0.999f, v, 0.001f * g * g);
    const float root = sqrtf(v * (1.f / 0.002997f)) + 1e-8f;
    w -= 1e-3f * (__fdividef(m * (1.f / 0.271f), root) + 0.01f * w);
}

extern "C" __global__ void __launch_bounds__(256) adamw(const __nv_bfloat16* __restrict__ grad, const float* __restrict__ w,
                                                        const float* __restrict__ m, const float* __restrict__ v,
                                                        float* __restrict__ w2, float* __restrict__ m2,
                                                        float* __restrict__ v2, __nv_bfloat16* __restrict__ copy, int n) {
    const int q = blockIdx.x * 256 + threadIdx.x, i = 4 * q;
    if (i + 3 < n) {
        float4 wi = reinterpret_cast<const float4*>(w)[q], mi = reinterpret_cast<const float4*>(m)[q],
               vi = reinterpret_cast<const float4*>(v)[q];
        const uint2 raw = reinterpret_cast<const uint2*>(grad)[q];
        step(__uint_as_float(raw.x << 16), wi.x, mi.x, vi.x);
        step(__uint_as_float(raw.x & 0xffff0000u), wi.y, mi.y, vi.y);
        step(__uint_as_float(raw.y << 16), wi.z, mi.z, vi.z);
        step(__uint_as_float(raw.y & 0xffff0000u), wi.w, mi.w, vi.w);
        reinterpret_cast<float4*>(w2)[q] = wi;
        reinterpret_cast<float4*>(m2)[q] = mi;
        reinterpret_cast<float4*>(v2)[q] = vi;
        __nv_bfloat162 pair[2] = {__floats2bfloat162_rn(wi.x, wi.y), __floats2bfloat162_rn(wi.z, wi.w)};
        reinterpret_cast<uint2*>(copy)[q] = *reinterpret_cast<uint2*>(pair);
    } else {
        for (int k = i; k < n; ++k) {
            float wi = w[k], mi = m[k], vi = v[k];
            step(__bfloat162float(grad[k]), wi, mi, vi);
            w2[k] = wi;
            m2[k] = mi;
            v2[k] = vi;
            copy[k] = __float2bfloat16(wi);
        }
    }
}
