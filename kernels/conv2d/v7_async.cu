/* ---
title  = "Asynchronous copies in three stages"
parent = "v6"
change = "Tiles travel from global to shared memory past the registers (cp.async), two tiles ahead of the one that is multiplied. A copy is four bytes, which turns the weights on the way, and fills up with zeros outside of x, which needs no branch."
requires     = "max(N*C*H*W, (K + 127)*(D + 15), N*K*OH*OW) < 2**31 and N*OH*OW < 2**31 - 128"
requires_why = "its indices are 32-bit integers, up to the end of the last tile"

[defines]
BK = 8
STAGES = 3

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
counter = "registers"
change  = "same"
why     = "the eight registers that a tile waited in are free, but the compiler has uses for them: the limit is 128"

[[expect]]
counter = "global_load_requests"
change  = "> 1.3x"
why     = "weights are copied one by one, to be turned on the way: eight copies per thread and tile where v6 had a float4 and four floats"

[[expect]]
counter = "shared_stores"
change  = "down"
why     = "a copy is not a store"

[[expect]]
counter = "long_scoreboard"
change  = "< 0.5x"
why     = "no register waits for global memory"
learned = "0.015 → 0.085 cycles per instruction, for nobody had to wait any more: v6 had brought it down from 0.977. It is 1.6% of a warp's time, and half of its samples are at the copies of pixels; presumably an address may not be replaced before its copy has left"

[[expect]]
counter = "lsu_utilization"
change  = "up"
why     = "every copy passes the load and store units alone, and finds its window there as well"

[[expect]]
counter = "duration"
change  = "< 1.1x"
why     = "the copies save registers and a store each, and cost three more addresses per tile; the loads were hidden already"
--- */
#include "layer.cuh"

constexpr int BM = 128;  // filters a block
constexpr int BN = 128;  // outputs a block
constexpr int TM = 8;    // filters a thread
constexpr int TN = 8;    // outputs a thread

// Copies one float from global to shared memory, or writes a zero where it lies outside.
__device__ __forceinline__ void copy_float(float* to, const float* from, bool inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(inside ? 4 : 0)
                 : "memory");
}

// Two blocks of 256 threads on an SM leave 128 registers a thread: enough for 64 sums.
extern "C" __global__ void __launch_bounds__(256, 2)
conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
       Layer layer, Step next) {
    const int N = layer.N, C = layer.C, H = layer.H, W = layer.W, K = layer.K, R = layer.R,
              S = layer.S, U = layer.U, V = layer.V, P = layer.P, Q = layer.Q, OH = layer.OH,
              OW = layer.OW;
    // Four floats of padding: lanes that store eight taps of four filters meet 32 banks.
    __shared__ __align__(16) float ws[STAGES][BK][BM + 4];  // ws[stage][tap][filter]
    __shared__ __align__(16) float xs[STAGES][BK][BN];      // xs[stage][tap][output]
    __shared__ int4 windows[BN];  // of the outputs: offset of the corner in x, its row and column
    const int depth = C * R * S, outputs = N * OH * OW;
    const int first_row = blockIdx.y * BM, first_col = blockIdx.x * BN;
    const int tid = threadIdx.x;
    const int warp = tid / 32, lane = tid % 32;

    // Loading: a tap of four filters, and a tap of four outputs; of the latter a tap a warp.
    const int w_row = tid / BK, w_tap = tid % BK;
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

    auto fetch = [&](int t, int stage) {
        const float* from = &w[(first_row + w_row) * depth + t + w_tap];
#pragma unroll
        for (int e = 0; e < BM; e += 256 / BK)
            copy_float(&ws[stage][w_tap][w_row + e], from + e * depth,
                       first_row + w_row + e < K && t + w_tap < depth);
#pragma unroll
        for (int e = 0; e < BN; e += 32) {
            const int4 window = windows[lane + e];
            copy_float(&xs[stage][warp][lane + e], x + (window.x + offset),
                       t + warp < depth && unsigned(window.y + r) < unsigned(H) &&
                           unsigned(window.z + s) < unsigned(W));
        }
        r += next.r, s += next.s, offset += next.offset;
        if (s >= S) s -= S, ++r, offset += W - S;
        if (r >= R) r -= R, offset += (H - R) * W;
    };

    // Computing: eight warps of 32×64 outputs lie two abreast, the lanes of each 4×8. A thread has
    // four filters and the four that are 16 further, four outputs and the four that are 32
    // further: so lanes read neighbouring float4. Lanes that differ in bit 0 alone want the same
    // outputs, in bit 1 alone the same filters: such pairs share a pass over shared memory.
    const int row = warp / 2 * 32 + (lane % 2 + lane / 16 * 2) * 4;
    const int col = warp % 2 * 64 + lane / 2 % 8 * 4;
    float sum[TM][TN] = {};

    // A group of copies a tile, also where none is left: so that the group of a tile is always
    // the one that all but the STAGES - 2 newest have.
#pragma unroll
    for (int e = 0; e < STAGES - 1; ++e) {
        if (e * BK < depth) fetch(e * BK, e);
        asm volatile("cp.async.commit_group;\n" ::: "memory");
    }
    int stage = 0, next_stage = STAGES - 1;
    for (int t = 0; t < depth; t += BK) {
        asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // everybody's copies have come, and nobody reads the stage before
        if (t + (STAGES - 1) * BK < depth) fetch(t + (STAGES - 1) * BK, next_stage);
        asm volatile("cp.async.commit_group;\n" ::: "memory");
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4)
                *reinterpret_cast<float4*>(&a[i]) =
                    *reinterpret_cast<const float4*>(&ws[stage][k][row + i * 4]);
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                *reinterpret_cast<float4*>(&b[j]) =
                    *reinterpret_cast<const float4*>(&xs[stage][k][col + j * 8]);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];
        }
        if (++stage == STAGES) stage = 0;
        if (++next_stage == STAGES) next_stage = 0;
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
