/* ---
title = "A thread per right side, the triangle in constant memory"
[[fill]]
name = "tri"
input = "l"
[[launch]]
kernel = "trsm"
grid = ["cdiv(C, 64)"]
block = [64]
args = ["b", "x", "C"]
--- */
__constant__ double tri[32 * 32];

extern "C" __global__ void trsm(const double* __restrict__ b, double* __restrict__ x, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    double v[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        double s = b[i * columns + c];
#pragma unroll
        for (int k = 0; k < i; ++k) s -= tri[i * 32 + k] * v[k];
        v[i] = s / tri[i * 33];
        x[i * columns + c] = v[i];
    }
}
