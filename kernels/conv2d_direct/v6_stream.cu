/* ---
title  = "Down a strip through a ring of rows"
parent = "v5"
change = "A warp walks down a strip of 128 columns. Asynchronous copies keep the next rows of all planes on their way into a ring in shared memory; a row is fetched once a strip, not once for every four rows of outputs that lie around it."
requires     = "C * H * W < 2**31 and U <= 3 and 4 * C * (WARPS * DEPTH * (128 * U + 8) + 12) <= 96 * 1024"
requires_why = "its indices are 32-bit integers, its loops over a row are written for strides of 1 to 3, and its rings must fit into 96 KiB of shared memory"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 128 * WARPS)", "cdiv(P, max(LEAST, cdiv(P, CHUNKS)))"]
block  = [32, "WARPS"]
args   = ["x", "w", "y", "C", "H", "W", "P", "Q", "U", "max(LEAST, cdiv(P, CHUNKS))"]
dynamic_shared = "4 * C * (WARPS * DEPTH * (128 * U + 8) + 12)"

[defines]
WARPS  = 4
DEPTH  = 4
CHUNKS = 64
LEAST  = 4

[tune]
WARPS  = [1, 2, 4, 8]
DEPTH  = [2, 3, 4, 6, 8]
CHUNKS = [16, 32, 64, 128]
requires = "4 * C * (WARPS * DEPTH * (128 * U + 8) + 12) <= 96 * 1024"

[[expect]]
counter = "l2_read_sectors"
change  = "< 0.9x"
why     = "66 rows for 64 rows of outputs, where v5 asked for six for four and found some of the two in the L1; v5 kept the L2 at 91% of what it can do"

[[expect]]
counter = "registers"
change  = "down"
why     = "what is on its way waits in shared memory, and three rows of sums are enough"

[[expect]]
counter = "shared_bank_conflicts"
change  = "up"
why     = "edge columns are read four floats apart, four lanes to a bank; memory leaves the time for it"

[[expect]]
counter = "dram_throughput"
change  = ">= 0.8 of peak"
why     = "16 warps with nine row segments of 512 bytes on their way each, three times what bandwidth times latency needs, without a pause between tiles"
learned = "76%. The L2 is relieved, 1.61 bytes a byte as in scale_add's v2, but 512 blocks are three or four to an SM: SMs are busy for 98 k to 136 k of 140 k cycles (v5: 122 k to 128 k of 134 k), and those that are done ask for nothing"

[[expect]]
counter = "duration"
change  = "down"
why     = "the L2 has less to do for the same traffic to memory; little is left to gain"
learned = "4% slower, 70.3 → 73.4 µs, and the 95% intervals lie 2.5 µs apart. What the L2 gains is lost at the end, where SMs run out of blocks"
--- */

// Copy BYTES from global to shared memory on the side; zeros instead where nothing is there.
template <int BYTES>
__device__ __forceinline__ void copy(float* to, const float* from, bool there) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from),
                 "n"(BYTES), "r"(there ? BYTES : 0));
}

// One row of one plane for a warp: columns first − 1 to first + 128·U at slot[3] and after it.
template <int U, bool WIDE>
__device__ __forceinline__ void fetch(float* slot, const float* row, int first, int W,
                                      bool inside) {
    constexpr int FLOATS = WIDE ? 4 : 1;
#pragma unroll
    for (int i = 0; i < 128 * U; i += 32 * FLOATS) {
        const int at = i + threadIdx.x * FLOATS;
        const bool there = inside && first + at < W;
        copy<4 * FLOATS>(&slot[4 + at], there ? &row[first + at] : row, there);
    }
    if (threadIdx.x < 2) {
        const int at = threadIdx.x == 0 ? -1 : 128 * U;
        const bool there = inside && first + at >= 0 && first + at < W;
        copy<4>(&slot[4 + at], there ? &row[first + at] : row, there);
    }
}

