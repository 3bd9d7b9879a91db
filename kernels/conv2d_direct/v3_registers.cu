/* ---
title  = "Window in registers, 16-byte loads"
parent = "v2"
change = "No shared memory: a thread keeps 4×4 outputs in registers, reads each input row under them once in vectors of 16 bytes, and adds it to the up to three output rows that want it. Its neighbours' edge columns come by shuffle."
requires     = "C * H * W < 2**31 and U <= 3"
requires_why = "its indices are 32-bit integers, and its loops over a row are written for strides of 1 to 3"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 128)", "cdiv(P, WARPS * ROWS)"]
block  = [32, "WARPS"]
args   = ["x", "w", "y", "C", "H", "W", "P", "Q", "U"]

[defines]
ROWS  = 4
WARPS = 4

[[expect]]
counter = "instructions"
change  = "< 0.3x"
why     = "addresses, borders and taps are paid for once for 16 outputs"

[[expect]]
counter = "shared_wavefronts"
change  = "< 0.3x"
why     = "no tile; but a shuffle is a wavefront of the same unit: two for each row of 128 inputs"
learned = "shuffles are not counted here, it is 0"

[[expect]]
counter = "barrier_stall"
change  = "to 0"
why     = "warps do not wait for each other"

[[expect]]
counter = "dram_throughput"
change  = ">= 0.75 of peak"
why     = "six vectors of a plane per thread, independent of each other; enough if the compiler asks for them early and registers leave warps enough"
learned = "67%. They are not asked for early, a row's shuffles stand before the next row's loads: 18 warps per SM, which is what 95 registers leave, wait for memory in 7.7 of 11.8 cycles"

[[expect]]
counter = "duration"
change  = "< 0.5x"
why     = "v2 was kept busy by instructions and barriers, not by memory"
--- */

// Four neighbouring floats of which `left` are in the row, zeros for the rest. If 16 bytes divide
// a row (WIDE), they divide what is left of it, so a vector lies inside or outside.
template <bool WIDE>
__device__ __forceinline__ float4 load_piece(const float* from, int left) {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (WIDE) {
        if (left > 0) v = *reinterpret_cast<const float4*>(from);
    } else {
        if (left > 0) v.x = from[0];
        if (left > 1) v.y = from[1];
        if (left > 2) v.z = from[2];
        if (left > 3) v.w = from[3];
    }
    return v;
}

// Columns 4·U·i − 1 to 4·U·i + 4·U of one row for lane i of a warp, zeros outside of the plane:
// v[0] is the column left of its vectors, v[4 * U + 1] the one right of them.
template <int U, bool WIDE>
__device__ __forceinline__ void load_row(float (&v)[4 * U + 2], const float* row, int first,
                                         int left) {
#pragma unroll
    for (int i = 0; i < U; ++i) {
        const float4 piece = load_piece<WIDE>(row + first + 4 * i, left - 4 * i);
        v[4 * i + 1] = piece.x;
        v[4 * i + 2] = piece.y;
        v[4 * i + 3] = piece.z;
        v[4 * i + 4] = piece.w;
    }
    v[0] = __shfl_up_sync(0xffffffff, v[4 * U], 1);
    if (threadIdx.x == 0) v[0] = first > 0 && left > -1 ? row[first - 1] : 0.0f;
    // Only at stride 1 does the last output's window reach beyond the vectors.
    if (U == 1) {
        v[4 * U + 1] = __shfl_down_sync(0xffffffff, v[1], 1);
        if (threadIdx.x == 31) v[4 * U + 1] = left > 4 ? row[first + 4] : 0.0f;
    }
}

template <int U, bool WIDE>
__device__ __forceinline__ void convolve(const float* __restrict__ x,
                                         const float* __restrict__ w, float* __restrict__ y,
                                         int C, int H, int W, int P, int Q) {
    const int q = (blockIdx.x * 32 + threadIdx.x) * 4;        // the first of four columns
    const int p = (blockIdx.y * WARPS + threadIdx.y) * ROWS;  // the first of ROWS rows

    float sum[ROWS][4] = {};
#pragma unroll 1
    for (int c = 0; c < C; ++c) {
        float taps[9];
#pragma unroll
        for (int i = 0; i < 9; ++i) taps[i] = w[c * 9 + i];
#pragma unroll
        for (int i = 0; i < (ROWS - 1) * U + 3; ++i) {
            const int row = p * U - 1 + i;
            // The whole warp has the same row, so nobody misses the shuffles.
            const int left = row >= 0 && row < H ? W - q * U : -1;
            float v[4 * U + 2];
            load_row<U, WIDE>(v, &x[(c * H + row) * W], q * U, left);
#pragma unroll
            for (int j = 0; j < ROWS; ++j) {
                const int r = i - j * U;  // the row of the window in which output row j sees it
                if (r < 0 || r > 2) continue;
#pragma unroll
                for (int o = 0; o < 4; ++o)
#pragma unroll
                    for (int s = 0; s < 3; ++s) sum[j][o] += v[o * U + s] * taps[r * 3 + s];
            }
        }
    }

#pragma unroll
    for (int j = 0; j < ROWS; ++j) {
        if (p + j >= P) break;
        float* to = &y[(p + j) * Q + q];
        if (Q % 4 == 0 && q + 4 <= Q) {
            *reinterpret_cast<float4*>(to) =
                make_float4(sum[j][0], sum[j][1], sum[j][2], sum[j][3]);
        } else {
#pragma unroll
            for (int o = 0; o < 4; ++o)
                if (q + o < Q) to[o] = sum[j][o];
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C,
       int H, int W, int P, int Q, int U) {
    const bool wide = W % 4 == 0;
    if (U == 1 && wide) convolve<1, true>(x, w, y, C, H, W, P, Q);
    else if (U == 1) convolve<1, false>(x, w, y, C, H, W, P, Q);
    else if (U == 2 && wide) convolve<2, true>(x, w, y, C, H, W, P, Q);
    else if (U == 2) convolve<2, false>(x, w, y, C, H, W, P, Q);
    else if (wide) convolve<3, true>(x, w, y, C, H, W, P, Q);
    else convolve<3, false>(x, w, y, C, H, W, P, Q);
}
