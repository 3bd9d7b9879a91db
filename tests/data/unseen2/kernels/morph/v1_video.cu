/* ---
title = "Four bytes a word, __vmaxu4, funnel shifts, rows by a warp"
requires = "W % 4 == 0"
[[launch]]
kernel = "dilate"
grid = ["cdiv(W // 4, 64)", "H"]
block = [64]
args = ["img", "out", "W // 4", "H"]
--- */
static __device__ __forceinline__ unsigned row_max(const unsigned* __restrict__ row, int x, int w) {
    unsigned c = __ldg(row + x);
    unsigned l = x > 0 ? __ldg(row + x - 1) : c << 24;
    unsigned r = x < w - 1 ? __ldg(row + x + 1) : c >> 24;
    unsigned left = __funnelshift_l(l, c, 8);
    unsigned right = __funnelshift_r(c, r, 8);
    return __vmaxu4(c, __vmaxu4(left, right));
}

extern "C" __global__ void dilate(const unsigned* __restrict__ img, unsigned* __restrict__ out, int w, int h) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= w) return;
    unsigned m = row_max(img + y * w, x, w);
    if (y > 0) m = __vmaxu4(m, row_max(img + (y - 1) * w, x, w));
    if (y + 1 < h) m = __vmaxu4(m, row_max(img + (y + 1) * w, x, w));
    out[y * w + x] = m;
}
