/* ---
title = "A thread a column strip, a rolling window of rows in registers"
[[launch]]
kernel = "depthwise"
grid = ["cdiv(W, 32)", "cdiv(H, 8)", "C"]
block = [32]
args = ["x", "w", "b", "y", "H", "W"]
--- */
struct Row {
    float l, c, r;
};
__device__ __forceinline__ Row load(const float* x, int h, int w, int height, int width) {
    if (h < 0 || h >= height) return {0, 0, 0};
    const float* p = x + h * width + w;
    return {w > 0 ? p[-1] : 0.0f, p[0], w + 1 < width ? p[1] : 0.0f};
}
extern "C" __global__ void depthwise(const float* __restrict__ x, const float* __restrict__ k, const float* __restrict__ b, float* __restrict__ y, int height, int width) {
    const int w = blockIdx.x * 32 + threadIdx.x, h0 = blockIdx.y * 8, c = blockIdx.z;
    if (w >= width) return;
    x += c * height * width;
    y += c * height * width;
    float f[9];
    for (int i = 0; i < 9; ++i) f[i] = __ldg(k + c * 9 + i);
    const float bias = b[c];
    Row above = load(x, h0 - 1, w, height, width), here = load(x, h0, w, height, width);
    const int end = min(h0 + 8, height);
    for (int h = h0; h < end; ++h) {
        Row below = load(x, h + 1, w, height, width);
        float v = bias;
        v += f[0] * above.l + f[1] * above.c + f[2] * above.r;
        v += f[3] * here.l + f[4] * here.c + f[5] * here.r;
        v += f[6] * below.l + f[7] * below.c + f[8] * below.r;
        y[h * width + w] = v;
        above = here;
        here = below;
    }
}
