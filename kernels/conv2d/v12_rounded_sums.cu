/* ---
title  = "Sums that round: as exact as float32"
parent = "v11"
change = "Tensor cores add up the products of one tile only; the FMA pipe adds the tiles' parts, and rounds where tensor cores truncate. Warps are 64 filters × 32 outputs, for the parts of fewer outputs to be live at once."
requires     = "max(N*C*H*W, (K + 127)*(D + 15), N*K*OH*OW) < 2**31 and N*OH*OW < 2**31 - 128"
requires_why = "its indices are 32-bit integers, up to the end of the last tile"

[defines]
BK = 16
STAGES = 3

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N * OH * OW, 64)", "cdiv(K, 128)"]
block  = [128]
args   = [
    "x", "w", "y",
    ["N", "C", "H", "W", "K", "R", "S", "U", "V", "P", "Q", "OH", "OW"],
    ["4 // S % R", "4 % S", "(4 // (R * S) * H + 4 // S % R) * W + 4 % S"],
]

[[expect]]
counter = "fadd_threads"
change  = "> 1.5x"
why     = "64 additions per lane and tile, beside the 48 that split its factors"

[[expect]]
counter = "registers"
change  = "up"
why     = "the parts, and both halves of two steps' filters"

[[expect]]
counter = "theoretical_occupancy"
change  = "down"
why     = "three blocks per SM instead of four"

[[expect]]
counter = "tensor_utilization"
change  = "down"
why     = "the same products in more time"

[[expect]]
counter = "duration"
change  = "> 1.05x"
why     = "the price of being as exact as float32: an error near 5e-7 instead of 4e-6 at 576 products, and none that grows with their number"
--- */
#include "layer.cuh"

constexpr int BM = 128;  // filters a block
constexpr int BN = 64;   // outputs a block
constexpr int WM = 64;   // filters a warp
constexpr int WN = 32;   // outputs a warp

// What a block shares.
struct Tiles {
    __align__(16) float ws[STAGES][BM][BK];  // ws[stage][filter][slot(filter, tap)]
    // Four floats of padding: every second tap of eight neighbouring outputs is in all 32 banks.
    __align__(16) float xs[STAGES][BK][BN + 4];  // xs[stage][tap][output]
    int4 windows[BN];  // of the outputs: offset of the corner in x, its row and column
};

// Copies one float from global to shared memory, or writes a zero where it lies outside.
__device__ __forceinline__ void copy_float(float* to, const float* from, bool inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(inside ? 4 : 0)
                 : "memory");
}

// The same for one that is known to lie inside.
__device__ __forceinline__ void copy_float(float* to, const float* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from)
                 : "memory");
}

// The same for four neighbouring floats, aligned to 16 bytes on both sides.
__device__ __forceinline__ void copy_float4(float* to, const float* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from)
                 : "memory");
}

// The same, or zeros where they lie outside.
__device__ __forceinline__ void copy_float4(float* to, const float* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
}

// v = high + low: tensor cores take the first 11 significant bits of a number, so the other 13
// make a number of their own, of which they take 11 as well. The difference is exact.
__device__ __forceinline__ void split(float v, unsigned& high, unsigned& low) {
    high = __float_as_uint(v) & 0xffffe000u;
    low = __float_as_uint(v - __uint_as_float(high));
}

