/* ---
title  = "16×8 outputs per thread, operands ahead"
parent = "v7"
change = "Each thread keeps 16×8 outputs, each of four warps 128×32: six 16-byte loads feed 128 multiply-adds instead of four feeding 64. The operands of the next k are loaded while this one is multiplied, across tiles too, and three buffers give a tile two tiles' time to arrive."
requires     = "max((M + 127) * (K + 31), (K + 31) * (N + 127), (M + 127) * (N + 127)) < 2**31"
requires_why = "its indices are 32-bit integers, up to the end of the last tile that is fetched"

[[launch]]
kernel = "sgemm"
grid   = ["cdiv(N, 128)", "cdiv(M, 128)"]
block  = [128]
args   = ["A", "B", "C", "M", "N", "K"]

[[expect]]
counter = "duration"
change  = "down"
why     = "fewer loads and less to wait for, paid with half of the warps"
learned = "15% slower, and 6% at n = 4096. Loads were no limit any more, v7's L1 is 46% busy (49% at n = 4096), and half of the warps is a high price: a scheduler has one instead of two, at n = 4096 two instead of four, and issues in 67% of the cycles instead of 76% (77% instead of 82%)"

[[expect]]
counter = "shared_wavefronts"
change  = "< 0.8x"
why     = "12 wavefronts for 128 multiply-adds of a warp instead of 8 for 64; the stores of the tiles stay"
learned = "0.88x. The copies into the tiles were 24% of v7's wavefronts, so that 0.81x was all that there is; and the loads of a tile's first k, which cross the loop's end, are compiled one float at a time, 24 loads and wavefronts where six loads and 12 wavefronts would do. v19 writes its loads as float4"

[[expect]]
counter = "instructions"
change  = "down"
why     = "a quarter fewer loads and half of the loop's overhead for each multiply-add"

[[expect]]
counter = "short_scoreboard"
change  = "down"
why     = "a load has the 128 multiply-adds of another k to arrive"

[[expect]]
counter = "barrier_stall"
change  = "down"
why     = "four warps to wait for instead of eight, and operands already at hand behind the barrier"

[[expect]]
counter = "achieved_occupancy"
change  = "< 0.6x"
why     = "128 sums and 48 operands: eight warps per SM instead of 16, and they must do"

[[expect]]
counter = "ipc"
change  = "up"
why     = "more independent multiply-adds between two waits"
learned = "3.02 → 2.67, at n = 4096 3.27 → 3.09. A warp for itself is faster, 1.50 cycles per instruction instead of 2.64, but not twice as fast, as half of the warps would have to be: where one waits for its operands (Dispatch 0.16 of the 1.50) or for a fixed latency (Wait 0.19), there is no other to issue"
--- */
constexpr int BM = 128;  // rows of C a block
constexpr int BN = 128;  // columns of C a block
constexpr int BK = 8;    // depth of a tile
constexpr int TM = 16;   // rows of C a thread
constexpr int TN = 8;    // columns of C a thread
constexpr int STAGES = 3;

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

// Two blocks of 128 threads on an SM leave 255 registers a thread: enough for 128 sums.
extern "C" __global__ void __launch_bounds__(128, 2)
sgemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
      int M, int N, int K) {
    // k-major: a thread's eight rows are neighbours. With four floats of padding the lanes
    // that store eight k of four rows meet 32 banks.
    __shared__ __align__(16) float As[STAGES][BK][BM + 4];
    __shared__ __align__(16) float Bs[STAGES][BK][BN];
    const int tid = threadIdx.x;
    const int block_row = blockIdx.y * BM, block_col = blockIdx.x * BN;

    // Loading: 128 threads take an eighth of a tile of A (16×8) float by float, which
    // transposes it, and half of one of B (4×128) four floats at a time.
    const int a_row = tid / 8, a_k = tid % 8;
    const int b_k = tid / 32, b_col = tid % 32 * 4;
    // A copy of 16 bytes needs an address of 16: so a row must be a multiple of four floats.
    const bool b_wide = N % 4 == 0;
    auto fetch = [&](int stage, int t) {
        const float* a_from = &A[(block_row + a_row) * K + t + a_k];
#pragma unroll
        for (int i = 0; i < BM; i += 16)
            copy_float(&As[stage][a_k][a_row + i], a_from + i * K,
                       block_row + a_row + i < M && t + a_k < K);
#pragma unroll
        for (int i = 0; i < BK; i += 4) {
            const int n_left = t + b_k + i < K ? N - (block_col + b_col) : 0;
            const float* b_from = &B[(t + b_k + i) * N + block_col + b_col];
            if (b_wide) {
                copy_float4(&Bs[stage][b_k + i][b_col], b_from, n_left >= 4);
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    copy_float(&Bs[stage][b_k + i][b_col + e], b_from + e, n_left > e);
            }
        }
        asm volatile("cp.async.commit_group;\n");
    };

    // Computing: four warps of 128×32 outputs side by side, lanes 8×4 of 4×4, eight times over. A lane's
    // bit 0 counts columns and bit 1 rows: then of four neighbours two want the same rows and
    // two the same columns, and the hardware joins what both halves of a warp load.
    const int warp = tid / 32, lane = tid % 32;
    const int lane_row = lane / 8 * 2 + lane / 2 % 2, lane_col = lane / 4 % 2 * 2 + lane % 2;
    const int row = lane_row * 4, col = warp * 32 + lane_col * 4;
    float sum[TM][TN] = {};
    float ra[2][TM], rb[2][TN];  // the operands of this k and of the next
    auto load = [&](int to, int stage, int k) {
#pragma unroll
        for (int i = 0; i < TM; ++i) ra[to][i] = As[stage][k][row + i / 4 * 32 + i % 4];
#pragma unroll
        for (int j = 0; j < TN; ++j) rb[to][j] = Bs[stage][k][col + j / 4 * 16 + j % 4];
    };

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) fetch(s, s * BK);
    asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    load(0, 0, 0);
#pragma unroll 1
    for (int t = 0, stage = 0; t < K; t += BK) {
        // Into the buffer of the tile before this one; beyond K there are only zeros to write.
        fetch(stage == 0 ? STAGES - 1 : stage - 1, t + (STAGES - 1) * BK);
        const int next = stage == STAGES - 1 ? 0 : stage + 1;
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k == BK - 1) {
                asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
                // Everybody's copies of the next tile have arrived, and this one is read.
                __syncthreads();
                load((k + 1) % 2, next, 0);
            } else {
                load((k + 1) % 2, stage, k + 1);
            }
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += ra[k % 2][i] * rb[k % 2][j];
        }
        stage = next;
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int r = block_row + row + i / 4 * 32 + i % 4;
        if (r >= M) break;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int c = block_col + col + j * 4;
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
