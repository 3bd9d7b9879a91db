/* ---
title  = "Tiles arrive asynchronously, double buffered"
parent = "v4"
change = "The next tile travels from global to shared memory by cp.async, past the registers, while this one is multiplied: two buffers, and one barrier per tile instead of two. Copies of four bytes transpose A on the way; a copy of less than its width fills up with zeros, so the edges need no branch."
requires     = "max((M + 127) * (K + 7), (K + 7) * (N + 127), (M + 127) * (N + 127)) < 2**31"
requires_why = "its indices are 32-bit integers, up to the end of the last tile"

[[launch]]
kernel = "sgemm"
grid   = ["cdiv(N, 128)", "cdiv(M, 128)"]
block  = [256]
args   = ["A", "B", "C", "M", "N", "K"]

[[expect]]
counter = "duration"
change  = "< 0.85x"
why     = "a block no longer waits for its loads between two barriers; only the latency of the first tile shows"
learned = "0.72x, with one block per SM and nobody else to hide its loads. At n = 4096, where v4 has a second block to issue from, 0.88x: there the L1 is 90% busy with 755 M wavefronts, 319 M of them in excess, which v7 takes up"

[[expect]]
counter = "long_scoreboard"
change  = "< 0.3x"
why     = "no register waits for global memory any more"

[[expect]]
counter = "barrier_stall"
change  = "down"
why     = "one barrier per tile, and the copies behind it were issued a whole tile earlier"
learned = "0.45 → 0.10 cycles per instruction; but 0.49 → 0.73 at n = 4096, where 16 warps queue for the L1 and presumably the one that it serves last is waited for (v7: 0.27)"

[[expect]]
counter = "static_shared"
change  = "> 2x"
why     = "two buffers, and four floats of padding per row of A's tile"

[[expect]]
counter = "global_sectors"
change  = "same"
why     = "a warp's four-byte copies take eight neighbouring floats of four rows: whole sectors still"

[[expect]]
counter = "fma_utilization"
change  = "up"
why     = "the same multiply-adds in less time"
--- */
constexpr int BM = 128;  // rows of C a block
constexpr int BN = 128;  // columns of C a block
constexpr int BK = 8;    // depth of a tile
constexpr int TM = 8;    // rows of C a thread
constexpr int TN = 8;    // columns of C a thread

// Copies one float from global to shared memory, or writes a zero where it lies outside.
__device__ __forceinline__ void copy_float(float* to, const float* from, bool inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(inside ? 4 : 0));
}

// The same for four neighbouring floats, aligned to 16 bytes on both sides.
__device__ __forceinline__ void copy_float4(float* to, const float* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(inside ? 16 : 0));
}

// Two blocks of 256 threads on an SM leave 128 registers a thread: enough for 64 sums.
extern "C" __global__ void __launch_bounds__(256, 2)
sgemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
      int M, int N, int K) {
    // k-major: a thread's eight rows are neighbours. With four floats of padding the lanes
    // that store eight k of four rows meet 32 banks.
    __shared__ __align__(16) float As[2][BK][BM + 4];
    __shared__ __align__(16) float Bs[2][BK][BN];
    const int tid = threadIdx.x;
    const int block_row = blockIdx.y * BM, block_col = blockIdx.x * BN;

    // Loading: 256 threads take a quarter of a tile of A (32×8) float by float, which
    // transposes it, and a whole one of B (8×128) four floats at a time.
    const int a_row = tid / 8, a_k = tid % 8;
    const int b_k = tid / 32, b_col = tid % 32 * 4;
    // A copy of 16 bytes needs an address of 16: so a row must be a multiple of four floats.
    const bool b_wide = N % 4 == 0;
    auto fetch = [&](int stage, int t) {
        const float* a_from = &A[(block_row + a_row) * K + t + a_k];
#pragma unroll
        for (int i = 0; i < BM; i += 32)
            copy_float(&As[stage][a_k][a_row + i], a_from + i * K,
                       block_row + a_row + i < M && t + a_k < K);
        const int n_left = t + b_k < K ? N - (block_col + b_col) : 0;
        const float* b_from = &B[(t + b_k) * N + block_col + b_col];
        if (b_wide) {
            copy_float4(&Bs[stage][b_k][b_col], b_from, n_left >= 4);
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                copy_float(&Bs[stage][b_k][b_col + e], b_from + e, n_left > e);
        }
        asm volatile("cp.async.commit_group;\n");
    };

    // Computing: thread (ty, tx) of 16×16 owns 8×8 outputs.
    const int row = tid / 16 * TM, col = tid % 16 * TN;
    float sum[TM][TN] = {};

    fetch(0, 0);
    for (int t = 0, stage = 0; t < K; t += BK, stage ^= 1) {
        asm volatile("cp.async.wait_group 0;\n" ::: "memory");
        // Everybody's copies of this tile have arrived, and nobody reads the other buffer.
        __syncthreads();
        if (t + BK < K) fetch(stage ^ 1, t + BK);
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float ra[TM], rb[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) ra[i] = As[stage][k][row + i];
#pragma unroll
            for (int j = 0; j < TN; ++j) rb[j] = Bs[stage][k][col + j];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += ra[i] * rb[j];
        }
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
