/* ---
title  = "Padded tile, no bank conflicts"
parent = "v2"
change = "One float of padding ends every row of A's tile, so that a column lies in 32 different banks."
requires     = "max(M*K, K*N, M*N) < 2**31"
requires_why = "its indices are 32-bit integers"

[[launch]]
kernel = "sgemm"
grid   = ["cdiv(N, 32)", "cdiv(M, 32)"]
block  = [32, 32]
args   = ["A", "B", "C", "M", "N", "K"]

[[expect]]
counter = "shared_store_bank_conflicts"
change  = "< 0.05x"
why     = "address 33·tx + ty is another bank for each of the 32 lanes"

[[expect]]
counter = "shared_wavefronts"
change  = "down"
why     = "a store of A's tile takes one wavefront instead of 32"

[[expect]]
counter = "mio_throttle"
change  = "down"
why     = "the shared-memory queue no longer holds 32-way stores"

[[expect]]
counter = "duration"
change  = "down"
why     = "the stores stood between two barriers, so the whole block waited for them"
--- */
constexpr int T = 32;

extern "C" __global__ void sgemm(const float* __restrict__ A, const float* __restrict__ B,
                                 float* __restrict__ C, int M, int N, int K) {
    __shared__ float As[T][T + 1];  // As[k][row]: a row is 33 floats, so a column is 32 banks
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
