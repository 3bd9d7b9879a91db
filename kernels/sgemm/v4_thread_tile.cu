/* ---
title  = "128×128 block, 8×8 outputs per thread, vector loads"
parent = "v3"
change = "Each of 256 threads keeps 8×8 outputs in registers: 16 shared loads feed 64 multiply-adds instead of two feeding one. Tiles come in as float4."
requires     = "max((M + 127) * (K + 7), (K + 7) * (N + 127), (M + 127) * (N + 127)) < 2**31"
requires_why = "its indices are 32-bit integers, up to the end of the last tile"

[[launch]]
kernel = "sgemm"
grid   = ["cdiv(N, 128)", "cdiv(M, 128)"]
block  = [256]
args   = ["A", "B", "C", "M", "N", "K"]

[[expect]]
counter = "duration"
change  = "< 0.5x"
why     = "v3 spends two shared loads on every multiply-add, this one a quarter of a load"
learned = "not at n = 1024, where 64 blocks leave 68 of 132 SMs idle; at n = 4096 it is 0.2x"

[[expect]]
counter = "shared_wavefronts"
change  = "< 0.5x"
why     = "eight times fewer shared loads for each product"

[[expect]]
counter = "mio_throttle"
change  = "down"
why     = "fewer and wider shared loads"

[[expect]]
counter = "fma_utilization"
change  = "up"
why     = "64 independent sums per thread keep the FMA pipe fed"

[[expect]]
counter = "registers"
change  = "up"
why     = "64 sums and 16 operands live in registers"

[[expect]]
counter = "achieved_occupancy"
change  = "down"
why     = "the price of the registers; instruction-level parallelism pays for it"
--- */
constexpr int BM = 128;  // rows of C a block
constexpr int BN = 128;  // columns of C a block
constexpr int BK = 8;    // depth of a tile
constexpr int TM = 8;    // rows of C a thread
constexpr int TN = 8;    // columns of C a thread

// The first `left` of four neighbouring floats, zeros for the rest: rows that are not
// aligned to 16 bytes, and the ends of those that are.
__device__ __forceinline__ float4 load_tail(const float* from, int left) {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (left > 0) v.x = from[0];
    if (left > 1) v.y = from[1];
    if (left > 2) v.z = from[2];
    if (left > 3) v.w = from[3];
    return v;
}

// Two blocks of 256 threads on an SM leave 128 registers a thread: enough for 64 sums.
extern "C" __global__ void __launch_bounds__(256, 2)
sgemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
      int M, int N, int K) {
    __shared__ __align__(16) float As[BK][BM];  // k-major: a thread's eight rows are neighbours
    __shared__ __align__(16) float Bs[BK][BN];
    const int tid = threadIdx.x;
    const int block_row = blockIdx.y * BM, block_col = blockIdx.x * BN;

    // Loading: 256 threads × 4 floats are exactly one tile of A (128×8) and one of B (8×128).
    const int a_row = tid / 2, a_k = tid % 2 * 4;
    const int b_k = tid / 32, b_col = tid % 32 * 4;
    // A float4 needs an address of 16 bytes: so a row must be a multiple of four floats.
    const bool a_wide = K % 4 == 0, b_wide = N % 4 == 0;
    const bool a_inside = block_row + a_row < M;

    // Computing: thread (ty, tx) of 16×16 owns 8×8 outputs.
    const int row = tid / 16 * TM, col = tid % 16 * TN;
    float sum[TM][TN] = {};

    for (int t = 0; t < K; t += BK) {
        const int k_left = a_inside ? K - (t + a_k) : 0;
        const float* a_from = &A[(block_row + a_row) * K + t + a_k];
        const float4 a = a_wide && k_left >= 4 ? *reinterpret_cast<const float4*>(a_from)
                                               : load_tail(a_from, k_left);
        const int n_left = t + b_k < K ? N - (block_col + b_col) : 0;
        const float* b_from = &B[(t + b_k) * N + block_col + b_col];
        const float4 b = b_wide && n_left >= 4 ? *reinterpret_cast<const float4*>(b_from)
                                               : load_tail(b_from, n_left);
        As[a_k + 0][a_row] = a.x;
        As[a_k + 1][a_row] = a.y;
        As[a_k + 2][a_row] = a.z;
        As[a_k + 3][a_row] = a.w;
        *reinterpret_cast<float4*>(&Bs[b_k][b_col]) = b;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float ra[TM], rb[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) ra[i] = As[k][row + i];
#pragma unroll
            for (int j = 0; j < TN; ++j) rb[j] = Bs[k][col + j];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += ra[i] * rb[j];
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int r = block_row + row + i;
        if (r >= M) break;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int c = block_col + col + j;
            if (b_wide && c + 4 <= N) {
                *reinterpret_cast<float4*>(&C[r * N + c]) =
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (c + e < N) C[r * N + c + e] = sum[i][j + e];
            }
        }
    }
}
