/* ---
title  = "One thread per output, from global memory"
change = "Each thread walks its window: three nested loops over channels, rows and columns, two loads for every multiply-add."
requires     = "max(N*C*H*W, K*D, N*K*OH*OW) < 2**31"
requires_why = "its indices are 32-bit integers"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(OH * OW, 256)", "K", "N"]
block  = [256]
args   = ["x", "w", "y", ["N", "C", "H", "W", "K", "R", "S", "U", "V", "P", "Q", "OH", "OW"]]
--- */
#include "layer.cuh"

extern "C" __global__ void conv2d(const float* __restrict__ x, const float* __restrict__ w,
                                  float* __restrict__ y, Layer layer) {
    const int C = layer.C, H = layer.H, W = layer.W, K = layer.K, R = layer.R, S = layer.S,
              U = layer.U, V = layer.V, P = layer.P, Q = layer.Q, OH = layer.OH, OW = layer.OW;
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    const int k = blockIdx.y, n = blockIdx.z;
    if (at >= OH * OW) return;
    const int top = at / OW * U - P, left = at % OW * V - Q;  // of the window, maybe outside of x

    float sum = 0.0f;
    for (int c = 0; c < C; ++c)
        for (int r = 0; r < R; ++r)
            for (int s = 0; s < S; ++s) {
                const int i = top + r, j = left + s;
                if (i >= 0 && i < H && j >= 0 && j < W)
                    sum += x[((n * C + c) * H + i) * W + j] * w[((k * C + c) * R + r) * S + s];
            }
    y[(n * K + k) * OH * OW + at] = sum;
}
