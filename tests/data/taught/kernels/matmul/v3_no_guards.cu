/* ---
title = "Wrong: nothing asks whether row and column are there"
[[launch]]
kernel = "matmul"
grid   = ["cdiv(N, 16)", "cdiv(M, 16)"]
block  = [16, 16]
args   = ["A", "B", "C", "M", "N", "K"]
--- */
#define T 16

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float As[T][T];
    __shared__ float Bs[T][T];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * T + ty;
    int col = blockIdx.x * T + tx;
    float sum = 0.0f;
    for (int t = 0; t < K; t += T) {
        As[ty][tx] = A[row * K + t + tx];  // <- wrong
        Bs[ty][tx] = B[(t + ty) * N + col];
        __syncthreads();
        for (int k = 0; k < T; ++k)
            sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}
