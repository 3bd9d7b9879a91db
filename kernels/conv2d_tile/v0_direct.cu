/* ---
title  = "Direct, a thread per output"
change = "Each thread walks its 6×6 window through all channels, straight from global memory."
requires     = "max(C * H * W, K * P * Q, 36 * K * C) < 2**31 and K < 2**16"
requires_why = "its indices are 32-bit integers, and a grid has less than 65,536 planes"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 32)", "cdiv(P, 8)", "K"]
block  = [32, 8]
args   = ["x", "w", "y", "C", "H", "W", "P", "Q"]

[[expect]]
counter = "l1_hit_rate"
change  = ">= 85%"
why     = "36 outputs read each element, most of them in the same block"
--- */

extern "C" __global__ void conv2d(const float* __restrict__ x, const float* __restrict__ w,
                                  float* __restrict__ y, int C, int H, int W, int P, int Q) {
    const int q = blockIdx.x * 32 + threadIdx.x;
    const int p = blockIdx.y * 8 + threadIdx.y;
    const int k = blockIdx.z;
    if (p >= P || q >= Q) return;

    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        const float* taps = &w[(k * C + c) * 36];
        for (int r = 0; r < 6; ++r)
            for (int s = 0; s < 6; ++s)
                sum += x[(c * H + p + r) * W + q + s] * taps[r * 6 + s];
    }
    y[(k * P + p) * Q + q] = sum;
}
