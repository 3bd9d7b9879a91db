/* ---
title  = "Three stages of asynchronous copies"
parent = "v4"
change = "Tiles come by cp.async, without a stay in registers, into one of three stages: while one is multiplied, the next two are under way. The padding is a copy of zero bytes. One barrier per step instead of two."
requires     = "C % 8 == 0 and K % 2 == 0 and max((N*H*W + 127)*max(C, K), 9*(K + 127)*C) < 2**31"
requires_why = "it copies eight channels and stores two filters at a time, and its indices are 32-bit integers"

[defines]
STAGES = 3

[tune]
STAGES = [2, 3, 4, 5, 6]

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 128)", "cdiv(K, 128)"]
block  = [256]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "STAGES * 256 * 128"

[[expect]]
counter = "duration"
change  = "< 0.8x"
why     = "in v4 all warps of a block waited for global memory between two barriers, at every step"
learned = "0.87x, by cycles 0.80x: outside of the profiler the clock presumably falls with the power that more products take. What is left is shared memory, busy 61% of the time with the 46 M wavefronts that v4 had as well"

[[expect]]
counter = "long_scoreboard"
change  = "< 0.2x"
why     = "nobody waits for a load into a register any more"
learned = "3.81 → 0.77 cycles per instruction, 0.201x: the bound is missed by less than the noise. Three fifths of what is left is counted at ldmatrix, which reads what the copies brought"

[[expect]]
counter = "shared_stores"
change  = "to 0"
why     = "cp.async writes shared memory by itself"

[[expect]]
counter = "registers"
change  = "down"
why     = "the tile is not held in registers between load and store"
learned = "three more, not fewer; presumably the arithmetic of stages takes more of them than the tile did"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "copies and products overlap"
--- */
#include <cuda_fp16.h>

constexpr int BM = 128;  // pixels a block
constexpr int BN = 128;  // filters a block
constexpr int BK = 64;   // channels of one tap in a tile
constexpr int WM = 64;   // pixels a warp
constexpr int WN = 32;   // filters a warp
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int ROWS = THREADS / (BK / 8);  // rows of a tile that all threads copy at once

// Where channel c of a row lies in its row: sixteen bytes of neighbouring rows trade places, so
// that the same channels of eight rows are in all 32 banks, and so are all channels of one row.
__device__ constexpr int slot(int row, int c) { return c ^ row % 8 * 8; }

// Four 8×8 matrices; lane 8·m + r names row r of matrix m, 16 bytes of shared memory.
__device__ __forceinline__ void ldmatrix(unsigned (&to)[4], const __half* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// 16 bytes from global to shared memory, past registers and L1; zeros where `inside` is false.
__device__ __forceinline__ void copy(__half* to, const __half* from, bool inside) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
}

// sum += a·b: a is 16 pixels × 16 channels, b is 16 channels × 8 filters.
__device__ __forceinline__ void mma(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS)
conv2d(const __half* __restrict__ input, const __half* __restrict__ weight,
       __half* __restrict__ output, int N, int H, int W, int C, int K) {
    extern __shared__ __align__(128) __half tiles[];
    __half(*As)[BM][BK] = reinterpret_cast<__half(*)[BM][BK]>(tiles);  // As[stage][pixel][channel]
    __half(*Bs)[BN][BK] = reinterpret_cast<__half(*)[BN][BK]>(&As[STAGES]);
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int pixels = N * H * W;
    const int first_pixel = blockIdx.x * BM, first_k = blockIdx.y * BN;

    // Copying: a thread has the same eight channels of every ROWS-th row.
    const int copy_row = tid / (BK / 8), copy_c = tid % (BK / 8) * 8;
    int h[BM / ROWS], w[BM / ROWS];
#pragma unroll
    for (int i = 0; i < BM / ROWS; ++i) {
        const int pixel = first_pixel + copy_row + i * ROWS;
        // Behind the last pixel: a row whose taps all lie in the padding.
        h[i] = pixel < pixels ? pixel / W % H : -2;
        w[i] = pixel % W;
    }

    // Computing: warps lie BN / WN abreast.
    const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;
    // The four matrices of A are rows 0–7 and 8–15, then the same eight channels further;
    // those of B are channels 0–7 and 8–15 of eight filters, then of the next eight.
    const int a_row = warp_row + lane % 16, a_c = lane / 16 * 8;
    const int b_row = warp_col + lane / 16 * 8 + lane % 8, b_c = lane / 8 % 2 * 8;
    float sum[WM / 16][WN / 8][4] = {};

    const int chunks = (C + BK - 1) / BK, steps = 9 * chunks;
    // Starts the copies of one step, a chunk of channels under one tap, into its stage.
    const auto start = [&](int step) {
        const int tap = step / chunks, r = tap / 3 - 1, s = tap % 3 - 1;
        const int c = step % chunks * BK + copy_c, stage = step % STAGES;
#pragma unroll
        for (int i = 0; i < BM / ROWS; ++i) {
            const int row = copy_row + i * ROWS;
            const bool inside = c < C && unsigned(h[i] + r) < unsigned(H) &&
                                unsigned(w[i] + s) < unsigned(W);
            // The pixel under a tap is r rows and s columns away, whatever the image.
            copy(&As[stage][row][slot(row, copy_c)],
                 &input[(first_pixel + row + r * W + s) * C + c], inside);
        }
#pragma unroll
        for (int i = 0; i < BN / ROWS; ++i) {
            const int row = copy_row + i * ROWS;
            copy(&Bs[stage][row][slot(row, copy_c)], &weight[((first_k + row) * 9 + tap) * C + c],
                 c < C && first_k + row < K);
        }
    };

    // A group of copies a step, also where none is left to start: so that the group of a step
    // is always the one that all but the STAGES - 2 newest have.
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) {
        start(step);  // there are at least nine
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // everybody's copies have come, and nobody reads the stage before
        if (step + STAGES - 1 < steps) start(step + STAGES - 1);
        asm volatile("cp.async.commit_group;" ::: "memory");

        const int stage = step % STAGES;
#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
            unsigned a[WM / 16][4], b[WN / 16][4];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i)
                ldmatrix(a[i], &As[stage][a_row + 16 * i][slot(a_row, kk + a_c)]);
#pragma unroll
            for (int j = 0; j < WN / 16; ++j)
                ldmatrix(b[j], &Bs[stage][b_row + 16 * j][slot(b_row, kk + b_c)]);
#pragma unroll
            for (int i = 0; i < WM / 16; ++i)
#pragma unroll
                for (int j = 0; j < WN / 8; ++j)
                    mma(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }

    // A lane holds two neighbouring filters of a pixel, and of the one eight further.
#pragma unroll
    for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int pixel = first_pixel + warp_row + 16 * i + 8 * half + lane / 4;
                const int k = first_k + warp_col + 8 * j + lane % 4 * 2;
                if (pixel < pixels && k < K)
                    *reinterpret_cast<__half2*>(&output[pixel * K + k]) =
                        __floats2half2_rn(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
            }
}
