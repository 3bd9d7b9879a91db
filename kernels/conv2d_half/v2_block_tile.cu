/* ---
title  = "128×128 block, 16-byte copies along the channels"
parent = "v1"
change = "Eight warps share tiles of 128 pixels × 64 channels of one tap and 128 filters × the same, copied 16 bytes at a time; each warp keeps 64×32 sums, so a fragment it loads is used two or four times."
requires     = "C % 8 == 0 and max((N*H*W + 127)*max(C, K), 9*(K + 127)*C) < 2**31"
requires_why = "it copies eight channels at a time, and its indices are 32-bit integers"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 128)", "cdiv(K, 128)"]
block  = [256]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]

[[expect]]
counter = "duration"
change  = "< 0.1x"
why     = "an element that is fetched serves 128 products instead of 16, eight are fetched at once, and the position of a pixel is worked out once instead of for each of its elements"

[[expect]]
counter = "instructions"
change  = "< 0.05x"
why     = "the divisions are out of the loop, and a copy moves eight elements"

[[expect]]
counter = "global_loads"
change  = "< 0.03x"
why     = "eight times fewer elements fetched, eight of them at a time"

[[expect]]
counter = "shared_conflict_ways"
change  = "up"
why     = "rows of 64 channels are 128 bytes, so the same 16 bytes of eight rows lie in the same four banks"

[[expect]]
counter = "tensor_utilization"
change  = ">= 15"
why     = "the copies shrink far more than the products"
learned = "10.8%. Bank conflicts took what the copies gave: 292 M wavefronts of shared memory where 49 M would do"
--- */
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int BM = 128;  // pixels a block
constexpr int BN = 128;  // filters a block
constexpr int BK = 64;   // channels of one tap in a tile
constexpr int WM = 64;   // pixels a warp
constexpr int WN = 32;   // filters a warp
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int ROWS = THREADS / (BK / 8);  // rows of a tile that all threads copy at once

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
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[WM / 16][WN / 16];
#pragma unroll
    for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 16; ++j) wmma::fill_fragment(sum[i][j], 0.0f);

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
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a[WM / 16];
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b[WN / 16];
#pragma unroll
                for (int i = 0; i < WM / 16; ++i)
                    wmma::load_matrix_sync(a[i], &As[warp_row + 16 * i][kk], BK);
#pragma unroll
                for (int j = 0; j < WN / 16; ++j)
                    wmma::load_matrix_sync(b[j], &Bs[warp_col + 16 * j][kk], BK);
#pragma unroll
                for (int i = 0; i < WM / 16; ++i)
#pragma unroll
                    for (int j = 0; j < WN / 16; ++j)
                        wmma::mma_sync(sum[i][j], a[i], b[j], sum[i][j]);
            }
            __syncthreads();  // nobody may overwrite a tile that another still reads
        }
    }

    // Which lane holds which sum is WMMA's secret: each warp takes its sums through its own
    // 16×16 piece of A's tile, which nobody reads any more.
    float* through = reinterpret_cast<float*>(&As[0][0]) + warp * 256;
#pragma unroll
    for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 16; ++j) {
            wmma::store_matrix_sync(through, sum[i][j], 16, wmma::mem_row_major);
            __syncwarp();
#pragma unroll 1  // unrolled, its addresses would not fit into the registers
            for (int e = lane; e < 256; e += 32) {
                const int pixel = first_pixel + warp_row + 16 * i + e / 16;
                const int k = first_k + warp_col + 16 * j + e % 16;
                if (pixel < pixels && k < K) output[pixel * K + k] = __float2half(through[e]);
            }
            __syncwarp();
        }
}
