/* ---
title  = "One loop over C·R·S, 16×16 tiles in shared memory"
parent = "v0"
change = "The three loops become one, whose counter is taken apart into channel, row and column: a matrix product of filters and windows. A block stages 16×16 tiles of both, so that each element is loaded once per block instead of once per thread."
requires     = "max(N*C*H*W, (K + 15)*(D + 15), N*K*OH*OW) < 2**31 and N*OH*OW < 2**31 - 16"
requires_why = "its indices are 32-bit integers, up to the end of the last tile"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N * OH * OW, 16)", "cdiv(K, 16)"]
block  = [256]
args   = ["x", "w", "y", ["N", "C", "H", "W", "K", "R", "S", "U", "V", "P", "Q", "OH", "OW"]]

[[expect]]
counter = "global_load_requests"
change  = "< 0.1x"
why     = "two loads a thread for 16 products instead of two for each product"

[[expect]]
counter = "l1_tag_requests"
change  = "< 0.1x"
why     = "a sixteenth of the loads, and each of a half of a warp's width"

[[expect]]
counter = "shared_wavefronts"
change  = "up"
why     = "v0 used no shared memory; now a product costs one load of it, and a quarter of another, as four weights come at a time"

[[expect]]
counter = "duration"
change  = "down"
why     = "a load from shared memory for each product, instead of two from global memory"
--- */
#include "layer.cuh"

constexpr int T = 16;  // filters and outputs a block, and depth of a tile

extern "C" __global__ void conv2d(const float* __restrict__ x, const float* __restrict__ w,
                                  float* __restrict__ y, Layer layer) {
    const int N = layer.N, C = layer.C, H = layer.H, W = layer.W, K = layer.K, R = layer.R,
              S = layer.S, U = layer.U, V = layer.V, P = layer.P, Q = layer.Q, OH = layer.OH,
              OW = layer.OW;
    __shared__ float ws[T][T];  // ws[filter][tap]
    __shared__ float xs[T][T];  // xs[tap][output]
    const int depth = C * R * S, outputs = N * OH * OW;
    const int first_row = blockIdx.y * T, first_col = blockIdx.x * T;
    const int tid = threadIdx.x;

    // Loading: one weight, and one pixel of the window of one output.
    const int w_row = tid / T, w_tap = tid % T;
    const int x_tap = tid / T, x_col = tid % T;
    const int n = (first_col + x_col) / (OH * OW), at = (first_col + x_col) % (OH * OW);
    const int top = at / OW * U - P, left = at % OW * V - Q;  // of the window, maybe outside of x

    // Computing: consecutive threads take consecutive outputs.
    const int row = tid / T, col = tid % T;
    float sum = 0.0f;

    for (int t = 0; t < depth; t += T) {
        ws[w_row][w_tap] = first_row + w_row < K && t + w_tap < depth
                               ? w[(first_row + w_row) * depth + t + w_tap]
                               : 0.0f;
        const int d = t + x_tap;
        const int c = d / (R * S), r = d % (R * S) / S, s = d % S;
        const int i = top + r, j = left + s;
        xs[x_tap][x_col] = d < depth && n < N && i >= 0 && i < H && j >= 0 && j < W
                               ? x[((n * C + c) * H + i) * W + j]
                               : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < T; ++k) sum += ws[row][k] * xs[k][col];
        __syncthreads();  // nobody may overwrite a tile that another still reads
    }

    const int k = first_row + row, o = first_col + col;
    if (k < K && o < outputs) y[(o / (OH * OW) * K + k) * (OH * OW) + o % (OH * OW)] = sum;
}
