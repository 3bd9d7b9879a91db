/* ---
title  = "A warp per row, all of it in registers"
change = "Bits 0, 1 and 7 upwards of an element's index are within a lane, bits 2 to 6 across lanes by shuffles: no barrier, no shared memory, one read and one write."
requires     = "N == 256 or N == 1024"
requires_why = "kernels are made for these two lengths"
[defines]
WARPS = 4
[[launch]]
kernel = "wht_256"
grid   = ["cdiv(R, WARPS)"]
block  = [32, "WARPS"]
args   = ["x", "y", "R"]
when   = "N == 256"
[[launch]]
kernel = "wht_1024"
grid   = ["cdiv(R, WARPS)"]
block  = [32, "WARPS"]
args   = ["x", "y", "R"]
when   = "N == 1024"
--- */

__device__ __forceinline__ void butterfly(float& a, float& b) {
    const float sum = a + b;
    b = a - b;
    a = sum;
}

__device__ __forceinline__ float across(float v, int mask, bool upper) {
    const float other = __shfl_xor_sync(0xffffffffu, v, mask);
    return upper ? other - v : other + v;
}

// A row of VECTORS * 128 elements; lane l holds float4 number l, l + 32, l + 64, ...
template <int VECTORS>
__device__ __forceinline__ void transform_row(const float* __restrict__ x, float* __restrict__ y,
                                              int rows, float scale) {
    const int row = blockIdx.x * WARPS + threadIdx.y;
    const int lane = threadIdx.x;
    if (row >= rows) return;  // warp-uniform

    const float4* in = reinterpret_cast<const float4*>(x) + (size_t)row * (VECTORS * 32);
    float4* out = reinterpret_cast<float4*>(y) + (size_t)row * (VECTORS * 32);

    float4 v[VECTORS];
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) v[j] = in[j * 32 + lane];

#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
        butterfly(v[j].x, v[j].y);
        butterfly(v[j].z, v[j].w);
        butterfly(v[j].x, v[j].z);
        butterfly(v[j].y, v[j].w);
    }

#pragma unroll
    for (int mask = 1; mask < 32; mask *= 2) {
        const bool upper = (lane & mask) != 0;
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) {
            v[j].x = across(v[j].x, mask, upper);
            v[j].y = across(v[j].y, mask, upper);
            v[j].z = across(v[j].z, mask, upper);
            v[j].w = across(v[j].w, mask, upper);
        }
    }

#pragma unroll
    for (int h = 1; h < VECTORS; h *= 2) {
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) {
            if ((j & h) == 0) {
                butterfly(v[j].x, v[j + h].x);
                butterfly(v[j].y, v[j + h].y);
                butterfly(v[j].z, v[j + h].z);
                butterfly(v[j].w, v[j + h].w);
            }
        }
    }

#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
        out[j * 32 + lane] =
            make_float4(v[j].x * scale, v[j].y * scale, v[j].z * scale, v[j].w * scale);
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) wht_256(const float* x, float* y, int rows) {
    transform_row<2>(x, y, rows, 1.0f / 16.0f);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) wht_1024(const float* x, float* y, int rows) {
    transform_row<8>(x, y, rows, 1.0f / 32.0f);
}
