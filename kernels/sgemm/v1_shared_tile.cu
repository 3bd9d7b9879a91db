/* ---
title  = "Shared tiles, still uncoalesced"
parent = "v0"
change = "A block stages 32×32 tiles of A and B in shared memory, so each element is loaded once per block instead of once per thread. Lanes still walk down rows."
requires     = "max(M*K, K*N, M*N) < 2**31"
requires_why = "its indices are 32-bit integers"

[[launch]]
kernel = "sgemm"
grid   = ["cdiv(M, 32)", "cdiv(N, 32)"]
block  = [32, 32]
args   = ["A", "B", "C", "M", "N", "K"]

[[expect]]
counter = "duration"
change  = "down"
why     = "32 times fewer loads from global memory"

[[expect]]
counter = "global_load_requests"
change  = "< 0.05x"
why     = "two loads a tile of 32 instead of two per product: 1/32"

[[expect]]
counter = "global_load_sectors_per_request"
change  = "up"
why     = "v0 read B by broadcast, one sector; here the lanes walk down B's rows as well"
--- */
constexpr int T = 32;

extern "C" __global__ void sgemm(const float* __restrict__ A, const float* __restrict__ B,
                                 float* __restrict__ C, int M, int N, int K) {
    __shared__ float As[T][T];  // As[k][row]
    __shared__ float Bs[T][T];  // Bs[col][k]
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.x * T + tx;
    const int col = blockIdx.y * T + ty;

    float sum = 0.0f;
    for (int t = 0; t < K; t += T) {
        // Both tiles are stored with tx last, one bank a lane. The price is paid in global
        // memory: neighbouring lanes read K (or N) floats apart.
        As[ty][tx] = row < M && t + ty < K ? A[row * K + t + ty] : 0.0f;
        Bs[ty][tx] = col < N && t + tx < K ? B[(t + tx) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < T; ++k)
            sum += As[k][tx] * Bs[ty][k];
        __syncthreads();  // nobody may overwrite a tile that another still reads
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
