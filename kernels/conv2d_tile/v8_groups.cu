/* ---
title  = "Output channels dealt out to warps"
parent = "v7"
change = "The six output channels of a block are shared out to three groups of warps. A thread computes 4×3 outputs of two channels instead of 4×2 of six, so there are twice as many warps, and a warp without an output channel rests."
requires     = "max(C * H * W, K * P * Q, 36 * K * C) < 2**31 and K < 2**16 and P < 2**18"
requires_why = "its indices are 32-bit integers, and a grid has less than 65,536 rows and planes"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 128)", "cdiv(P, DOWN * TR)", "cdiv(K, GROUPS * KT)"]
block  = [32, "DOWN", "GROUPS"]
args   = ["x", "w", "y", "C", "K", "H", "W", "P", "Q"]

[defines]
DOWN   = 2
GROUPS = 3
TR     = 3
KT     = 2
STAGES = 2
BLOCKS = 4

[[expect]]
counter = "shared_loads"
change  = "< 0.95x"
why     = "45 wide loads for 1152 multiply-adds, where 75 fed 1728"
learned = "that was counted for 4×4 outputs per thread; 4×3 run faster, since their loop is shorter and four blocks fit an SM, and take 42 loads for 864: 844 k instead of 764 k in all"

[[expect]]
counter = "registers"
change  = "down"
why     = "24 sums per thread instead of 48; a third row of values takes some of it back"

[[expect]]
counter = "achieved_occupancy"
change  = "up"
why     = "six warps per block instead of four, and more blocks"

[[expect]]
counter = "fma_utilization"
change  = "up"
why     = "six warps per scheduler find an instruction to issue more often than three, and the loop over a channel is 14 KB of code instead of 27"
learned = "73% → 67%. More warps can issue, 2.9 per scheduler instead of 2.0, but each has half the work between two barriers and stands there for 1.1 of 6.2 cycles instead of 0.17 of 3.4; and multiply-adds are 86% of the instructions instead of 89%"

[[expect]]
counter = "duration"
change  = "down"
why     = "the same multiply-adds at a higher rate"
learned = "8% slower. The busiest SM has as many multiply-adds as before, four blocks of six warps with 5,184 each instead of three of four with 10,368, and issues more beside them"
--- */
constexpr int THREADS = 32 * DOWN * GROUPS;
constexpr int BH = DOWN * TR;    // rows of outputs a block; its columns are 128, four a lane
constexpr int BK = GROUPS * KT;  // output channels a block
constexpr int PITCH = 136;       // floats in a row of the tile: 128 + 5, rounded up to 16 bytes
constexpr int TILE_BYTES = 4 * (BH + 5) * PITCH;
constexpr int TAPS_BYTES = 4 * 36 * BK;
constexpr int PIECES = (BH + 5) * (PITCH / 4);           // of 16 bytes in a tile
constexpr int TURNS = (PIECES + THREADS - 1) / THREADS;  // pieces a thread

// Asynchronous copies from global to shared memory, which pass no register.
template <int BYTES>
__device__ __forceinline__ void copy(unsigned to, const float* from) {
    if (BYTES == 16)  // the only width that may leave the L1 out
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from),
                     "n"(BYTES));
}

__device__ __forceinline__ unsigned shared_address(const float* of) {
    return static_cast<unsigned>(__cvta_generic_to_shared(of));
}

// 4·N neighbouring floats of shared memory, 16 bytes a load.
template <int N>
__device__ __forceinline__ void load(float (&v)[4 * N], const float* from) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float4 piece = reinterpret_cast<const float4*>(from)[i];
        v[4 * i] = piece.x;
        v[4 * i + 1] = piece.y;
        v[4 * i + 2] = piece.z;
        v[4 * i + 3] = piece.w;
    }
}

