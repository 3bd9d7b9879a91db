/* ---
title = "Tiles in shared memory and in registers"

[defines]
BM = 64
BN = 64
BK = 8
TM = 4
TN = 4

[tune]
BM = [64, 128]
BN = [64, 128]
BK = [8, 16, 32]
TM = [4, 8]
TN = [4, 8]
requires = "BM // TM * (BN // TN) >= 64 and BM // TM * (BN // TN) <= 1024"

[[launch]]
kernel = "matmul"
grid   = ["cdiv(N, BN)", "cdiv(M, BM)"]
block  = ["BM // TM * (BN // TN)"]
args   = ["A", "B", "C", "M", "N", "K"]
--- */
constexpr int COLUMNS = BN / TN;
constexpr int THREADS = BM / TM * COLUMNS;

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
       int M, int N, int K) {
    __shared__ float As[BK][BM + 1], Bs[BK][BN];
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    const int row = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
    float sum[TM][TN] = {};
    for (int t = 0; t < K; t += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
            const int r = i / BK, k = i % BK;
            As[k][r] = top + r < M && t + k < K ? A[(top + r) * K + t + k] : 0.0f;
        }
        for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
            const int k = i / BN, c = i % BN;
            Bs[k][c] = t + k < K && left + c < N ? B[(t + k) * N + left + c] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) a[i] = As[k][row * TM + i];
#pragma unroll
            for (int j = 0; j < TN; ++j) b[j] = Bs[k][column + j * COLUMNS];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int r = top + row * TM + i, c = left + column + j * COLUMNS;
            if (r < M && c < N) C[r * N + c] = sum[i][j];
        }
}
