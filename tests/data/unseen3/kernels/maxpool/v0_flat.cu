/* ---
title = "A thread per output, flat index"
[[launch]]
kernel = "maxpool"
grid = ["cdiv(P * OH * OW, 256)"]
block = [256]
args = ["x", "y", "index", "P", "H", "W", "OH", "OW"]
--- */
#include <cfloat>
extern "C" __global__ void maxpool(const float* __restrict__ x, float* __restrict__ y, int* __restrict__ index,
                                   int planes, int h, int w, int oh, int ow) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= planes * oh * ow) return;
    int pw = i % ow;
    int ph = (i / ow) % oh;
    int plane = i / ow / oh;
    int h0 = ph * 2 - 1, w0 = pw * 2 - 1;
    int h1 = min(h0 + 3, h), w1 = min(w0 + 3, w);
    h0 = max(h0, 0);
    w0 = max(w0, 0);
    const float* src = x + plane * h * w;
    float best = -FLT_MAX;
    int arg = h0 * w + w0;
    for (int r = h0; r < h1; ++r)
        for (int c = w0; c < w1; ++c) {
            float v = src[r * w + c];
            if (v > best) {
                best = v;
                arg = r * w + c;
            }
        }
    y[i] = best;
    index[i] = arg;
}