static_assert(THREADS >= BK * 18, "a thread copies two taps of a channel at the most");
static_assert(DOWN * GROUPS * TR <= STAGES * (BH + 5), "outputs leave through the tiles' buffers");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C,
       int K, int H, int W, int P, int Q) {
    __shared__ __align__(16) float tile[STAGES][BH + 5][PITCH];
    __shared__ __align__(16) float taps[STAGES][6][BK][6];  // [buffer][r][output channel][s]
    const int tid = (threadIdx.z * DOWN + threadIdx.y) * 32 + threadIdx.x;
    const int top = blockIdx.y * BH, first = blockIdx.x * 128;
    const int p = top + threadIdx.y * TR;
    const int k = blockIdx.z * BK + threadIdx.z * KT;
    const bool wide = W % 4 == 0;

    // The pieces that this thread copies of every channel: where from and where to, one channel
    // further with each. What lies beyond the input or the last output channel is wanted by
    // outputs that do not exist: anything may stand there, so the nearest element does.
    const float* from[TURNS];
    unsigned to[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const int i = turn * THREADS + tid;
        const int row = i / (PITCH / 4), col = i % (PITCH / 4) * 4;
        from[turn] = &x[min(top + row, H - 1) * W + min(first + col, W - 4)];
        to[turn] = shared_address(&tile[0][0][0]) + 4 * (row * PITCH + col);
    }
    // And its two taps of every channel.
    const int taps_k = min(tid / 18, BK - 1), tap = tid % 18 * 2;
    const float* taps_from = &w[min(blockIdx.z * BK + taps_k, K - 1) * C * 36 + tap];
    unsigned taps_to = shared_address(&taps[0][tap / 6][taps_k][tap % 6]);

    const auto fetch = [&](int c, int stage) {
        const bool last = stage == STAGES - 1;  // the next channel goes to the first buffer again
        if (wide) {
#pragma unroll
            for (int turn = 0; turn < TURNS; ++turn) {
                if (turn < TURNS - 1 || tid < PIECES - turn * THREADS)
                    copy<16>(to[turn], from[turn]);
                from[turn] += H * W;
                to[turn] += last ? -(STAGES - 1) * TILE_BYTES : TILE_BYTES;
            }
        } else {
            const float* plane = &x[c * H * W];
#pragma unroll 1
            for (int i = tid; i < (BH + 5) * PITCH; i += THREADS) {
                const int row = i / PITCH, col = i % PITCH;
                copy<4>(shared_address(&tile[stage][row][col]),
                        &plane[min(top + row, H - 1) * W + min(first + col, W - 1)]);
            }
        }
        if (tid < BK * 18) copy<8>(taps_to, taps_from);
        taps_from += 36;
        taps_to += last ? -(STAGES - 1) * TAPS_BYTES : TAPS_BYTES;
        asm volatile("cp.async.commit_group;");
    };

    float sum[KT][TR][4] = {};
#pragma unroll
    for (int c = 0; c < STAGES - 1; ++c) {
        if (c < C) fetch(c, c);
        else asm volatile("cp.async.commit_group;");
    }
    int stage = 0;
#pragma unroll 1
    for (int c = 0; c < C; ++c) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();  // channel c is here for all; nobody reads the buffer before it any more
        const int free = stage == 0 ? STAGES - 1 : stage - 1;
        if (c + STAGES - 1 < C) fetch(c + STAGES - 1, free);
        else asm volatile("cp.async.commit_group;");

        if (k < K) {
            // A ring of TR input rows slides down: each comes from shared memory once.
            const float* rows = &tile[stage][threadIdx.y * TR][threadIdx.x * 4];
            float value[TR][12];
#pragma unroll
            for (int j = 0; j < TR - 1; ++j) load<3>(value[j], rows + j * PITCH);
#pragma unroll
            for (int r = 0; r < 6; ++r) {
                load<3>(value[(r + TR - 1) % TR], rows + (r + TR - 1) * PITCH);
#pragma unroll
                for (int n = 0; n < KT; n += 2) {
                    float tap[12];  // of two output channels; all lanes read the same ones
                    load<3>(tap, taps[stage][r][threadIdx.z * KT + n]);
#pragma unroll
                    for (int i = 0; i < 12; ++i)
#pragma unroll
                        for (int j = 0; j < TR; ++j)
#pragma unroll
                            for (int o = 0; o < 4; ++o)
                                sum[n + i / 6][j][o] += value[(r + j) % TR][o + i % 6] * tap[i];
                }
            }
        }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }

    // Outputs leave through shared memory, a channel at a time: each warp has TR rows of a buffer.
    __syncthreads();
    float(*rows)[PITCH] = &tile[0][0] + (threadIdx.z * DOWN + threadIdx.y) * TR;
#pragma unroll
    for (int n = 0; n < KT; ++n) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < TR; ++j)
            *reinterpret_cast<float4*>(&rows[j][threadIdx.x * 4]) =
                make_float4(sum[n][j][0], sum[n][j][1], sum[n][j][2], sum[n][j][3]);
        __syncwarp();
#pragma unroll
        for (int j = 0; j < TR; ++j)
#pragma unroll
            for (int o = 0; o < 128; o += 32) {
                const int col = o + threadIdx.x;
                if (k + n < K && p + j < P && first + col < Q)
                    y[((k + n) * P + p + j) * Q + first + col] = rows[j][col];
            }
    }
}
