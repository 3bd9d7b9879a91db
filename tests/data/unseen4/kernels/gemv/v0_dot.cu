/* ---
title  = "One dot product per thread"
change = "A thread per row for A·x, a thread per column for the transposed product."
[[launch]]
kernel = "gemv"
grid   = ["cdiv(M, 128)"]
block  = [128]
args   = ["A", "x", "y", "M", "N"]
[[launch]]
kernel = "gemv_transposed"
grid   = ["cdiv(N, 128)"]
block  = [128]
args   = ["A", "w", "z", "M", "N"]
--- */

extern "C" __global__ void gemv(const float* A, const float* x, float* y, int m, int n) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m) {
        float sum = 0.0f;
        for (int j = 0; j < n; ++j) {
            sum += A[row * n + j] * x[j];
        }
        y[row] = sum;
    }
}

extern "C" __global__ void gemv_transposed(const float* A, const float* w, float* z, int m, int n) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col < n) {
        float sum = 0.0f;
        for (int i = 0; i < m; ++i) {
            sum += A[i * n + col] * w[i];
        }
        z[col] = sum;
    }
}
