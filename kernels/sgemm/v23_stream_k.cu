/* ---
title  = "Equal shares of the products for every SM"
parent = "v9"
change = "Stream-K: 132 blocks stay and share all steps of all tiles equally, so that a block's share may begin and end within a tile. Who has a tile's first step stores it; whoever has a later part leaves its sums in memory, and says so by a flag."
requires     = "max((M + 127) * (K + 31), (K + 31) * (N + 255), (M + 127) * (N + 255)) < 2**31"
requires_why = "its indices are 32-bit integers, up to the end of the last tile that is fetched"

[defines]
BLOCKS = 132  # one for each SM of an H200; all of them must be there at once, since they wait for each other

[[scratch]]
name  = "partial"
dtype = "float32"
shape = ["BLOCKS", 128, 256]

[[scratch]]
name  = "ready"
dtype = "int32"
shape = ["BLOCKS"]

[[fill]]
name  = "ready"
value = 0

[[launch]]
kernel = "sgemm"
grid   = ["min(BLOCKS, cdiv(N, 256) * cdiv(M, 128) * cdiv(K, 8))"]
block  = [256]
args   = ["A", "B", "C", "partial", "ready", "M", "N", "K"]
cooperative = true

[[expect]]
counter = "duration"
change  = "< 0.4x"
why     = "at n = 1024, where v9 has 32 blocks for 132 SMs; the sums that 100 blocks leave and 32 fetch are 13 MB, a few microseconds. At n = 4096 512 tiles are 3.9 waves, and a little over 0.97x is all that there is"
learned = "0.388x at n = 1024, 0.476x at n = 512; 1.03x and 1.01x at n = 2048 and 4096. There blocks that run together work four tiles apart, on other rows of A: at n = 4096 1.66 GB come from device memory instead of 0.40"

[[expect]]
counter = "fma_utilization"
change  = "same"
why     = "of an SM that has work it is the loop's"
learned = "76% → 64% at n = 1024, 80% → 76% at n = 4096: the loop has 17 instructions more, and starts anew for each part of a tile"
--- */
constexpr int BM = 128;    // rows of C a block
constexpr int BN = 256;    // columns of C a block
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

// Says that what this block's threads have written is there.
__device__ __forceinline__ void tell(int* flag) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");
    }
}

// Waits until another block has said so.
__device__ __forceinline__ void wait_for(const int* flag) {
    if (threadIdx.x == 0) {
        int said;
        do
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(said) : "l"(flag) : "memory");
        while (said == 0);
    }
    __syncthreads();
}

// The first of the steps that a block has, of all tiles one after the other.
__device__ __forceinline__ int share(int block, int tiles, int steps) {
    return static_cast<int>(static_cast<long long>(tiles) * steps * block / gridDim.x);
}