template <int U, bool WIDE>
__device__ __forceinline__ void convolve(const float* __restrict__ x, const float* taps,
                                         float* ring, float* __restrict__ y, int C, int H,
                                         int W, int P, int Q, int rows) {
    constexpr int PITCH = 128 * U + 8, SPAN = 2 / U;  // a row adds to SPAN + 1 rows of outputs
    const int strip = blockIdx.x * WARPS + threadIdx.y;
    const int first = strip * 128 * U, q = strip * 128 + threadIdx.x * 4;
    const int p = blockIdx.y * rows;
    const int steps = min(rows, P - p) + SPAN;
    const int top = p * U - 1;

    // The row'th row of this strip, all its planes: one group of copies, even if there is none.
    const auto fetch_row = [&](int row, int c) {
        const bool inside = row < steps * U && top + row >= 0 && top + row < H;
        const float* from = &x[inside ? (c * H + top + row) * W : 0];
        fetch<U, WIDE>(&ring[(row % DEPTH * C + c) * PITCH], from, first, W, inside);
    };
    for (int row = 0; row < DEPTH - 1; ++row) {
        for (int c = 0; c < C; ++c) fetch_row(row, c);
        asm volatile("cp.async.commit_group;");
    }

    float sum[SPAN + 1][4] = {};  // the youngest row of outputs first
#pragma unroll 1
    for (int j = 0; j < steps; ++j) {
#pragma unroll
        for (int u = 0; u < U; ++u) {
            const int row = j * U + u;
            asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 2));
            __syncwarp();  // the row is here for all lanes, and none still reads the one before
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                fetch_row(row + DEPTH - 1, c);
                const float* slot = &ring[(row % DEPTH * C + c) * PITCH + threadIdx.x * 4 * U];
                float v[4 * U + 2];
                v[0] = slot[3];
#pragma unroll
                for (int i = 0; i < U; ++i) {
                    const float4 piece = reinterpret_cast<const float4*>(slot)[i + 1];
                    v[4 * i + 1] = piece.x;
                    v[4 * i + 2] = piece.y;
                    v[4 * i + 3] = piece.z;
                    v[4 * i + 4] = piece.w;
                }
                if (U == 1) v[4 * U + 1] = slot[4 + 4 * U];
#pragma unroll
                for (int r = u; r < 3; r += U)
#pragma unroll
                    for (int o = 0; o < 4; ++o)
#pragma unroll
                        for (int s = 0; s < 3; ++s)
                            sum[r / U][o] += v[o * U + s] * taps[c * 12 + r * 4 + s];
            }
            asm volatile("cp.async.commit_group;");
        }
        if (j >= SPAN) {
            float* to = &y[(p + j - SPAN) * Q + q];
            const float(&out)[4] = sum[SPAN];
            if (Q % 4 == 0 && q + 4 <= Q) {
                *reinterpret_cast<float4*>(to) = make_float4(out[0], out[1], out[2], out[3]);
            } else {
#pragma unroll
                for (int o = 0; o < 4; ++o)
                    if (q + o < Q) to[o] = out[o];
            }
        }
#pragma unroll
        for (int o = 0; o < 4; ++o) {
#pragma unroll
            for (int i = SPAN; i > 0; --i) sum[i][o] = sum[i - 1][o];
            sum[0][o] = 0.0f;
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C,
       int H, int W, int P, int Q, int U, int rows) {
    extern __shared__ __align__(16) float shared[];
    // A plane's filter as three rows of four, so that a row of it is one load.
    float* taps = shared;
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 12 * C; i += 32 * WARPS)
        taps[i] = i % 4 < 3 ? w[i / 4 * 3 + i % 4] : 0.0f;
    __syncthreads();
    float* ring = &shared[12 * C + threadIdx.y * DEPTH * C * (128 * U + 8)];
    const bool wide = W % 4 == 0;
    if (U == 1 && wide) convolve<1, true>(x, taps, ring, y, C, H, W, P, Q, rows);
    else if (U == 1) convolve<1, false>(x, taps, ring, y, C, H, W, P, Q, rows);
    else if (U == 2 && wide) convolve<2, true>(x, taps, ring, y, C, H, W, P, Q, rows);
    else if (U == 2) convolve<2, false>(x, taps, ring, y, C, H, W, P, Q, rows);
    else if (wide) convolve<3, true>(x, taps, ring, y, C, H, W, P, Q, rows);
    else convolve<3, false>(x, taps, ring, y, C, H, W, P, Q, rows);
}
