/* ---
title  = "Naive, lanes walk down rows"
change = "One thread per output. Consecutive lanes take consecutive rows: the natural mistake."
requires     = "max(M*K, K*N, M*N) < 2**31"
requires_why = "its indices are 32-bit integers"

[[launch]]
kernel = "sgemm"
grid   = ["cdiv(M, 32)", "cdiv(N, 32)"]
block  = [32, 32]
args   = ["A", "B", "C", "M", "N", "K"]
--- */

extern "C" __global__ void sgemm(const float* __restrict__ A, const float* __restrict__ B,
                                 float* __restrict__ C, int M, int N, int K) {
    // The 32 lanes of a warp differ in threadIdx.x. With x along the rows, one load of A
    // touches 32 rows, K floats apart: 32 sectors of 32 bytes for 128 bytes of use.
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;

    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
