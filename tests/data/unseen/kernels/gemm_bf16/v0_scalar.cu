/* ---
title = "A thread an element"
[[launch]]
kernel = "gemm"
grid   = ["cdiv(N, 32)", "cdiv(M, 8)"]
block  = [32, 8]
args   = ["A", "B", "C", "M", "N", "K"]
--- */
#include <cuda_bf16.h>

extern "C" __global__ void gemm(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; k++) sum += __bfloat162float(A[row * K + k]) * __bfloat162float(B[k * N + col]);
    C[row * N + col] = sum;
}
