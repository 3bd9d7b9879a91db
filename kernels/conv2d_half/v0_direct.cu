/* ---
title  = "A thread per output, straight from global memory"
requires     = "max(N*H*W*max(C, K), 9*K*C) < 2**31"
requires_why = "its indices are 32-bit integers"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W*K, 256)"]
block  = [256]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]

[[expect]]
counter = "global_load_sectors_per_request"
change  = ">= 14"
why     = "half of the loads fetch a filter element: 32 lanes, 32 filters, 18·C bytes apart, a sector each. The other half is one input element for all lanes"
learned = "16.5, with 2 of 32 bytes used; the queue of loads is full, and a warp spends 212 cycles per instruction in LG throttle"

[[expect]]
counter = "tensor_utilization"
change  = "<= 0"
why     = "multiply-adds of single floats"
--- */
#include <cuda_fp16.h>

extern "C" __global__ void conv2d(const __half* __restrict__ input,
                                  const __half* __restrict__ weight, __half* __restrict__ output,
                                  int N, int H, int W, int C, int K) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const int k = i % K, pixel = i / K;  // the output's order: neighbours write neighbours
    if (pixel >= N * H * W) return;
    const int w = pixel % W, h = pixel / W % H;

    float sum = 0.0f;
    for (int r = 0; r < 3; ++r)
        for (int s = 0; s < 3; ++s) {
            if (h + r < 1 || h + r > H || w + s < 1 || w + s > W) continue;  // in the padding
            const __half* x = &input[(pixel + (r - 1) * W + s - 1) * C];
            const __half* y = &weight[((k * 3 + r) * 3 + s) * C];
            for (int c = 0; c < C; ++c) sum += __half2float(x[c]) * __half2float(y[c]);
        }
    output[i] = __float2half(sum);
}