// sum += a·b: a is 16 outputs × 8 taps, b is 8 taps × 8 filters.
__device__ __forceinline__ void mma(float (&sum)[4], const unsigned (&a)[4],
                                    const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Where a tap lies in its filter's row: eight taps of two neighbouring filters trade places with
// the other eight, so that eight taps of four neighbouring filters are in all 32 banks.
__device__ constexpr int slot(int filter, int tap) { return tap ^ filter / 2 % 2 * 8; }

// INSIDE: there is no padding, and BK divides the depth. Then every tap of every output lies in
// x, and what a tile has too many, behind the last filter and the last output, repeats the last
// one and is never stored: nothing has to be checked.
template <bool INSIDE>
__device__ __forceinline__ void convolve(Tiles& tiles, const float* __restrict__ x,
                                         const float* __restrict__ w, float* __restrict__ y,
                                         Layer layer, Step next) {
    const int N = layer.N, C = layer.C, H = layer.H, W = layer.W, K = layer.K, R = layer.R,
              S = layer.S, U = layer.U, V = layer.V, P = layer.P, Q = layer.Q, OH = layer.OH,
              OW = layer.OW;
    auto& ws = tiles.ws;
    auto& xs = tiles.xs;
    int4* windows = tiles.windows;
    const int depth = C * R * S, outputs = N * OH * OW;
    const int first_row = blockIdx.y * BM, first_col = blockIdx.x * BN;
    const int tid = threadIdx.x;
    const int warp = tid / 32, lane = tid % 32;

    // Loading: four taps of four filters, and four taps of two outputs; every fourth tap is a
    // warp's.
    const int w_row = tid / (BK / 4), w_tap = tid % (BK / 4) * 4;
    // Four weights at once need an address of 16 bytes: so a filter must be a multiple of four.
    const bool w_wide = depth % 4 == 0;
    int corner[BN / 32];  // offsets of the windows' corners in x
    if (INSIDE) {
#pragma unroll
        for (int e = 0; e < BN / 32; ++e) {
            const int o = min(first_col + lane + 32 * e, outputs - 1), at = o % (OH * OW);
            corner[e] = (o / (OH * OW) * C * H + at / OW * U) * W + at % OW * V;
        }
    } else if (tid < BN) {
        const int o = first_col + tid, at = o % (OH * OW);
        // Behind the last output: a window that lies below every image.
        const int top = o < outputs ? at / OW * U - P : H, left = at % OW * V - Q;
        windows[tid] = make_int4((o / (OH * OW) * C * H + top) * W + left, top, left, 0);
    }
    if (!INSIDE) __syncthreads();
    // The warp's tap as a number of three digits, channel, row and column, and as an offset from
    // the window's corner. The next one is four further: digits are added, and carried.
    int r = warp % (R * S) / S, s = warp % S, offset = (warp / (R * S) * H + r) * W + s;

    auto fetch = [&](int t, int stage) {
#pragma unroll
        for (int e = 0; e < BM; e += 128 / (BK / 4)) {
            const int k = first_row + w_row + e;
            float* to = &ws[stage][w_row + e][slot(w_row, w_tap)];
            const float* from = &w[k * depth + t + w_tap];
            if (INSIDE) {
                copy_float4(to, &w[min(k, K - 1) * depth + t + w_tap]);
            } else if (w_wide) {
                copy_float4(to, from, k < K && t + w_tap < depth);
            } else {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    copy_float(to + i, from + i, k < K && t + w_tap + i < depth);
            }
        }
#pragma unroll
        for (int q = 0; q < BK; q += 4) {
            const int tap = q + warp;
#pragma unroll
            for (int e = 0; e < BN; e += 32) {
                float* to = &xs[stage][tap][lane + e];
                if (INSIDE) {
                    copy_float(to, x + (corner[e / 32] + offset));
                } else {
                    const int4 window = windows[lane + e];
                    copy_float(to, x + (window.x + offset),
                               t + tap < depth && unsigned(window.y + r) < unsigned(H) &&
                                   unsigned(window.z + s) < unsigned(W));
                }
            }
            r += next.r, s += next.s, offset += next.offset;
            if (s >= S) s -= S, ++r, offset += W - S;
            if (r >= R) r -= R, offset += (H - R) * W;
        }
    };

    // Computing: warps of 32 outputs × 64 filters. The order of the eight taps of a product is
    // free, so a lane's two are neighbours; so are its two outputs of 16. Lane 4g + i has taps 2i
    // and 2i + 1, outputs 2g and 2g + 1, and filter g.
    const int row = warp / (BN / WN) * WM, col = warp % (BN / WN) * WN;
    const int g = lane / 4, tap = lane % 4 * 2;
    float sum[WN / 16][WM / 8][4] = {};

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
        unsigned b[BK / 8][WM / 8][2], b_low[BK / 8][WM / 8][2];
#pragma unroll
        for (int k = 0; k < BK; k += 8)
#pragma unroll
            for (int j = 0; j < WM / 8; ++j) {
                const float2 taps = *reinterpret_cast<const float2*>(
                    &ws[stage][row + 8 * j + g][slot(g, k + tap)]);
                split(taps.x, b[k / 8][j][0], b_low[k / 8][j][0]);
                split(taps.y, b[k / 8][j][1], b_low[k / 8][j][1]);
            }
#pragma unroll
        for (int i = 0; i < WN / 16; ++i) {
            // Tensor cores truncate what they add up. They do so with the sums of one tile, which
            // are small; the sums over all tiles are added by the FMA pipe, which rounds.
            float part[WM / 8][4] = {};
#pragma unroll
            for (int k = 0; k < BK; k += 8) {
                unsigned a[4], a_low[4];
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const float2 pixels = *reinterpret_cast<const float2*>(
                        &xs[stage][k + tap + e][col + 16 * i + 2 * g]);
                    split(pixels.x, a[2 * e], a_low[2 * e]);
                    split(pixels.y, a[2 * e + 1], a_low[2 * e + 1]);
                }
                // The product of both low parts is 2^-22 of the whole, and left out.
#pragma unroll
                for (int j = 0; j < WM / 8; ++j) mma(part[j], a_low, b[k / 8][j]);
#pragma unroll
                for (int j = 0; j < WM / 8; ++j) mma(part[j], a, b_low[k / 8][j]);
#pragma unroll
                for (int j = 0; j < WM / 8; ++j) mma(part[j], a, b[k / 8][j]);
            }
#pragma unroll
            for (int j = 0; j < WM / 8; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) sum[i][j][e] += part[j][e];
        }
        if (++stage == STAGES) stage = 0;
        if (++next_stage == STAGES) next_stage = 0;
    }

    // Two outputs at once need an address of 8 bytes: a plane that two divides keeps it, and
    // no two of them then belong to two images.
    const bool y_wide = OH * OW % 2 == 0;
