/* ---
title = "A half warp a bag with float4, 64-bit indices"
[[launch]]
kernel = "bags"
grid = ["cdiv(B, 8)"]
block = [16, 8]
args = ["table", "index", "offsets", "y", "B", "D"]
--- */
#include <cstdint>
template <typename index_t>
__device__ void bag(const float* __restrict__ table, const index_t* __restrict__ index, const index_t* __restrict__ offsets, float* __restrict__ y, int b, int d) {
    const index_t begin = offsets[b], end = offsets[b + 1];
    for (int c = threadIdx.x * 4; c < d; c += blockDim.x * 4) {
        float4 acc = make_float4(0, 0, 0, 0);
        for (index_t i = begin; i < end; ++i) {
            const float4 v = *reinterpret_cast<const float4*>(table + index[i] * d + c);
            acc.x += v.x;
            acc.y += v.y;
            acc.z += v.z;
            acc.w += v.w;
        }
        const float n = end > begin ? 1.0f / (end - begin) : 0.0f;
        acc.x *= n;
        acc.y *= n;
        acc.z *= n;
        acc.w *= n;
        *reinterpret_cast<float4*>(y + (int64_t)b * d + c) = acc;
    }
}
extern "C" __global__ void bags(const float* table, const int64_t* index, const int64_t* offsets, float* y, int n, int d) {
    const int b = blockIdx.x * blockDim.y + threadIdx.y;
    if (b < n) bag<int64_t>(table, index, offsets, y, b, d);
}
