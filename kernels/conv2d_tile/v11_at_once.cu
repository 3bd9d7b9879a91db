/* ---
title  = "All channels asked for at once"
parent = "v10"
change = "One thread asks the copy engine for the block's pixels of six channels, each with an mbarrier of its own, and all threads transform the taps of six channels: no warp waits for another one between channels, and no thread works out addresses of pixels. All outputs of a warp are laid out in rows before the first is stored."
requires     = "W % 4 == 0 and max(C * H * W, K * P * Q, 36 * K * C) < 2**31 and K < 2**16 and P < 2**18"
requires_why = "rows of a tensor map are multiples of 16 bytes, its indices are 32-bit integers, and a grid has less than 65,536 rows and planes"

[defines]
WARPS  = 4
TR     = 3
KT     = 6
STAGES = 6   # channels at once

[[tensor_map]]
name   = "planes"
buffer = "x"
dtype  = "float32"
dims   = ["W", "H", "C"]
box    = [136, "WARPS * TR + 5", 1]
l2_promotion = 256

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 128)", "cdiv(P, WARPS * TR)", "cdiv(K, KT)"]
block  = [32, "WARPS"]
args   = ["planes", "w", "y", "C", "K", "P", "Q"]
dynamic_shared = "128 + STAGES * 128 * cdiv(4 * 136 * (WARPS * TR + 5), 128)"

[[expect]]
counter = "instructions"
change  = "< 0.95x"
why     = "a seventh of v10's are outside of its rows of taps: addresses of pieces, copies and taps of the next channel"
learned = "0.985x: of 1,772 instructions a channel 115 are left out, and most of them return before the first channel, where each block transforms all taps"

[[expect]]
counter = "barrier_stall"
change  = "down"
why     = "two barriers for six"
learned = "0.048 → 0.20 cycles per instruction: one barrier for the taps of all six channels, which come from memory while nobody has anything else to do, costs more than six that warps meet while they multiply"

[[expect]]
counter = "issue_active"
change  = "up"
why     = "warps that are not held together at every channel cover each other's loads"
learned = "64.0% → 64.2%"

[[expect]]
counter = "duration"
change  = "< 0.92x"
why     = "fewer instructions, issued faster"
learned = "1.04x here; 0.94x at c6_w3072 and 0.97x with 32 channels, where the beginning weighs less"
--- */
#include <cuda.h>
#include <cstdint>

constexpr int THREADS = 32 * WARPS;
constexpr int BH = WARPS * TR;  // rows of outputs a block; its columns are 128, four a lane
constexpr int PITCH = 136;      // floats in a row of the tile: 128 + 5, rounded up to 16 bytes
constexpr int TILE_BYTES = 4 * (BH + 5) * PITCH;
constexpr int SLOT = (TILE_BYTES + 127) / 128 * 32;  // floats from tile to tile: whole 128 bytes
constexpr int TRIPLES = 12 * KT;  // of taps in a channel: two in each row of a filter
constexpr int TAP_TURNS = (TRIPLES * STAGES + THREADS - 1) / THREADS;  // triples a thread

static_assert(WARPS * KT * TR * 128 <= STAGES * SLOT, "outputs leave by way of the tiles");

