/* ---
title  = "Naive: a thread per output, lanes walk along the pixels"
change = "Consecutive lanes take consecutive pixels of one filter: the natural choice for images stored channel by channel, and the wrong one for channels last."
requires     = "max(N*H*W*max(C, K), 9*K*C) < 2**31 and 9*C < 2**17"
requires_why = "its indices and its sums are 32-bit integers"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 32)", "cdiv(K, 8)"]
block  = [32, 8]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]

[[expect]]
counter = "global_load_bytes_per_sector"
change  = "< 2"
why     = "a load of the input takes one byte from each of 32 pixels, C bytes apart; a load of a filter takes one byte for the whole warp. The author saw 1.1 of 32"

[[expect]]
counter = "global_load_sectors_per_request"
change  = ">= 14"
why     = "32 sectors for the input, one for the filter: 16.5 on average, a little less at the borders"

[[expect]]
counter = "l1_hit_rate"
change  = ">= 90"
why     = "the next 31 channels lie in the sectors that the first one fetched, and eight warps share their pixels"
--- */

extern "C" __global__ void conv2d(const signed char* __restrict__ input,
                                  const signed char* __restrict__ weight,
                                  int* __restrict__ output, int N, int H, int W, int C, int K) {
    const int pixel = blockIdx.x * 32 + threadIdx.x;
    const int k = blockIdx.y * 8 + threadIdx.y;
    if (pixel >= N * H * W || k >= K) return;
    const int w = pixel % W, h = pixel / W % H;

    int sum = 0;
    for (int tap = 0; tap < 9; ++tap) {
        const int dh = tap / 3 - 1, dw = tap % 3 - 1;
        if (h + dh < 0 || h + dh >= H || w + dw < 0 || w + dw >= W) continue;  // in the padding
        const signed char* x = &input[(pixel + dh * W + dw) * C];
        const signed char* y = &weight[(k * 9 + tap) * C];
        for (int c = 0; c < C; ++c) sum += x[c] * y[c];
    }
    output[pixel * K + k] = sum;
}
