/* ---
title  = "Sliding window, a thread per output"
change = "Each thread walks its 3×3 window through all planes, straight from global memory."
requires     = "C * H * W < 2**31"
requires_why = "its indices are 32-bit integers"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 32)", "cdiv(P, 8)"]
block  = [32, 8]
args   = ["x", "w", "y", "C", "H", "W", "P", "Q", "U"]

[[expect]]
counter = "l1_hit_rate"
change  = ">= 75%"
why     = "nine outputs read each element, and neighbours are in the same block"
--- */

extern "C" __global__ void conv2d(const float* __restrict__ x, const float* __restrict__ w,
                                  float* __restrict__ y, int C, int H, int W, int P, int Q,
                                  int U) {
    const int q = blockIdx.x * 32 + threadIdx.x;
    const int p = blockIdx.y * 8 + threadIdx.y;
    if (p >= P || q >= Q) return;

    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        for (int r = 0; r < 3; ++r) {
            for (int s = 0; s < 3; ++s) {
                // The padding is not stored anywhere: every tap asks whether it is in the plane.
                const int row = p * U - 1 + r, col = q * U - 1 + s;
                if (row >= 0 && row < H && col >= 0 && col < W)
                    sum += x[(c * H + row) * W + col] * w[(c * 3 + r) * 3 + s];
            }
        }
    }
    y[p * Q + q] = sum;
}
