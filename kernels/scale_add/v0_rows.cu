/* ---
title  = "Lanes walk down rows"
change = "One thread per element. Consecutive lanes take consecutive rows: the natural mistake."
requires     = "R * C < 2**31"
requires_why = "its indices are 32-bit integers"

[[launch]]
kernel = "scale_add"
grid   = ["cdiv(R, 32)", "cdiv(C, 8)"]
block  = [32, 8]
args   = ["A", "B", 1.25, -0.75, "R", "C"]
--- */

extern "C" __global__ void scale_add(const float* __restrict__ A, float* __restrict__ B,
                                     float a, float b, int R, int C) {
    // The 32 lanes of a warp differ in threadIdx.x. With x down the rows they are C floats
    // apart: a warp touches 32 sectors of 32 bytes, and uses four bytes of each.
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < R && col < C) B[row * C + col] = a * A[row * C + col] + b;
}
