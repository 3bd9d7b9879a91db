/* ---
title = "sincosf and powf in the kernel"
[[launch]]
kernel = "rope"
grid = ["T", "H"]
block = ["D // 2"]
args = ["x", "y", "H", "D"]
--- */
#include <cuda_fp16.h>
extern "C" __global__ void rope(const half2 *x, half2 *y, int H, int D)
{
    int t = blockIdx.x, i = threadIdx.x, half_dim = D / 2;
    float freq = powf(10000.0f, -(float)i / half_dim);
    float s, c;
    sincosf(t * freq, &s, &c);
    int at = (t * H + blockIdx.y) * half_dim + i;
    float2 v = __half22float2(x[at]);
    y[at] = __floats2half2_rn(v.x * c - v.y * s, v.x * s + v.y * c);
}
