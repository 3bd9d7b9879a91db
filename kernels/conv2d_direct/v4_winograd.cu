/* ---
title  = "Winograd, F(2×2, 3×3)"
parent = "v3"
change = "A thread's 4×4 outputs are four tiles of 2×2. Each takes 16 products per plane instead of 36, in a transformed space where the planes are summed; inputs are transformed on the way in, sums on the way out, the filter once per block."
requires     = "C * H * W < 2**31 and U == 1 and C <= 768"
requires_why = "its indices are 32-bit integers, F(2×2, 3×3) is made for a stride of 1, and the transformed filter must fit into 48 KiB of shared memory"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 128)", "cdiv(P, WARPS * ROWS)"]
block  = [32, "WARPS"]
args   = ["x", "w", "y", "C", "H", "W", "P", "Q"]
dynamic_shared = "64 * C"

[defines]
ROWS  = 4
WARPS = 4

[[expect]]
counter = "ffma_threads"
change  = "< 0.6x"
why     = "16 products for four outputs and a plane instead of 36"

[[expect]]
counter = "fadd_threads"
change  = "up"
why     = "the transforms: 24 to 32 additions for the input of a tile and plane, which only one output plane shares"

[[expect]]
counter = "instructions"
change  = "up"
why     = "with one output plane the input's transform costs more than the products that it saves; with hundreds it would be shared"

[[expect]]
counter = "registers"
change  = "up"
why     = "16 sums for four outputs instead of four"

[[expect]]
counter = "duration"
change  = "up"
why     = "memory is what v3 waits for: fewer products help nothing, fewer warps hurt"
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

// The filter's transform G·g·Gᵀ with G = [1 0 0; ½ ½ ½; ½ −½ ½; 0 0 1]: one of its 16 elements.
__device__ __forceinline__ float transformed_tap(const float* g, int i, int j) {
    float column[3];
#pragma unroll
    for (int s = 0; s < 3; ++s) {
        const float outer = g[s] + g[6 + s], middle = g[3 + s];
        column[s] = i == 0   ? g[s]
                    : i == 3 ? g[6 + s]
                             : 0.5f * (i == 1 ? outer + middle : outer - middle);
    }
    const float outer = column[0] + column[2];
    return j == 0   ? column[0]
           : j == 3 ? column[2]
                    : 0.5f * (j == 1 ? outer + column[1] : outer - column[1]);
}

// The input's transform Bᵀd along one direction: four neighbours to four.
__device__ __forceinline__ void transform(float (&t)[4], float a, float b, float c, float d) {
    t[0] = a - c;
    t[1] = b + c;
    t[2] = c - b;
    t[3] = b - d;
}

template <int U, bool WIDE>
__device__ __forceinline__ void convolve(const float* __restrict__ x, const float4* filter,
                                         float* __restrict__ y, int C, int H, int W, int P,
                                         int Q) {
    const int q = (blockIdx.x * 32 + threadIdx.x) * 4;        // the first of four columns
    const int p = (blockIdx.y * WARPS + threadIdx.y) * ROWS;  // the first of ROWS rows

    float sum[ROWS / 2][2][4][4] = {};  // for each tile of 2×2 outputs
#pragma unroll 1
    for (int c = 0; c < C; ++c) {
        float rows[ROWS + 2][2][4];  // transformed along the row, for both tiles in it
#pragma unroll
        for (int i = 0; i < ROWS + 2; ++i) {
            const int row = p * U - 1 + i;
            // The whole warp has the same row, so nobody misses the shuffles.
            const int left = row >= 0 && row < H ? W - q * U : -1;
            float v[4 * U + 2];
            load_row<U, WIDE>(v, &x[(c * H + row) * W], q * U, left);
            transform(rows[i][0], v[0], v[1], v[2], v[3]);
            transform(rows[i][1], v[2], v[3], v[4], v[5]);
            if (i % 2 == 0 || i < 3) continue;
            // The fourth row of two tiles is in: transform down the columns, multiply, add.
            const int first = i - 3;
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const float4 taps = filter[c * 4 + n];  // column n of the transformed filter
#pragma unroll
                for (int o = 0; o < 2; ++o) {
                    float d[4];
                    transform(d, rows[first][o][n], rows[first + 1][o][n],
                              rows[first + 2][o][n], rows[first + 3][o][n]);
                    sum[first / 2][o][0][n] += d[0] * taps.x;
                    sum[first / 2][o][1][n] += d[1] * taps.y;
                    sum[first / 2][o][2][n] += d[2] * taps.z;
                    sum[first / 2][o][3][n] += d[3] * taps.w;
                }
            }
        }
    }

#pragma unroll
    for (int j = 0; j < ROWS; ++j) {
        if (p + j >= P) break;
        float out[4];
#pragma unroll
        for (int o = 0; o < 2; ++o) {
            // The output's transform AᵀmA with Aᵀ = [1 1 1 0; 0 1 −1 −1]: row j of the tile.
            float m[4];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const float(&t)[4][4] = sum[j / 2][o];
                m[n] = j % 2 == 0 ? t[0][n] + t[1][n] + t[2][n] : t[1][n] - t[2][n] - t[3][n];
            }
            out[2 * o] = m[0] + m[1] + m[2];
            out[2 * o + 1] = m[1] - m[2] - m[3];
        }
        float* to = &y[(p + j) * Q + q];
        if (Q % 4 == 0 && q + 4 <= Q) {
            *reinterpret_cast<float4*>(to) = make_float4(out[0], out[1], out[2], out[3]);
        } else {
#pragma unroll
            for (int o = 0; o < 4; ++o)
                if (q + o < Q) to[o] = out[o];
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C,
       int H, int W, int P, int Q) {
    extern __shared__ __align__(16) float transformed[];  // [c][column][row]
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 16 * C; i += 32 * WARPS)
        transformed[i] = transformed_tap(&w[i / 16 * 9], i % 4, i / 4 % 4);
    __syncthreads();
    const float4* filter = reinterpret_cast<const float4*>(transformed);
    if (W % 4 == 0) convolve<1, true>(x, filter, y, C, H, W, P, Q);
    else convolve<1, false>(x, filter, y, C, H, W, P, Q);
}
