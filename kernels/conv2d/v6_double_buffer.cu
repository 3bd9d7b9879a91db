/* ---
title  = "No divisions in the loop, double buffering"
parent = "v5"
change = "A warp loads one tap of 128 outputs, so its channel, row and column are known once per tile; they advance by adding digits and carrying, without a division. The next tile is loaded into registers while this one is multiplied, then stored into a second buffer: one barrier per tile instead of two."
requires     = "max(N*C*H*W, (K + 127)*(D + 7), N*K*OH*OW) < 2**31 and N*OH*OW < 2**31 - 128"
requires_why = "its indices are 32-bit integers, up to the end of the last tile"

[defines]
BK = 8

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N * OH * OW, 128)", "cdiv(K, 128)"]
block  = [256]
args   = [
    "x", "w", "y",
    ["N", "C", "H", "W", "K", "R", "S", "U", "V", "P", "Q", "OH", "OW"],
    ["BK // S % R", "BK % S", "(BK // (R * S) * H + BK // S % R) * W + BK % S"],
]

[[expect]]
counter = "instructions"
change  = "< 0.98x"
why     = "12 divisions per thread and tile are gone, an addition with carries stands in their place"

[[expect]]
counter = "alu_utilization"
change  = "down"
why     = "those divisions were multiplications and shifts of integers"

[[expect]]
counter = "barrier_stall"
change  = "down"
why     = "one barrier per tile instead of two, and no load is waited for between them"

[[expect]]
counter = "long_scoreboard"
change  = "down"
why     = "the loads of a tile have all of the products of the one before to arrive in"

[[expect]]
counter = "static_shared"
change  = "> 2x"
why     = "two buffers, and 2 KiB for the windows of the block's outputs, for which no registers are left"

[[expect]]
counter = "duration"
change  = "< 0.9x"
why     = "loading, dividing and multiplying took turns"
--- */
#include "layer.cuh"

constexpr int BM = 128;  // filters a block
constexpr int BN = 128;  // outputs a block
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
       Layer layer, Step next) {
    const int N = layer.N, C = layer.C, H = layer.H, W = layer.W, K = layer.K, R = layer.R,
              S = layer.S, U = layer.U, V = layer.V, P = layer.P, Q = layer.Q, OH = layer.OH,
              OW = layer.OW;
    // Four floats of padding: lanes that store two groups of taps of 16 filters meet 32 banks.
    __shared__ __align__(16) float ws[2][BK][BM + 4];  // ws[buffer][tap][filter]
    __shared__ __align__(16) float xs[2][BK][BN];      // xs[buffer][tap][output]
    __shared__ int4 windows[BN];  // of the outputs: offset of the corner in x, its row and column
    const int depth = C * R * S, outputs = N * OH * OW;
    const int first_row = blockIdx.y * BM, first_col = blockIdx.x * BN;
    const int tid = threadIdx.x;

    const int warp = tid / 32, lane = tid % 32;

    // Loading: four weights of one filter, and one tap of four outputs; a tap a warp.
    const int w_row = tid / (BK / 4), w_tap = tid % (BK / 4) * 4;
    const int w_end = first_row + w_row < K ? depth - w_tap : 0;  // of its filter, from w_tap on
    // Four weights at once need an address of 16 bytes: so a filter must be a multiple of four.
    const bool w_wide = depth % 4 == 0;
    if (tid < BN) {
        const int o = first_col + tid, at = o % (OH * OW);
        // Behind the last output: a window that lies below every image.
        const int top = o < outputs ? at / OW * U - P : H, left = at % OW * V - Q;
        windows[tid] = make_int4((o / (OH * OW) * C * H + top) * W + left, top, left, 0);
    }
    __syncthreads();
    // The warp's tap as a number of three digits, channel, row and column, and as an offset from
    // the window's corner. The next tile's is BK further: digits are added, and carried.
    int r = warp % (R * S) / S, s = warp % S, offset = (warp / (R * S) * H + r) * W + s;

    float4 taps;
    float pixels[BN / 32];
    auto load = [&](int t) {
        const int left_over = w_end - t;
        const float* from = &w[(first_row + w_row) * depth + t + w_tap];
        taps = w_wide && left_over >= 4 ? *reinterpret_cast<const float4*>(from)
                                        : load_tail(from, left_over);
#pragma unroll
        for (int e = 0; e < BN / 32; ++e) {
            const int4 window = windows[lane + 32 * e];
            pixels[e] = t + warp < depth && unsigned(window.y + r) < unsigned(H) &&
                                unsigned(window.z + s) < unsigned(W)
                            ? x[window.x + offset]
                            : 0.0f;
        }
        r += next.r, s += next.s, offset += next.offset;
        if (s >= S) s -= S, ++r, offset += W - S;
        if (r >= R) r -= R, offset += (H - R) * W;
    };
    auto store = [&](int buffer) {
        ws[buffer][w_tap + 0][w_row] = taps.x;
        ws[buffer][w_tap + 1][w_row] = taps.y;
        ws[buffer][w_tap + 2][w_row] = taps.z;
        ws[buffer][w_tap + 3][w_row] = taps.w;
#pragma unroll
        for (int e = 0; e < BN / 32; ++e) xs[buffer][warp][lane + 32 * e] = pixels[e];
    };

    // Computing: eight warps of 32×64 outputs lie two abreast, the lanes of each 4×8. A thread has
    // four filters and the four that are 16 further, four outputs and the four that are 32
    // further: so lanes read neighbouring float4. Lanes that differ in bit 0 alone want the same
    // outputs, in bit 1 alone the same filters: such pairs share a pass over shared memory.
    const int row = warp / 2 * 32 + (lane % 2 + lane / 16 * 2) * 4;
    const int col = warp % 2 * 64 + lane / 2 % 8 * 4;
    float sum[TM][TN] = {};

    load(0);
    store(0);
    __syncthreads();
    for (int t = 0, buffer = 0; t < depth; t += BK, buffer ^= 1) {
        if (t + BK < depth) load(t + BK);
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4)
                *reinterpret_cast<float4*>(&a[i]) =
                    *reinterpret_cast<const float4*>(&ws[buffer][k][row + i * 4]);
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                *reinterpret_cast<float4*>(&b[j]) =
                    *reinterpret_cast<const float4*>(&xs[buffer][k][col + j * 8]);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];
        }
        if (t + BK < depth) store(buffer ^ 1);
        // The other buffer is complete, and nobody reads this one any more.
        __syncthreads();
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