__device__ __forceinline__ uint32_t shared_address(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
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

// F(4, 3) at the points 0, 1, -1, 2, -2 and infinity (Lavin and Gray, 2016, F(4x4, 3x3) in one
// dimension): six pixels become the factors of six products,
__device__ __forceinline__ void transform_pixels(float* to, const float* d) {
    const float even = d[4] - 4 * d[2], odd = d[3] - 4 * d[1];
    const float even_two = d[4] - d[2], odd_two = d[3] - d[1];
    to[0] = 4 * (d[0] - d[2]) + even_two;
    to[1] = even + odd;
    to[2] = even - odd;
    to[3] = even_two + 2 * odd_two;
    to[4] = even_two - 2 * odd_two;
    to[5] = d[5] - d[3] - 4 * odd_two;
}

// three taps the other ones,
__device__ __forceinline__ void transform_taps(float* to, const float* g) {
    const float outer = g[0] + g[2], far = g[0] + 4 * g[2];
    to[0] = g[0] / 4;
    to[1 * KT] = (outer + g[1]) * (-1.0f / 6);
    to[2 * KT] = (outer - g[1]) * (-1.0f / 6);
    to[3 * KT] = (far + 2 * g[1]) * (1.0f / 24);
    to[4 * KT] = (far - 2 * g[1]) * (1.0f / 24);
    to[5 * KT] = g[2];
}

// and sums of such products four outputs.
__device__ __forceinline__ float4 transform_sums(const float* m) {
    const float one = m[1] + m[2], one_odd = m[1] - m[2];
    const float two = m[3] + m[4], two_odd = m[3] - m[4];
    return make_float4(m[0] + one + two, one_odd + 2 * two_odd, one + 4 * two,
                       one_odd + 8 * two_odd + m[5]);
}

// Products i and i + 1 of row r of the filter: TR rows of pixels by KT taps, there and back, so
// that two neighbours have an operand in common, which is then fetched from its register once.
__device__ __forceinline__ void multiply(float (&sum)[KT][TR][6], const float (&value)[TR][12],
                                         const float (&tap)[2 * KT], int r, int i) {
#pragma unroll
    for (int n = 0; n < 2 * KT; ++n)
#pragma unroll
        for (int m = 0; m < TR; ++m) {
            const int j = n % 2 == 0 ? m : TR - 1 - m;
            sum[n % KT][j][(i + n / KT) % 6] += value[(r + j) % TR][i + n / KT] * tap[n];
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
conv2d(const __grid_constant__ CUtensorMap planes, const float* __restrict__ w,
       float* __restrict__ y, int C, int K, int P, int Q) {
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t there[STAGES];  // a channel's pixels
    __shared__ __align__(16) float taps[STAGES][6][12][KT];  // transformed: [channel][r][product]
    float* const tiles = reinterpret_cast<float*>(memory + (-shared_address(memory) & 127));
    const int warp = threadIdx.y, lane = threadIdx.x, tid = warp * 32 + lane;
    const int top = blockIdx.y * BH, first = blockIdx.x * 128, k = blockIdx.z * KT;
    if (tid == 0) {
#pragma unroll
        for (int c = 0; c < STAGES; ++c)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&there[c]))
                         : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }

    float sum[KT][TR][6] = {};
#pragma unroll 1
    for (int begin = 0, parity = 0; begin < C; begin += STAGES, parity ^= 1) {
        const int channels = min(STAGES, C - begin);
        if (begin > 0) __syncthreads();  // nobody reads the channels before any more
        if (tid == 0)
#pragma unroll 1
            for (int c = 0; c < channels; ++c) {
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                             ::"r"(shared_address(&there[c])), "n"(TILE_BYTES)
                             : "memory");
                asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                             ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                             ::"r"(shared_address(tiles + c * SLOT)), "l"(&planes), "r"(first),
                             "r"(top), "r"(begin + c), "r"(shared_address(&there[c]))
                             : "memory");
            }
        // What lies beyond the last output channel is wanted by outputs that do not exist:
        // anything may stand there, so the last one's taps do.
        float triple[TAP_TURNS][3];
#pragma unroll
        for (int turn = 0; turn < TAP_TURNS; ++turn) {
            const int i = turn * THREADS + tid, c = i / TRIPLES, n = i / 12 % KT;
            if (c < channels)
#pragma unroll
                for (int s = 0; s < 3; ++s)
                    triple[turn][s] =
                        w[(min(k + n, K - 1) * C + begin + c) * 36 + i % 12 * 3 + s];
        }
#pragma unroll
        for (int turn = 0; turn < TAP_TURNS; ++turn) {
            const int i = turn * THREADS + tid, c = i / TRIPLES, n = i / 12 % KT;
            if (c < channels)
                transform_taps(&taps[c][i % 12 / 2][i % 2 * 6][n], triple[turn]);
        }
        __syncthreads();

#pragma unroll 1
        for (int c = 0; c < channels; ++c) {
            asm volatile("{.reg .pred over;\nAGAIN:\n"
                         "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                         "@!over bra AGAIN;}" ::"r"(shared_address(&there[c])), "r"(parity)
                         : "memory");
            // A ring of TR input rows slides down: each is transformed once.
            const float* rows = tiles + c * SLOT + warp * TR * PITCH + lane * 4;
            float value[TR][12];
            const auto next_row = [&](float(&v)[12]) {
                float pixel[12];
                load<3>(pixel, rows);
                transform_pixels(v, pixel);
                transform_pixels(v + 6, pixel + 3);
                rows += PITCH;
            };
#pragma unroll
            for (int j = 0; j < TR - 1; ++j) next_row(value[j]);
#pragma unroll
            for (int r = 0; r < 6; ++r) {
                next_row(value[(r + TR - 1) % TR]);
#pragma unroll
                for (int i = 0; i < 12; i += 2) {
                    float tap[2 * KT];  // two of 12, of all output channels
                    load<KT / 2>(tap, taps[c][r][i]);
                    multiply(sum, value, tap, r, i);
                }
            }
        }
    }

    // Each warp lays its outputs out in rows, where nobody reads pixels any more.
    __syncthreads();
    float* const rows = tiles + warp * (KT * TR * 128);
#pragma unroll
    for (int n = 0; n < KT; ++n)
#pragma unroll
        for (int j = 0; j < TR; ++j)
            *reinterpret_cast<float4*>(&rows[(n * TR + j) * 128 + lane * 4]) =
                transform_sums(sum[n][j]);
    __syncwarp();
    const int p = top + warp * TR;
#pragma unroll
    for (int n = 0; n < KT; ++n)
#pragma unroll
        for (int j = 0; j < TR; ++j)
            if (k + n < K && p + j < P) {
                float* const to = &y[((k + n) * P + p + j) * Q + first + lane];
#pragma unroll
                for (int o = 0; o < 128; o += 32)
                    if (first + lane + o < Q) to[o] = rows[(n * TR + j) * 128 + lane + o];
            }
}
