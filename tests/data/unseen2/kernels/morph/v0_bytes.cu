/* ---
title = "A thread a byte"
[[launch]]
kernel = "dilate"
grid = ["cdiv(W, 32)", "cdiv(H, 4)"]
block = [32, 4]
args = ["img", "out", "W", "H"]
--- */
typedef unsigned char uchar;

extern "C" __global__ void dilate(const uchar *img, uchar *out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    uchar m = 0;
    for (int dy = -1; dy <= 1; ++dy) {
        int yy = min(max(y + dy, 0), h - 1);
        for (int dx = -1; dx <= 1; ++dx) {
            int xx = min(max(x + dx, 0), w - 1);
            m = max(m, img[yy * w + xx]);
        }
    }
    out[y * w + x] = m;
}
