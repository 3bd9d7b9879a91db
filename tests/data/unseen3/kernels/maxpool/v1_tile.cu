/* ---
title = "A tile of 32×8 outputs from shared memory, even and odd columns apart"
change = "Stages a 17×65 input tile in shared memory, split by column parity so that stride 2 meets no conflicts."
[[launch]]
kernel = "maxpool"
grid = ["cdiv(OW, 32)", "cdiv(OH, 8)", "P"]
block = [32, 8]
args = ["x", "y", "index", "H", "W", "OH", "OW"]
--- */
#include <cfloat>
constexpr int TW = 32, TH = 8, IH = 2 * TH + 1, IW = 2 * TW + 1;

extern "C" __global__ void __launch_bounds__(256) maxpool(const float* __restrict__ x, float* __restrict__ y,
                                                          int* __restrict__ index, int h, int w, int oh, int ow) {
    __shared__ float tile[IH][2][TW + 1];
    const float* src = x + blockIdx.z * h * w;
    const int row0 = blockIdx.y * TH * 2 - 1, col0 = blockIdx.x * TW * 2 - 1;
    for (int r = threadIdx.y; r < IH; r += TH)
        for (int c = threadIdx.x; c < IW; c += TW) {
            int gr = row0 + r, gc = col0 + c;
            bool in = gr >= 0 && gr < h && gc >= 0 && gc < w;
            tile[r][c & 1][c >> 1] = in ? __ldg(src + gr * w + gc) : -FLT_MAX;
        }
    __syncthreads();
    const int ow_i = blockIdx.x * TW + threadIdx.x, oh_i = blockIdx.y * TH + threadIdx.y;
    if (ow_i >= ow || oh_i >= oh) return;
    float best = -FLT_MAX;
    int at = 0;
#pragma unroll
    for (int r = 0; r < 3; ++r)
#pragma unroll
        for (int c = 0; c < 3; ++c) {
            float v = tile[2 * threadIdx.y + r][c & 1][threadIdx.x + (c >> 1)];
            if (v > best) {
                best = v;
                at = r * 4 + c;
            }
        }
    const int o = (blockIdx.z * oh + oh_i) * ow + ow_i;
    y[o] = best;
    index[o] = (oh_i * 2 - 1 + at / 4) * w + ow_i * 2 - 1 + at % 4;
}
