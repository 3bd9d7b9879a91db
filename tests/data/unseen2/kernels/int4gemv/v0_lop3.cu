/* ---
title = "lop3 dequantization to half2, a warp a row"
[[launch]]
kernel = "gemv"
grid = ["cdiv(M, 4)"]
block = [32, 4]
args = ["w", "scale", "x", "y", "M", "K"]
--- */
#include <cuda_fp16.h>
#include <cstdint>
template <int lut>
__device__ inline int lop3(int a, int b, int c) {
    int res;
    asm volatile("lop3.b32 %0, %1, %2, %3, %4;\n" : "=r"(res) : "r"(a), "r"(b), "r"(c), "n"(lut));
    return res;
}
struct Half8 {
    half2 v[4];  // pairs (0,4), (1,5), (2,6), (3,7)
};
__device__ inline Half8 dequant(uint32_t q) {
    Half8 out;
    const half2 bias = __half2half2(__ushort_as_half(0x6408));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int h = lop3<(0xf0 & 0xcc) | 0xaa>(q >> (4 * i), 0x000f000f, 0x64006400);
        out.v[i] = __hsub2(*reinterpret_cast<half2*>(&h), bias);
    }
    return out;
}
extern "C" __global__ void gemv(const uint32_t* __restrict__ w, const half* __restrict__ scale, const half* __restrict__ x, float* __restrict__ y, int m, int k) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= m) return;
    float sum = 0;
    for (int i = threadIdx.x; i < k / 8; i += 32) {
        Half8 d = dequant(w[row * (k / 8) + i]);
        uint4 raw = *reinterpret_cast<const uint4*>(x + i * 8);
        const half* xs = reinterpret_cast<const half*>(&raw);
        float part = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            part = fmaf(__low2float(d.v[j]), __half2float(xs[j]), part);
            part = fmaf(__high2float(d.v[j]), __half2float(xs[j + 4]), part);
        }
        sum += part * __half2float(scale[row * (k / 64) + i / 8]);
    }
#pragma unroll
    for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (threadIdx.x == 0) y[row] = sum;
}
