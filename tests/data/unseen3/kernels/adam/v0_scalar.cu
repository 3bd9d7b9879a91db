/* ---
title = "A grid-stride loop over single elements"
[[scratch]]
name = "copy"
dtype = "bfloat16"
shape = ["N"]
[[launch]]
kernel = "adamw"
grid = ["min(cdiv(N, 256), 528)"]
block = [256]
args = ["grad", "w", "m", "v", "w2", "m2", "v2", "copy", "N"]
--- */
#include <cuda_bf16.h>
extern "C" __global__ void adamw(const __nv_bfloat16* __restrict__ grad, const float* __restrict__ w,
                                 const float* __restrict__ m, const float* __restrict__ v, float* w2, float* m2, float* v2,
                                 __nv_bfloat16* copy, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float g = __bfloat162float(grad[i]);
        float mi = 0.9f * m[i] + 0.1f * g;
        float vi = 0.999f * v[i] + 0.001f * g * g;
        float wi = w[i];
        wi -= 1e-3f * (mi / 0.271f / (sqrtf(vi / 0.002997f) + 1e-8f) + 0.01f * wi);
        m2[i] = mi;
        v2[i] = vi;
        w2[i] = wi;
        copy[i] = __float2bfloat16(wi);
    }
}
