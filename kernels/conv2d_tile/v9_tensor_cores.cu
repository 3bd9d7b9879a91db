/* ---
title  = "Tensor cores: two scaled halves for one float"
parent = "v7"
change = "Eight channels of a pixel are 16 bytes of halves, so that a window's two neighbouring pixels are a row of 32 bytes that ldmatrix fetches wherever it begins: the factor for 16 outputs, under two taps, with no window laid out. A float is the sum of two halves, after all of a tile were multiplied by the power of two that brings the largest to 2^14; three products of halves make one of floats. The other factor, 36 taps of eight filters, stays in registers."
requires     = "max(C * H * W, K * P * Q, 36 * K * C) < 2**31 and K < 2**18 and P < 2**18"
requires_why = "its indices are 32-bit integers, and a grid has less than 65,536 rows and planes"

[defines]
WARPS  = 4    # a block has 16 columns of outputs for each
TR     = 8    # rows of outputs a block
BLOCKS = 3    # of which an SM holds as many

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 16 * WARPS)", "cdiv(P, TR)", "cdiv(K, 8)"]
block  = ["32 * WARPS"]
args   = ["x", "w", "y", "C", "K", "H", "W", "P", "Q"]

[[expect]]
counter = "ffma_threads"
change  = "< 0.1x"
why     = "what is left scales the sums"
learned = "0.006x"

[[expect]]
counter = "tensor_utilization"
change  = "> 20"
why     = "1.3 M products of 16×8×16, of which 9/16 are of use, are about 8 µs at the rate of mma.sync"
learned = "20.2%, held by a hair: the products took the 8 µs that were expected, of 43"

[[expect]]
counter = "instructions"
change  = "< 0.5x"
why     = "a product replaces 18 multiply-adds of a warp that are of use, and three are needed"
learned = "0.54x. What is needed to bring pixels into shared memory had been left out: loads of one float, twice, their bounds, the power of two and the split are more than half of what is left"

[[expect]]
counter = "shared_wavefronts"
change  = "down"
why     = "a row of 16 pixels is fetched once for eight rows of outputs, in six ldmatrix of four wavefronts; v7 fetched three wide rows for two rows of 128"
learned = "0.63x"

[[expect]]
counter = "duration"
change  = "< 0.7x"
why     = "8 µs of products, and 4 µs of loads, splitting and stores, in part beside each other, where v7 issues multiply-adds for 24 µs"
learned = "1.73x. A block loads its tile, looks for the largest element, loads it again, splits it, and only then multiplies; three blocks an SM do not hide that from each other: long_scoreboard is 42% of all samples, where v7 copied a channel while it multiplied the one before"
--- */
#include <cuda_fp16.h>
#include <cstdint>

constexpr int THREADS = 32 * WARPS;
constexpr int COLUMNS = 16 * WARPS + 8;  // of pixels in a tile: five more than outputs, and three
constexpr int PIXELS = (TR + 5) * COLUMNS;

// The power of two that brings it to 2^14, as an exponent; no power is beyond float32's own.
__device__ __forceinline__ int power_for(float largest) {
    const int exponent = (__float_as_int(largest) >> 23) - 127;
    return largest == 0 ? 0 : min(14 - exponent, 126);
}

// 2^n, for n from -126 to 127.
__device__ __forceinline__ float power(int n) { return __int_as_float((n + 127) << 23); }

// x·2^n, for n from -252 to 254: in two steps, since one power alone may be beyond float32.
__device__ __forceinline__ float times_power(float x, int n) {
    const int half = n / 2;
    return x * power(half) * power(n - half);
}

__device__ __forceinline__ float largest_of_warp(float mine) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) mine = fmaxf(mine, __shfl_xor_sync(~0u, mine, i));
    return mine;
}

// Two floats as two pairs of halves: the big terms, and what they leave.
__device__ __forceinline__ void split(float first, float second, uint32_t& big, uint32_t& small) {
    const __half2 high = __floats2half2_rn(first, second);
    const float2 back = __half22float2(high);
    const __half2 low = __floats2half2_rn(first - back.x, second - back.y);
    big = *reinterpret_cast<const uint32_t*>(&high);
    small = *reinterpret_cast<const uint32_t*>(&low);
}

// Four 8×8 matrices of halves, a row of each from one lane's address.
__device__ __forceinline__ void ldmatrix(uint32_t (&v)[4], const uint4* from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(from))));
}