#pragma unroll
    for (int i = 0; i < WN / 16; ++i) {
        const int o = first_col + col + 16 * i + 2 * g;
        float* to = &y[o / (OH * OW) * K * (OH * OW) + o % (OH * OW)];
        float* then = &y[(o + 1) / (OH * OW) * K * (OH * OW) + (o + 1) % (OH * OW)];
#pragma unroll
        for (int j = 0; j < WM / 8; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int k = first_row + row + 8 * j + tap + e;
                if (k >= K) continue;
                if (y_wide) {
                    if (o < outputs)
                        *reinterpret_cast<float2*>(&to[k * (OH * OW)]) =
                            make_float2(sum[i][j][e], sum[i][j][2 + e]);
                } else {
                    if (o < outputs) to[k * (OH * OW)] = sum[i][j][e];
                    if (o + 1 < outputs) then[k * (OH * OW)] = sum[i][j][2 + e];
                }
            }
    }
}

// Three blocks of 128 threads on an SM leave 168 registers a thread: enough for 64 sums, the parts
// of a row of tiles, and both halves of 16 taps of 64 filters.
extern "C" __global__ void __launch_bounds__(128, 3)
conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
       Layer layer, Step next) {
    __shared__ Tiles tiles;
    if (layer.P == 0 && layer.Q == 0 && layer.C * layer.R * layer.S % BK == 0)
        convolve<true>(tiles, x, w, y, layer, next);
    else
        convolve<false>(tiles, x, w, y, layer, next);
}
