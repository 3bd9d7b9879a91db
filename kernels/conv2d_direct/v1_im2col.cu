/* ---
title  = "im2col, then a 16×16 tiled product"
parent = "v0"
change = "A first kernel writes every window as a column of a matrix; a second multiplies the filter, its only row, with that matrix in shared tiles of 16×16."
requires     = "9 * C * P * Q < 2**31 and C * H * W < 2**31"
requires_why = "its indices into the matrix of windows are 32-bit integers"

[[scratch]]
name  = "windows"
dtype = "float32"
shape = ["9 * C", "P * Q"]

[[launch]]
kernel = "im2col"
grid   = ["cdiv(Q, 32)", "cdiv(P, 8)"]
block  = [32, 8]
args   = ["x", "windows", "C", "H", "W", "P", "Q", "U"]

[[launch]]
kernel = "gemm"
grid   = ["cdiv(P * Q, 16)"]
block  = [16, 16]
args   = ["w", "windows", "y", 1, "P * Q", "9 * C"]

[[expect]]
counter = "dram_bytes"
change  = "> 10x"
why     = "27 floats per output are written and read again, where v0 moved four"

[[expect]]
counter = "duration"
change  = "> 3x"
why     = "that traffic alone; and 15 of a tile's 16 rows have no output"

[[expect]]
counter = "barrier_stall"
change  = "up"
why     = "four barriers for the two tiles of a depth of 27, none before"
--- */
constexpr int T = 16;

extern "C" __global__ void im2col(const float* __restrict__ x, float* __restrict__ windows,
                                  int C, int H, int W, int P, int Q, int U) {
    const int q = blockIdx.x * 32 + threadIdx.x;
    const int p = blockIdx.y * 8 + threadIdx.y;
    if (p >= P || q >= Q) return;

    for (int c = 0; c < C; ++c) {
        for (int r = 0; r < 3; ++r) {
            for (int s = 0; s < 3; ++s) {
                const int row = p * U - 1 + r, col = q * U - 1 + s;
                const bool inside = row >= 0 && row < H && col >= 0 && col < W;
                // Row-major with one column an output: lanes write 128 bytes in a row.
                windows[((c * 3 + r) * 3 + s) * (P * Q) + p * Q + q] =
                    inside ? x[(c * H + row) * W + col] : 0.0f;
            }
        }
    }
}

// D = A·B, row-major: A is M×K, B is K×N. Written for any M, as im2col is meant to be used.
extern "C" __global__ void gemm(const float* __restrict__ A, const float* __restrict__ B,
                                float* __restrict__ D, int M, int N, int K) {
    __shared__ float As[T][T];  // As[row][k]
    __shared__ float Bs[T][T];  // Bs[k][col]
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int col = blockIdx.x * T + tx;
    const int row = blockIdx.y * T + ty;

    float sum = 0.0f;
    for (int t = 0; t < K; t += T) {
        As[ty][tx] = row < M && t + tx < K ? A[row * K + t + tx] : 0.0f;
        Bs[ty][tx] = col < N && t + ty < K ? B[(t + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < T; ++k)
            sum += As[ty][k] * Bs[k][tx];
        __syncthreads();  // nobody may overwrite a tile that another still reads
    }
    if (row < M && col < N) D[row * N + col] = sum;
}
