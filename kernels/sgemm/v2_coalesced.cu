/* ---
title  = "Coalesced loads and stores"
parent = "v1"
change = "Consecutive lanes take consecutive columns, so every warp reads and writes 128 bytes in a row. A's tile stays k-major."
requires     = "max(M*K, K*N, M*N) < 2**31"
requires_why = "its indices are 32-bit integers"

[[launch]]
kernel = "sgemm"
grid   = ["cdiv(N, 32)", "cdiv(M, 32)"]
block  = [32, 32]
args   = ["A", "B", "C", "M", "N", "K"]

[[expect]]
counter = "global_load_sectors_per_request"
change  = "< 0.2x"
why     = "32 floats in a row are four sectors of 32 bytes, not 32"

[[expect]]
counter = "global_load_bytes_per_sector"
change  = "up"
why     = "all 32 bytes of a sector are used, not four"

[[expect]]
counter = "long_scoreboard"
change  = "down"
why     = "an eighth of the sectors to wait for"

[[expect]]
counter = "shared_store_bank_conflicts"
change  = "up"
why     = "lanes now differ in k, the first index of As: they store down a column, 32 ways into one bank"
--- */
constexpr int T = 32;

extern "C" __global__ void sgemm(const float* __restrict__ A, const float* __restrict__ B,
                                 float* __restrict__ C, int M, int N, int K) {
    __shared__ float As[T][T];  // As[k][row]: a row is 32 floats, so a column is one bank
    __shared__ float Bs[T][T];  // Bs[k][col]
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int col = blockIdx.x * T + tx;
    const int row = blockIdx.y * T + ty;

    float sum = 0.0f;
    for (int t = 0; t < K; t += T) {
        // A is read along its rows, and its tile is kept k-major: lanes store down a column.
        As[tx][ty] = row < M && t + tx < K ? A[row * K + t + tx] : 0.0f;
        Bs[ty][tx] = col < N && t + ty < K ? B[(t + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < T; ++k)
            sum += As[k][ty] * Bs[k][tx];
        __syncthreads();  // nobody may overwrite a tile that another still reads
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
