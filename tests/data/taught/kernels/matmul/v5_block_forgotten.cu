/* ---
title = "Wrong: the column forgets its block"
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
    int col = tx;  // <- wrong
    float sum = 0.0f;
    for (int t = 0; t < K; t += T) {
        As[ty][tx] = (row < M && t + tx < K) ? A[row * K + t + tx] : 0.0f;
        Bs[ty][tx] = (t + ty < K && col < N) ? B[(t + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < T; ++k)
            sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}
