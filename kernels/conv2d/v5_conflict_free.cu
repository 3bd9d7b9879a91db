/* ---
title  = "No bank conflicts, four floats at a time"
parent = "v4"
change = "A thread's eight filters and eight outputs are two fours, so that lanes read neighbouring float4; lanes are numbered so that pairs of them share each read; a tile row of weights is padded by four floats. Weights are loaded and outputs stored as float4."
requires     = "max(N*C*H*W, (K + 127)*(D + 7), N*K*OH*OW) < 2**31 and N*OH*OW < 2**31 - 128"
requires_why = "its indices are 32-bit integers, up to the end of the last tile"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N * OH * OW, 128)", "cdiv(K, 128)"]
block  = [256]
args   = ["x", "w", "y", ["N", "C", "H", "W", "K", "R", "S", "U", "V", "P", "Q", "OH", "OW"]]

[[expect]]
counter = "shared_wavefronts_excess"
change  = "to 0"
why     = "neighbouring float4 in all phases of a load, 32 banks in all stores"

[[expect]]
counter = "shared_wavefronts"
change  = "< 0.4x"
why     = "no conflicts, and pairs of lanes that share what they read: half the passes of a 16-byte load"

[[expect]]
counter = "global_stores"
change  = "< 0.3x"
why     = "four outputs per store"

[[expect]]
counter = "global_store_bytes_per_sector"
change  = "> 5x"
why     = "eight lanes side by side store 128 bytes in a row"

[[expect]]
counter = "global_load_requests"
change  = "< 0.7x"
why     = "four weights per load"

[[expect]]
counter = "duration"
change  = "< 0.8x"
why     = "shared memory was v4's busiest unit"
learned = "0.85x. Its wavefronts fell by 63% and the L1 from 60% to 30% of its peak, but instructions by 4% only. The divisions that find a tap's channel, row and column are 229 M of the 956 M that are left and take 31% of the warp samples, and the loads behind them are waited for as before (Long scoreboard 1.30 → 0.98 cycles per instruction): v6 takes up both, and gains twice as much"
--- */
#include "layer.cuh"

constexpr int BM = 128;  // filters a block
constexpr int BN = 128;  // outputs a block
constexpr int BK = 8;    // depth of a tile
constexpr int TM = 8;    // filters a thread
constexpr int TN = 8;    // outputs a thread

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
conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
       Layer layer) {
    const int N = layer.N, C = layer.C, H = layer.H, W = layer.W, K = layer.K, R = layer.R,
              S = layer.S, U = layer.U, V = layer.V, P = layer.P, Q = layer.Q, OH = layer.OH,
              OW = layer.OW;
    // Four floats of padding: lanes that store two groups of taps of 16 filters meet 32 banks.
    __shared__ __align__(16) float ws[BK][BM + 4];  // ws[tap][filter]
    __shared__ __align__(16) float xs[BK][BN];      // xs[tap][output]
    const int depth = C * R * S, outputs = N * OH * OW;
    const int first_row = blockIdx.y * BM, first_col = blockIdx.x * BN;
    const int tid = threadIdx.x;

    // Loading: four weights of one filter, and four pixels of the window of one output.
    const int w_row = tid / (BK / 4), w_tap = tid % (BK / 4) * 4;
    const int w_end = first_row + w_row < K ? depth - w_tap : 0;  // of its filter, from w_tap on
    // Four weights at once need an address of 16 bytes: so a filter must be a multiple of four.
    const bool w_wide = depth % 4 == 0;
    const int x_tap = tid / BN, x_col = tid % BN;
    const int n = (first_col + x_col) / (OH * OW), at = (first_col + x_col) % (OH * OW);
    const int top = at / OW * U - P, left = at % OW * V - Q;  // of the window, maybe outside of x

    // Computing: eight warps of 32×64 outputs lie two abreast, the lanes of each 4×8. A thread has
    // four filters and the four that are 16 further, four outputs and the four that are 32
    // further: so lanes read neighbouring float4. Lanes that differ in bit 0 alone want the same
    // outputs, in bit 1 alone the same filters: such pairs share a pass over shared memory.
    const int warp = tid / 32, lane = tid % 32;
    const int row = warp / 2 * 32 + (lane % 2 + lane / 16 * 2) * 4;
    const int col = warp % 2 * 64 + lane / 2 % 8 * 4;
    float sum[TM][TN] = {};

    for (int t = 0; t < depth; t += BK) {
        const int left_over = w_end - t;
        const float* from = &w[(first_row + w_row) * depth + t + w_tap];
        const float4 taps = w_wide && left_over >= 4 ? *reinterpret_cast<const float4*>(from)
                                                     : load_tail(from, left_over);
        ws[w_tap + 0][w_row] = taps.x;
        ws[w_tap + 1][w_row] = taps.y;
        ws[w_tap + 2][w_row] = taps.z;
        ws[w_tap + 3][w_row] = taps.w;
#pragma unroll
        for (int e = 0; e < BK; e += 256 / BN) {
            const int d = t + x_tap + e;
            const int c = d / (R * S), r = d % (R * S) / S, s = d % S;
            const int i = top + r, j = left + s;
            xs[x_tap + e][x_col] = d < depth && n < N && i >= 0 && i < H && j >= 0 && j < W
                                       ? x[((n * C + c) * H + i) * W + j]
                                       : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4)
                *reinterpret_cast<float4*>(&a[i]) =
                    *reinterpret_cast<const float4*>(&ws[k][row + i * 4]);
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                *reinterpret_cast<float4*>(&b[j]) =
                    *reinterpret_cast<const float4*>(&xs[k][col + j * 8]);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];
        }
        __syncthreads();  // nobody may overwrite a tile that another still reads
    }

    // Four outputs at once need an address of 16 bytes: a plane that four divides keeps it, and
    // no four of them then belong to two images.
    const bool y_wide = OH * OW % 4 == 0;
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
        const int o = first_col + col + j * 8;
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int k = first_row + row + i / 4 * 16 + i % 4;
            if (k >= K) break;
            if (y_wide) {
                if (o < outputs)
                    *reinterpret_cast<float4*>(
                        &y[(o / (OH * OW) * K + k) * (OH * OW) + o % (OH * OW)]) =
                        make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (o + e < outputs)
                        y[((o + e) / (OH * OW) * K + k) * (OH * OW) + (o + e) % (OH * OW)] =
                            sum[i][j + e];
            }
        }
    }
}
