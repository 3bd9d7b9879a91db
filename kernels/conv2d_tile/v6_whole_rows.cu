/* ---
title  = "Outputs leave in whole rows"
parent = "v5"
change = "Each warp passes its outputs through shared memory, so that a store writes 32 neighbouring columns instead of every fourth of 128."
requires     = "max(C * H * W, K * P * Q, 36 * K * C) < 2**31 and K < 2**16 and P < 2**18"
requires_why = "its indices are 32-bit integers, and a grid has less than 65,536 rows and planes"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 128)", "cdiv(P, WARPS * TR)", "cdiv(K, KT)"]
block  = [32, "WARPS"]
args   = ["x", "w", "y", "C", "K", "H", "W", "P", "Q"]

[defines]
WARPS = 4
TR    = 2
KT    = 6

[[expect]]
counter = "global_store_sectors_per_request"
change  = "< 0.4x"
why     = "32 floats in a row touch four or five sectors; every fourth of 128 touched 16 or 17"

[[expect]]
counter = "l2_write_sectors"
change  = "< 0.5x"
why     = "v5 sent each sector once for each of the four floats that a lane stored into it"
learned = "0.80x. The L1 had gathered them: 1.20 M sectors that v5's stores touched went to the L2 as 412 k; now it is 354 k and 328 k, and 290 k is the least"

[[expect]]
counter = "shared_stores"
change  = "up"
why     = "twelve wide stores per thread, at the very end"

[[expect]]
counter = "duration"
change  = "down"
why     = "the blocks all store at the same time, at the end, when no arithmetic is left to hide it"
learned = "by 0.8%, 29.2 → 28.9 µs, and under the profiler not at all; at seven of the eight other sizes of the sweep it is slower. Stores held 3% of v5's samples and the L2 was at 23%; the way through shared memory takes as long as it saves"
--- */
constexpr int THREADS = 32 * WARPS;
constexpr int BH = WARPS * TR;  // rows of outputs a block; its columns are 128, four a lane
constexpr int PITCH = 136;      // floats in a row of the tile: 128 + 5, rounded up to 16 bytes

// Asynchronous copies from global to shared memory, which pass no register.
template <int BYTES>
__device__ __forceinline__ void copy(float* to, const float* from) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if (BYTES == 16)  // the only width that may leave the L1 out
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from),
                     "n"(BYTES));
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

extern "C" __global__ void __launch_bounds__(THREADS)
conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C,
       int K, int H, int W, int P, int Q) {
    __shared__ __align__(16) float tile[2][BH + 5][PITCH];
    __shared__ __align__(16) float taps[2][6][KT][6];  // [buffer][r][output channel][s]
    const int tid = threadIdx.y * 32 + threadIdx.x;
    const int top = blockIdx.y * BH, first = blockIdx.x * 128;
    const int p = top + threadIdx.y * TR;
    const int k = blockIdx.z * KT;
    const bool wide = W % 4 == 0;

    // Begin to copy channel c. What lies beyond the input or the last output channel is wanted by
    // outputs that do not exist: anything may stand there, so the nearest element does.
    const auto fetch = [&](int c) {
        float(&into)[BH + 5][PITCH] = tile[c % 2];
        const float* plane = &x[c * H * W];
        if (wide) {
#pragma unroll
            for (int i = tid; i < (BH + 5) * (PITCH / 4); i += THREADS) {
                const int row = i / (PITCH / 4), col = i % (PITCH / 4) * 4;
                copy<16>(&into[row][col],
                         &plane[min(top + row, H - 1) * W + min(first + col, W - 4)]);
            }
        } else {
#pragma unroll 1
            for (int i = tid; i < (BH + 5) * PITCH; i += THREADS) {
                const int row = i / PITCH, col = i % PITCH;
                copy<4>(&into[row][col],
                        &plane[min(top + row, H - 1) * W + min(first + col, W - 1)]);
            }
        }
#pragma unroll
        for (int i = tid; i < KT * 18; i += THREADS) {
            const int n = i / 18, tap = i % 18 * 2;
            copy<8>(&taps[c % 2][tap / 6][n][tap % 6],
                    &w[(min(k + n, K - 1) * C + c) * 36 + tap]);
        }
        asm volatile("cp.async.commit_group;");
    };

    float sum[KT][TR][4] = {};
    fetch(0);
#pragma unroll 1
    for (int c = 0; c < C; ++c) {
        asm volatile("cp.async.wait_all;");
        __syncthreads();  // channel c is here for all; nobody reads the other buffer any more
        if (c + 1 < C) fetch(c + 1);

        // A ring of TR input rows slides down: each comes from shared memory once.
        const float* rows = &tile[c % 2][threadIdx.y * TR][threadIdx.x * 4];
        float value[TR][12];
#pragma unroll
        for (int j = 0; j < TR - 1; ++j) load<3>(value[j], rows + j * PITCH);
#pragma unroll
        for (int r = 0; r < 6; ++r) {
            load<3>(value[(r + TR - 1) % TR], rows + (r + TR - 1) * PITCH);
#pragma unroll
            for (int n = 0; n < KT; n += 2) {
                float tap[12];  // of two output channels; all lanes read the same ones
                load<3>(tap, taps[c % 2][r][n]);
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

    // Nobody reads the buffer that channel C would have had. Each warp takes TR rows of it.
    float(*rows)[PITCH] = &tile[C % 2][threadIdx.y * TR];
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
