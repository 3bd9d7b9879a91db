/* ---
title = "Naive"
[[launch]]
kernel = "transpose"
grid   = ["cdiv(C, 16)", "cdiv(R, 16)"]
block  = [16, 16]
args   = ["A", "B", "R", "C"]
--- */

extern "C" __global__ void transpose(const float* A, float* B, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < rows && c < cols) B[c * rows + r] = A[r * cols + c];
}
