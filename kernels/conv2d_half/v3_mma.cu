/* ---
title  = "mma.sync and ldmatrix"
parent = "v2"
change = "The products are written as mma.sync.m16n8k16, its operands come by ldmatrix. The layout of the sums is documented, so they go to the output from registers, two filters at a time."
requires     = "C % 8 == 0 and K % 2 == 0 and max((N*H*W + 127)*max(C, K), 9*(K + 127)*C) < 2**31"
requires_why = "it copies eight channels and stores two filters at a time, and its indices are 32-bit integers"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 128)", "cdiv(K, 128)"]
block  = [256]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]

[[expect]]
counter = "instructions"
change  = "down"
why     = "one ldmatrix.x4 where WMMA may need several loads, half as many stores"

[[expect]]
counter = "shared_bank_conflicts"
change  = "down"
why     = "only the detour of the sums falls away: the tiles lie as they did, eight rows of a matrix in the same four banks, and ldmatrix takes eight wavefronts for each"
learned = "that detour was 0.6% of them"

[[expect]]
counter = "duration"
change  = "down"
why     = "a little: the tiles and their conflicts are the same"
learned = "by 1.3%, as much as the cycles (1.5%). The profiler's 5.4% were its clock, which was not held"
--- */
#include <cuda_fp16.h>

constexpr int BM = 128;  // pixels a block
constexpr int BN = 128;  // filters a block
constexpr int BK = 64;   // channels of one tap in a tile
constexpr int WM = 64;   // pixels a warp
constexpr int WN = 32;   // filters a warp
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int ROWS = THREADS / (BK / 8);  // rows of a tile that all threads copy at once

// Four 8×8 matrices; lane 8·m + r names row r of matrix m, 16 bytes of shared memory.
__device__ __forceinline__ void ldmatrix(unsigned (&to)[4], const __half* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
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
    __shared__ __align__(128) __half As[BM][BK];  // As[pixel][channel]
    __shared__ __align__(128) __half Bs[BN][BK];  // Bs[filter][channel]
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

    for (int tap = 0; tap < 9; ++tap) {
        const int r = tap / 3 - 1, s = tap % 3 - 1;
        for (int c0 = 0; c0 < C; c0 += BK) {
            const int c = c0 + copy_c;
#pragma unroll
            for (int i = 0; i < BM / ROWS; ++i) {
                const int row = copy_row + i * ROWS;
                const bool inside = c < C && unsigned(h[i] + r) < unsigned(H) &&
                                    unsigned(w[i] + s) < unsigned(W);
                // The pixel under a tap is r rows and s columns away, whatever the image.
                const __half* from = &input[(first_pixel + row + r * W + s) * C + c];
                *reinterpret_cast<uint4*>(&As[row][copy_c]) =
                    inside ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
            }
#pragma unroll
            for (int i = 0; i < BN / ROWS; ++i) {
                const int row = copy_row + i * ROWS;
                const bool inside = c < C && first_k + row < K;
                const __half* from = &weight[((first_k + row) * 9 + tap) * C + c];
                *reinterpret_cast<uint4*>(&Bs[row][copy_c]) =
                    inside ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
            }
            __syncthreads();
#pragma unroll
            for (int kk = 0; kk < BK; kk += 16) {
                unsigned a[WM / 16][4], b[WN / 16][4];
#pragma unroll
                for (int i = 0; i < WM / 16; ++i)
                    ldmatrix(a[i], &As[a_row + 16 * i][kk + a_c]);
#pragma unroll
                for (int j = 0; j < WN / 16; ++j)
                    ldmatrix(b[j], &Bs[b_row + 16 * j][kk + b_c]);
#pragma unroll
                for (int i = 0; i < WM / 16; ++i)
#pragma unroll
                    for (int j = 0; j < WN / 8; ++j)
                        mma(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
            __syncthreads();  // nobody may overwrite a tile that another still reads
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
