/* ---
title = "Sixteen coarse and sixteen fine bins in a local array"
[[launch]]
kernel = "median"
grid   = ["cdiv(W, 32)", "cdiv(H, 4)"]
block  = [32, 4]
args   = ["image", "out", "W", "H"]
--- */

extern "C" __global__ void median(const unsigned char* __restrict__ image, unsigned char* out, int w, int h) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    if (x >= w || y >= h) return;
    int bins[16];
    for (int i = 0; i < 16; i++) bins[i] = 0;
    for (int dy = -2; dy <= 2; dy++)
        for (int dx = -2; dx <= 2; dx++)
            bins[image[min(max(y + dy, 0), h - 1) * w + min(max(x + dx, 0), w - 1)] >> 4]++;
    int below = 0, coarse = 0;
    while (below + bins[coarse] < 13) below += bins[coarse++];
    for (int i = 0; i < 16; i++) bins[i] = 0;
    for (int dy = -2; dy <= 2; dy++)
        for (int dx = -2; dx <= 2; dx++) {
            int p = image[min(max(y + dy, 0), h - 1) * w + min(max(x + dx, 0), w - 1)];
            if (p >> 4 == coarse) bins[p & 15]++;
        }
    int fine = 0;
    while (below + bins[fine] < 13) below += bins[fine++];
    out[y * w + x] = coarse * 16 + fine;
}