// Steps `first` to `last` of a tile. WIDTH floats of B are copied at a time: four where its rows
// are aligned to 16 bytes, otherwise one.
template <int WIDTH>
__device__ __forceinline__ void multiply(const float* __restrict__ A, const float* __restrict__ B,
                                         float* __restrict__ C, float* __restrict__ partial,
                                         int* __restrict__ ready, int M, int N, int K, int tile,
                                         int tiles, int first, int last, float* shared) {
    const int tid = threadIdx.x, steps = (K + BK - 1) / BK, columns = (N + BN - 1) / BN;
    const int block_row = tile / columns * BM, block_col = tile % columns * BN;

    // Loading: 256 threads take a quarter of a tile of A (32×8) float by float, which
    // transposes it, and half of one of B (4×256) four floats at a time. What is beyond the
    // last row or column may be anything, since it is not stored: the last one again.
    constexpr int A_COPIES = BM / 32, B_LANES = BN / WIDTH, B_ROWS = 256 / B_LANES;
    constexpr int B_COPIES = BK / B_ROWS;
    const int a_row = tid / 8, a_k = tid % 8;
    const int b_k = tid / B_LANES, b_col = tid % B_LANES * WIDTH;
    int a_from[A_COPIES], b_from[B_COPIES];
#pragma unroll
    for (int i = 0; i < A_COPIES; ++i)
        a_from[i] = min(block_row + a_row + i * 32, M - 1) * K + a_k;
#pragma unroll
    for (int i = 0; i < B_COPIES; ++i)
        b_from[i] = (b_k + i * B_ROWS) * N + min(block_col + b_col, N - WIDTH);
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const unsigned a_to = base + 4 * (a_k * PITCH + a_row);
    const unsigned b_to = base + 4 * (BK * PITCH + b_k * BN + b_col);
    const float* b_tile = B + first * BK * N;
    auto fetch = [&](int at, int t) {
#pragma unroll
        for (int i = 0; i < A_COPIES; ++i)
            copy<1>(a_to + 4 * (at + i * 32), A + t + a_from[i], t + a_k < K);
#pragma unroll
        for (int i = 0; i < B_COPIES; ++i)
            copy<WIDTH>(b_to + 4 * (at + i * B_ROWS * BN), b_tile + b_from[i],
                        t + b_k + i * B_ROWS < K);
        b_tile += BK * N;
        asm volatile("cp.async.commit_group;\n");
    };

    // Computing: eight warps of 128×32 outputs side by side, lanes 8×4 of 4×4, eight times
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
        for (int i = 0; i < TM; i += 4) {
            const float4 v =
                *reinterpret_cast<const float4*>(&shared[at + k * PITCH + row + i * 8]);
            ra[to][i] = v.x, ra[to][i + 1] = v.y, ra[to][i + 2] = v.z, ra[to][i + 3] = v.w;
        }
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const float4 v =
                *reinterpret_cast<const float4*>(&shared[at + BK * PITCH + k * BN + col + j * 4]);
            rb[to][j] = v.x, rb[to][j + 1] = v.y, rb[to][j + 2] = v.z, rb[to][j + 3] = v.w;
        }
    };

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) fetch(s * STAGE, (first + s) * BK);
    asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    load(0, 0, 0);
    int reading = 0, writing = (STAGES - 1) * STAGE;
#pragma unroll 1
    for (int t = first * BK; t < last * BK; t += BK) {
        // Into the buffer of the step before this one; beyond K there are only zeros to write, and
        // beyond the last step what nobody reads.
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
                for (int step = 0; step < TN; ++step) {
                    const int j = i % 2 ? TN - 1 - step : step;
                    sum[i][j] += ra[k % 2][i] * rb[k % 2][j];
                }
        }
    }

    asm volatile("cp.async.wait_group 0;\n" ::: "memory");
    __syncthreads();

    // Sums that are left lie as threads have them: neighbours have neighbouring floats.
    if (first > 0) {
        float* const to = partial + blockIdx.x * (BM * BN) + tid;
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; ++j) to[(i * TN + j) * 256] = sum[i][j];
        tell(&ready[blockIdx.x]);
        return;
    }
    if (last < steps)
        for (int other = blockIdx.x + 1;
             other < gridDim.x && share(other, tiles, steps) < (tile + 1) * steps; ++other) {
            wait_for(&ready[other]);
            const float* const from = partial + other * (BM * BN) + tid;
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += __ldcg(&from[(i * TN + j) * 256]);
        }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int r = block_row + row + i / 4 * 32 + i % 4;
        if (r >= M) break;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int c = block_col + col + j * 4;
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (c + e < N) C[r * N + c + e] = sum[i][j + e];
        }
    }
}

// One block of 256 threads on an SM leaves 255 registers a thread.
extern "C" __global__ void __launch_bounds__(256)
sgemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
      float* __restrict__ partial, int* __restrict__ ready, int M, int N, int K) {
    __shared__ __align__(16) float shared[STAGES * STAGE];
    const int steps = (K + BK - 1) / BK;
    const int tiles = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
    const int end = share(blockIdx.x + 1, tiles, steps);
    for (int at = share(blockIdx.x, tiles, steps); at < end;) {
        const int tile = at / steps, first = at % steps, last = min(steps, first + end - at);
        if (N % 4 == 0)
            multiply<4>(A, B, C, partial, ready, M, N, K, tile, tiles, first, last, shared);
        else
            multiply<1>(A, B, C, partial, ready, M, N, K, tile, tiles, first, last, shared);
        at += last - first;
    }
}
