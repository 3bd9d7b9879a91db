/* ---
title  = "64×64 block, 4×4 outputs per thread"
parent = "v2"
change = "Each thread keeps 4×4 sums in registers: eight floats of shared memory feed 16 multiply-adds instead of two feeding one."
requires     = "max(N*C*H*W, (K + 63)*(D + 15), N*K*OH*OW) < 2**31 and N*OH*OW < 2**31 - 64"
requires_why = "its indices are 32-bit integers, up to the end of the last tile"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N * OH * OW, 64)", "cdiv(K, 64)"]
block  = [256]
args   = ["x", "w", "y", ["N", "C", "H", "W", "K", "R", "S", "U", "V", "P", "Q", "OH", "OW"]]

[[expect]]
counter = "shared_wavefronts"
change  = "< 0.4x"
why     = "a quarter of the floats for each product; but four lanes in a column are four filters apart, 64 floats, and meet in a bank"

[[expect]]
counter = "shared_wavefronts_excess"
change  = "up"
why     = "those conflicts: v2 had none"
learned = "they are there, 0.7 M → 73.6 M of shared loads by the hardware's count, one for each of the 73.2 M loads, but not in this counter. The compiler joined the loads into ones of 16 bytes per lane, four wavefronts each: the ideal for 512 bytes, although lanes share most of them and a warp wants 64 or 128 different ones. No excess is counted where lanes share what they read"

[[expect]]
counter = "global_load_requests"
change  = "< 0.3x"
why     = "a float that is loaded serves 64 products instead of 16"

[[expect]]
counter = "global_store_bytes_per_sector"
change  = "< 0.5x"
why     = "a lane's neighbour is four outputs away: every store takes a quarter of the sectors it touches"

[[expect]]
counter = "registers"
change  = "up"
why     = "16 sums and eight operands"

[[expect]]
counter = "duration"
change  = "< 0.5x"
why     = "the shared loads bound v2, and two thirds of them are gone"
--- */
#include "layer.cuh"

constexpr int BM = 64;  // filters a block
constexpr int BN = 64;  // outputs a block
constexpr int BK = 16;  // depth of a tile
constexpr int TM = 4;   // filters a thread
constexpr int TN = 4;   // outputs a thread

extern "C" __global__ void conv2d(const float* __restrict__ x, const float* __restrict__ w,
                                  float* __restrict__ y, Layer layer) {
    const int N = layer.N, C = layer.C, H = layer.H, W = layer.W, K = layer.K, R = layer.R,
              S = layer.S, U = layer.U, V = layer.V, P = layer.P, Q = layer.Q, OH = layer.OH,
              OW = layer.OW;
    __shared__ float ws[BM][BK];  // ws[filter][tap]
    __shared__ float xs[BK][BN];  // xs[tap][output]
    const int depth = C * R * S, outputs = N * OH * OW;
    const int first_row = blockIdx.y * BM, first_col = blockIdx.x * BN;
    const int tid = threadIdx.x;

    // Loading: four weights of one tap, and four pixels of the window of one output.
    const int w_row = tid / BK, w_tap = tid % BK;
    const int x_tap = tid / BN, x_col = tid % BN;
    const int n = (first_col + x_col) / (OH * OW), at = (first_col + x_col) % (OH * OW);
    const int top = at / OW * U - P, left = at % OW * V - Q;  // of the window, maybe outside of x

    // Computing: eight warps of 16×32 outputs lie two abreast, the lanes of each 4×8.
    const int warp = tid / 32, lane = tid % 32;
    const int row = warp / 2 * 16 + lane / 8 * TM, col = warp % 2 * 32 + lane % 8 * TN;
    float sum[TM][TN] = {};

    for (int t = 0; t < depth; t += BK) {
#pragma unroll
        for (int e = 0; e < BM; e += 256 / BK)
            ws[w_row + e][w_tap] = first_row + w_row + e < K && t + w_tap < depth
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
        for (int k = 0; k < BK; ++k)
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += ws[row + i][k] * xs[k][col + j];
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
