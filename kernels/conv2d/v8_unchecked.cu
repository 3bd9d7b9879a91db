/* ---
title  = "No checks where nothing can lie outside"
parent = "v7"
change = "The kernel is compiled twice. Where there is no padding and tiles of taps are full, no copy is checked: a window's corner and a tap's offset are all there is to an address. Every other problem takes the loop with checks."
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
counter = "instructions"
change  = "< 0.97x"
why     = "per copied pixel one 16-byte load, two comparisons of each kind and a selection are gone"

[[expect]]
counter = "shared_loads"
change  = "< 0.95x"
why     = "corners are in registers, not in a table"

[[expect]]
counter = "alu_utilization"
change  = "down"
why     = "comparisons and selections are what this pipe does"

[[expect]]
counter = "ffma_threads"
change  = "same"
why     = "the multiply-adds are v7's"

[[expect]]
counter = "duration"
change  = "< 0.95x"
why     = "a scheduler issues one instruction per cycle at best, and more than one in four of v7's was no multiply-add; of v8's it is one in five"
learned = "0.88x; in the smallest layer of the sweep, c32_h64_k128, only 0.99x. Instructions fall by 8% there too, but to fetch them takes 25 M warp cycles where v7 took 2 M (No instruction 0.03 → 0.56 cycles per instruction). In the large layer it is 42 M instead of 16 M, about as many more in sixteen times the work: presumably the first fetch of a longer program"
--- */
#include "layer.cuh"

constexpr int BM = 128;  // filters a block
constexpr int BN = 128;  // outputs a block
constexpr int TM = 8;    // filters a thread
constexpr int TN = 8;    // outputs a thread

// What a block shares.
struct Tiles {
    // Four floats of padding: lanes that store eight taps of four filters meet 32 banks.
    __align__(16) float ws[STAGES][BK][BM + 4];  // ws[stage][tap][filter]
    __align__(16) float xs[STAGES][BK][BN];      // xs[stage][tap][output]
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

    // Loading: a tap of four filters, and a tap of four outputs; of the latter a tap a warp.
    const int w_row = tid / BK, w_tap = tid % BK;
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
    // the window's corner. The next tile's is BK further: digits are added, and carried.
    int r = warp % (R * S) / S, s = warp % S, offset = (warp / (R * S) * H + r) * W + s;

    auto fetch = [&](int t, int stage) {
#pragma unroll
        for (int e = 0; e < BM; e += 256 / BK) {
            const int k = first_row + w_row + e;
            float* to = &ws[stage][w_tap][w_row + e];
            if (INSIDE)
                copy_float(to, &w[min(k, K - 1) * depth + t + w_tap]);
            else
                copy_float(to, &w[k * depth + t + w_tap], k < K && t + w_tap < depth);
        }
#pragma unroll
        for (int e = 0; e < BN; e += 32) {
            float* to = &xs[stage][warp][lane + e];
            if (INSIDE) {
                copy_float(to, x + (corner[e / 32] + offset));
            } else {
                const int4 window = windows[lane + e];
                copy_float(to, x + (window.x + offset),
                           t + warp < depth && unsigned(window.y + r) < unsigned(H) &&
                               unsigned(window.z + s) < unsigned(W));
            }
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

// Two blocks of 256 threads on an SM leave 128 registers a thread: enough for 64 sums.
extern "C" __global__ void __launch_bounds__(256, 2)
conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
       Layer layer, Step next) {
    __shared__ Tiles tiles;
    if (layer.P == 0 && layer.Q == 0 && layer.C * layer.R * layer.S % BK == 0)
        convolve<true>(tiles, x, w, y, layer, next);
    else
        convolve<false>(tiles, x, w, y, layer, next);
}
