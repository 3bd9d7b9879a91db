/* ---
title = "A warp a row kept in registers, shuffles"
requires = "C <= 1024"
requires_why = "32 elements a lane are all that it keeps"
[[launch]]
kernel = "softmax"
grid   = ["cdiv(R, 4)"]
block  = [32, 4]
args   = ["x", "y", "R", "C"]
--- */

extern "C" __global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float v[32];
    float m = -INFINITY;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        int c = i * 32 + threadIdx.x;
        v[i] = c < cols ? x[row * cols + c] : -INFINITY;
        m = fmaxf(m, v[i]);
    }
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
    float s = 0.0f;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        v[i] = __expf(v[i] - m);
        s += v[i];
    }
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    float inv = 1.0f / s;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        int c = i * 32 + threadIdx.x;
        if (c < cols) y[row * cols + c] = v[i] * inv;
    }
}