// sum += a·b: 16 outputs × 16 (two pixels of eight channels), × eight filters.
__device__ __forceinline__ void mma(float (&sum)[4], const uint32_t (&a)[4],
                                    const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C,
       int K, int H, int W, int P, int Q) {
    __shared__ uint4 big[TR + 5][COLUMNS], small[TR + 5][COLUMNS];  // a pixel's eight channels
    __shared__ uint4 shared_taps[18][32];  // each lane's factors under two taps, big and small
    __shared__ float2 found[WARPS];
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int top = blockIdx.y * TR, first = blockIdx.x * 16 * WARPS;
    float sum[TR][4] = {};

#pragma unroll 1
    for (int c = 0; c < C; c += 8) {
        // Twice, from memory and then from the L1: what is kept meanwhile costs registers.
        const int channels = min(8, C - c), plane = H * W;
        const float* const planes = x + c * plane;
        float largest = 0;
#pragma unroll 2
        for (int i = tid; i < PIXELS; i += THREADS) {
            const int row = top + i / COLUMNS, column = first + i % COLUMNS;
            if (row >= H || column >= W) continue;
#pragma unroll
            for (int n = 0; n < 8; ++n)
                if (n < channels)
                    largest = fmaxf(largest, fabsf(planes[n * plane + row * W + column]));
        }
        // The largest tap of these channels as well, of eight filters.
        float most = 0;
        const int mine = min(8, C - c) * 36, filters = min(8, K - (int)blockIdx.z * 8);
        const float* const these = &w[((int)blockIdx.z * 8 * C + c) * 36];
#pragma unroll 1
        for (int i = tid; i < filters * mine; i += THREADS)
            most = fmaxf(most, fabsf(these[i / mine * C * 36 + i % mine]));
        largest = largest_of_warp(largest), most = largest_of_warp(most);
        if (lane == 0) found[warp] = make_float2(largest, most);
        __syncthreads();  // also: nobody still multiplies the channels before
#pragma unroll
        for (int i = 0; i < WARPS; ++i)
            largest = fmaxf(largest, found[i].x), most = fmaxf(most, found[i].y);
        const int x_power = power_for(largest), w_power = power_for(most);
        const float scale = power(x_power);
#pragma unroll 2
        for (int i = tid; i < PIXELS; i += THREADS) {
            const int row = top + i / COLUMNS, column = first + i % COLUMNS;
            const bool inside = row < H && column < W;
            float v[8];
#pragma unroll
            for (int n = 0; n < 8; ++n)
                v[n] = inside && n < channels ? planes[n * plane + row * W + column] * scale : 0;
            uint4 high, low;
            split(v[0], v[1], high.x, low.x);
            split(v[2], v[3], high.y, low.y);
            split(v[4], v[5], high.z, low.z);
            split(v[6], v[7], high.w, low.w);
            big[0][i] = high, small[0][i] = low;
        }

        // A lane has two channels of each tap of a filter; two taps, s and s + 1, are a product's
        // depth.
        const float w_scale = power(w_power);
#pragma unroll 1
        for (int i = tid; i < 18 * 32; i += THREADS) {
            const int channel = i % 4 * 2, n = i / 4 % 8, tap = i / 32 * 2;
            const float* const from = &these[(n * C + channel) * 36 + tap];
            const bool one = n < filters && channel < channels;
            const bool two = n < filters && channel + 1 < channels;
            uint4 v;
            split(one ? from[0] * w_scale : 0, two ? from[36] * w_scale : 0, v.x, v.z);
            split(one ? from[1] * w_scale : 0, two ? from[37] * w_scale : 0, v.y, v.w);
            shared_taps[0][i] = v;
        }
        __syncthreads();
        uint32_t taps[6][3][2], taps_small[6][3][2];
#pragma unroll
        for (int r = 0; r < 6; ++r)
#pragma unroll
            for (int s = 0; s < 3; ++s) {
                const uint4 v = shared_taps[r * 3 + s][lane];
                taps[r][s][0] = v.x, taps[r][s][1] = v.y;
                taps_small[r][s][0] = v.z, taps_small[r][s][1] = v.w;
            }

        // Each row of pixels is fetched once, for all rows of outputs whose windows it is in.
        float part[TR][4] = {};
        const int at = warp * 16 + lane % 16 + lane / 16;  // lanes 16 to 31 name the next pixel
#pragma unroll
        for (int i = 0; i < TR + 5; ++i)
#pragma unroll
            for (int s = 0; s < 3; ++s) {
                uint32_t a[4], a_small[4];
                ldmatrix(a, &big[i][at + 2 * s]);
                ldmatrix(a_small, &small[i][at + 2 * s]);
#pragma unroll
                for (int r = 0; r < 6; ++r)
                    if (i >= r && i - r < TR) mma(part[i - r], a_small, taps[r][s]);
#pragma unroll
                for (int r = 0; r < 6; ++r)
                    if (i >= r && i - r < TR) mma(part[i - r], a, taps_small[r][s]);
#pragma unroll
                for (int r = 0; r < 6; ++r)
                    if (i >= r && i - r < TR) mma(part[i - r], a, taps[r][s]);
            }
#pragma unroll
        for (int j = 0; j < TR; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) sum[j][e] += times_power(part[j][e], -(x_power + w_power));
    }

    // A lane has two filters of two outputs, eight apart: eight lanes fill a sector.
#pragma unroll
    for (int j = 0; j < TR; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int q = first + warp * 16 + lane / 4 + e / 2 * 8;
            const int k = blockIdx.z * 8 + lane % 4 * 2 + e % 2;
            if (k < K && top + j < P && q < Q) y[(k * P + top + j) * Q + q] = sum[j][e];
        }
}
