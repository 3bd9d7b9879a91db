/* ---
title  = "128×128×8 block, 8×8 outputs per thread by outer products"
parent = "v3"
change = "A thread takes a column of eight weights and a row of eight pixels into registers and adds their outer product to its sums. The tile of weights is turned to have filters side by side, so that the eight are neighbours."
requires     = "max(N*C*H*W, (K + 127)*(D + 7), N*K*OH*OW) < 2**31 and N*OH*OW < 2**31 - 128"
requires_why = "its indices are 32-bit integers, up to the end of the last tile"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N * OH * OW, 128)", "cdiv(K, 128)"]
block  = [256]
args   = ["x", "w", "y", ["N", "C", "H", "W", "K", "R", "S", "U", "V", "P", "Q", "OH", "OW"]]

[[expect]]
counter = "shared_loads"
change  = "< 0.6x"
why     = "16 floats for 64 products instead of eight for 16, and four to a load"

[[expect]]
counter = "shared_wavefronts"
change  = "> 0.6x"
why     = "less gain than that: lanes are eight floats apart, so pixels conflict two ways, and turned weights are stored eight ways into a bank"

[[expect]]
counter = "global_load_requests"
change  = "< 0.6x"
why     = "a float that is loaded serves 128 products instead of 64"

[[expect]]
counter = "achieved_occupancy"
change  = "down"
why     = "64 sums and 16 operands leave registers for two blocks per SM"

[[expect]]
counter = "fma_utilization"
change  = "up"
why     = "64 independent sums per thread, and fewer instructions around them"

[[expect]]
counter = "duration"
change  = "down"
why     = "fewer loads of either kind for each product"
--- */
#include "layer.cuh"

constexpr int BM = 128;  // filters a block
constexpr int BN = 128;  // outputs a block
constexpr int BK = 8;    // depth of a tile
constexpr int TM = 8;    // filters a thread
constexpr int TN = 8;    // outputs a thread

// Two blocks of 256 threads on an SM leave 128 registers a thread: enough for 64 sums.
extern "C" __global__ void __launch_bounds__(256, 2)
conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
       Layer layer) {
    const int N = layer.N, C = layer.C, H = layer.H, W = layer.W, K = layer.K, R = layer.R,
              S = layer.S, U = layer.U, V = layer.V, P = layer.P, Q = layer.Q, OH = layer.OH,
              OW = layer.OW;
    __shared__ float ws[BK][BM];  // ws[tap][filter]
    __shared__ float xs[BK][BN];  // xs[tap][output]
    const int depth = C * R * S, outputs = N * OH * OW;
    const int first_row = blockIdx.y * BM, first_col = blockIdx.x * BN;
    const int tid = threadIdx.x;

    // Loading: four weights of one tap, and four pixels of the window of one output.
    const int w_row = tid / BK, w_tap = tid % BK;
    const int x_tap = tid / BN, x_col = tid % BN;
    const int n = (first_col + x_col) / (OH * OW), at = (first_col + x_col) % (OH * OW);
    const int top = at / OW * U - P, left = at % OW * V - Q;  // of the window, maybe outside of x

    // Computing: eight warps of 32×64 outputs lie two abreast, the lanes of each 4×8.
    const int warp = tid / 32, lane = tid % 32;
    const int row = warp / 2 * 32 + lane / 8 * TM, col = warp % 2 * 64 + lane % 8 * TN;
    float sum[TM][TN] = {};

    for (int t = 0; t < depth; t += BK) {
#pragma unroll
        for (int e = 0; e < BM; e += 256 / BK)
            ws[w_tap][w_row + e] = first_row + w_row + e < K && t + w_tap < depth
                                       ? w[(first_row + w_row + e) * depth + t + w_tap]
                                       : 0.0f;
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
            for (int i = 0; i < TM; ++i) a[i] = ws[k][row + i];
#pragma unroll
            for (int j = 0; j < TN; ++j) b[j] = xs[k][col + j];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];
        }
        __syncthreads();  // nobody may overwrite a tile that another still reads
    }

#pragma unroll
    for (int j = 0; j < TN; ++j) {
        const int o = first_col + col + j;
        if (o >= outputs) break;
        float* to = &y[o / (OH * OW) * K * (OH * OW) + o % (OH * OW)];
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int k = first_row + row + i;
            if (k < K) to[k * (OH * OW)] = sum[i][j];
        }
    }
}
