/* ---
title = "A thread a point of the color, signed 64-bit indices"
[[launch]]
kernel = "copy4"
grid = ["cdiv(cdiv(W * H, 4), 256)"]
block = [256]
args = ["u0", "u", "long(W * H)"]
[[launch]]
kernel = "sweep_red"
grid = ["cdiv(cdiv(W, 2), 64)", "H - 2"]
block = [64]
args = ["u", "f", "long(W)", "long(H)"]
[[launch]]
kernel = "sweep_black"
grid = ["cdiv(cdiv(W, 2), 64)", "H - 2"]
block = [64]
args = ["u", "f", "long(W)", "long(H)"]
--- */
#include <cstdint>

extern "C" __global__ void copy4(const float* a, float* b, int64_t n) {
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n)
        *reinterpret_cast<float4*>(b + i) = *reinterpret_cast<const float4*>(a + i);
    else
        for (; i < n; ++i) b[i] = a[i];
}

template <int Color>
__device__ void sweep(float* u, const float* f, int64_t w, int64_t h) {
    int64_t y = blockIdx.y + 1;
    int64_t x = 2 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) + 1 + ((y + 1 + Color) & 1);
    if (x >= w - 1) return;
    int64_t i = y * w + x;
    float around = u[i - 1] + u[i + 1];
    around += u[i - w] + u[i + w];
    u[i] = 0.25f * (around - f[i]);
}

extern "C" __global__ void sweep_red(float* u, const float* f, int64_t w, int64_t h) { sweep<0>(u, f, w, h); }
extern "C" __global__ void sweep_black(float* u, const float* f, int64_t w, int64_t h) { sweep<1>(u, f, w, h); }
