/* ---
title  = "A loop of its own for rows that are not aligned"
parent = "v17"
change = "Whether rows of B are aligned to 16 bytes is asked once, and there are two loops, one copying four floats at a time and one copying them singly, instead of a branch in the loop."
requires     = "max((M + 127) * (K + 31), (K + 31) * (N + 127), (M + 127) * (N + 127)) < 2**31"
requires_why = "its indices are 32-bit integers, up to the end of the last tile that is fetched"

[[launch]]
kernel = "sgemm"
grid   = ["cdiv(N, 128)", "cdiv(M, 128)"]
block  = [128]
args   = ["A", "B", "C", "M", "N", "K"]

[[expect]]
counter = "instructions"
change  = "down"
why     = "the loop that copies four at a time is compiled to 1148 instructions, v17's to 1185, ten of which it jumps over"
learned = "0.984x"

[[expect]]
counter = "duration"
change  = "down"
why     = "they were issue slots as well"
learned = "far more than these: 10% off at n = 4096, for copies are spread among the multiply-adds again (Long Scoreboard 0.16 → 0.030, MIO Throttle 0.065 → 0.0045)"
--- */
constexpr int BM = 128;    // rows of C a block
constexpr int BN = 128;    // columns of C a block
constexpr int BK = 8;      // depth of a tile
constexpr int TM = 16;     // rows of C a thread
constexpr int TN = 8;      // columns of C a thread
constexpr int STAGES = 3;  // tiles in shared memory

constexpr int PITCH = BM + 4;  // of A's tile: lanes that store eight k of four rows meet 32 banks
constexpr int STAGE = BK * (PITCH + BN);  // floats of a tile of A, k-major, and of one of B

// Copies WIDTH neighbouring floats, one or four, from global to shared memory, or writes
// zeros where they lie outside. Four must be aligned to 16 bytes on both sides.
template <int WIDTH>
__device__ __forceinline__ void copy(unsigned to, const float* from, bool inside) {
    if (WIDTH == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
                     "r"(inside ? 16 : 0));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(to), "l"(from),
                     "r"(inside ? 4 : 0));
}

// WIDTH floats of B are copied at a time: four where its rows are aligned to 16 bytes,
// otherwise one.
template <int WIDTH>
__device__ __forceinline__ void multiply(const float* __restrict__ A, const float* __restrict__ B,
                                         float* __restrict__ C, int M, int N, int K,
                                         float* shared) {
    const int tid = threadIdx.x;
    const int block_row = blockIdx.y * BM, block_col = blockIdx.x * BN;

    // Loading: 128 threads take an eighth of a tile of A (16×8) float by float, which
    // transposes it, and half of one of B (4×128) four floats at a time. What is beyond the
    // last row or column may be anything, since it is not stored: the last one again.
    constexpr int A_COPIES = BM / 16, B_LANES = BN / WIDTH, B_ROWS = 128 / B_LANES;
    constexpr int B_COPIES = BK / B_ROWS;
    const int a_row = tid / 8, a_k = tid % 8;
    const int b_k = tid / B_LANES, b_col = tid % B_LANES * WIDTH;
    int a_from[A_COPIES], b_from[B_COPIES];
#pragma unroll
    for (int i = 0; i < A_COPIES; ++i)
        a_from[i] = min(block_row + a_row + i * 16, M - 1) * K + a_k;
#pragma unroll
    for (int i = 0; i < B_COPIES; ++i)
        b_from[i] = (b_k + i * B_ROWS) * N + min(block_col + b_col, N - WIDTH);
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const unsigned a_to = base + 4 * (a_k * PITCH + a_row);
    const unsigned b_to = base + 4 * (BK * PITCH + b_k * BN + b_col);
    const float* b_tile = B;
    auto fetch = [&](int at, int t) {
#pragma unroll
        for (int i = 0; i < A_COPIES; ++i)
            copy<1>(a_to + 4 * (at + i * 16), A + t + a_from[i], t + a_k < K);
#pragma unroll
        for (int i = 0; i < B_COPIES; ++i)
            copy<WIDTH>(b_to + 4 * (at + i * B_ROWS * BN), b_tile + b_from[i],
                        t + b_k + i * B_ROWS < K);
        b_tile += BK * N;
        asm volatile("cp.async.commit_group;\n");
    };

    // Computing: four warps of 128×32 outputs side by side, lanes 8×4 of 4×4, eight times
    // over. A lane's bit 0 counts columns and bit 1 rows: then of four neighbours two want
    // the same rows and two the same columns, and the hardware joins what both halves of a
    // warp load.
    const int warp = tid / 32, lane = tid % 32;
    const int lane_row = lane / 8 * 2 + lane / 2 % 2, lane_col = lane / 4 % 2 * 2 + lane % 2;
    const int row = lane_row * 4, col = warp * 32 + lane_col * 4;
    float sum[TM][TN] = {};
    float ra[2][TM], rb[2][TN];  // the operands of this k and of the next
    auto load = [&](int to, int at, int k) {
#pragma unroll
        for (int i = 0; i < TM; ++i) ra[to][i] = shared[at + k * PITCH + row + i / 4 * 32 + i % 4];
#pragma unroll
        for (int j = 0; j < TN; ++j)
            rb[to][j] = shared[at + BK * PITCH + k * BN + col + j / 4 * 16 + j % 4];
    };

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) fetch(s * STAGE, s * BK);
    asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    load(0, 0, 0);
    int reading = 0, writing = (STAGES - 1) * STAGE;
#pragma unroll 1
    for (int t = 0; t < K; t += BK) {
        // Into the buffer of the tile before this one; beyond K there are only zeros to write.
        fetch(writing, t + (STAGES - 1) * BK);
        writing = writing == (STAGES - 1) * STAGE ? 0 : writing + STAGE;
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k == BK - 1) {
                asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
                // Everybody's copies of the next tile have arrived, and this one is read.
                __syncthreads();
                reading = reading == (STAGES - 1) * STAGE ? 0 : reading + STAGE;
                load((k + 1) % 2, reading, 0);
            } else {
                load((k + 1) % 2, reading, k + 1);
            }
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += ra[k % 2][i] * rb[k % 2][j];
        }
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int r = block_row + row + i / 4 * 32 + i % 4;
        if (r >= M) break;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int c = block_col + col + j * 4;
            if (WIDTH == 4 && c + 4 <= N) {
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

// Two blocks of 128 threads on an SM leave 255 registers a thread: enough for 128 sums.
extern "C" __global__ void __launch_bounds__(128, 2)
sgemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
      int M, int N, int K) {
    __shared__ __align__(16) float shared[STAGES * STAGE];
    if (N % 4 == 0)
        multiply<4>(A, B, C, M, N, K, shared);
    else
        multiply<1>(A, B, C, M, N, K, shared);
}
