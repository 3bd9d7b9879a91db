/* ---
title = "Every direction by hand, selections for the border"
[[launch]]
kernel = "lbm"
grid = ["cdiv(W, 64)", "H"]
block = [64]
args = ["f", "g", "W", "H"]
--- */
#define OMEGA 1.2f
#define F(k, dx, dy) f[(k) * size + (dy) * W + (dx)]

extern "C" __global__ __launch_bounds__(64) void lbm(const float* __restrict__ f, float* __restrict__ g, const int W, const int H) {
    const int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y;
    if (x >= W) return;
    const int size = W * H;
    const int e = x == W - 1 ? 0 : x + 1, w = x == 0 ? W - 1 : x - 1;
    const int n = y == H - 1 ? 0 : y + 1, s = y == 0 ? H - 1 : y - 1;
    const float f0 = F(0, x, y), f1 = F(1, w, y), f2 = F(2, x, s), f3 = F(3, e, y), f4 = F(4, x, n);
    const float f5 = F(5, w, s), f6 = F(6, e, s), f7 = F(7, e, n), f8 = F(8, w, n);
    const float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
    const float inv = 1.0f / rho;
    const float ux = (f1 - f3 + f5 - f6 - f7 + f8) * inv;
    const float uy = (f2 - f4 + f5 + f6 - f7 - f8) * inv;
    const float u2 = 1.0f - 1.5f * (ux * ux + uy * uy);
    auto relax = [=](int k, float v, float weight, float cu) {
        float eq = weight * rho * (u2 + 3.0f * cu + 4.5f * cu * cu);
        g[k * size + y * W + x] = v + OMEGA * (eq - v);
    };
    relax(0, f0, 4.0f / 9, 0.0f);
    relax(1, f1, 1.0f / 9, ux);
    relax(2, f2, 1.0f / 9, uy);
    relax(3, f3, 1.0f / 9, -ux);
    relax(4, f4, 1.0f / 9, -uy);
    relax(5, f5, 1.0f / 36, ux + uy);
    relax(6, f6, 1.0f / 36, uy - ux);
    relax(7, f7, 1.0f / 36, -ux - uy);
    relax(8, f8, 1.0f / 36, ux - uy);
}
