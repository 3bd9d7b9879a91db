/* ---
title = "A thread per 2×2 pixels, uchar4 loads, byte stores"
[[launch]]
kernel = "convert"
grid = ["cdiv(W // 2, 32)", "cdiv(H // 2, 8)"]
block = [32, 8]
args = ["rgba", "luma", "u", "v", "W", "H"]
--- */
__device__ unsigned char luma_of(uchar4 p) { return (unsigned char)(((66 * p.x + 129 * p.y + 25 * p.z + 128) >> 8) + 16); }

extern "C" __global__ void convert(const uchar4* __restrict__ rgba, unsigned char* __restrict__ luma,
                                   unsigned char* __restrict__ u, unsigned char* __restrict__ v, int w, int h) {
    int cx = blockIdx.x * blockDim.x + threadIdx.x, cy = blockIdx.y * blockDim.y + threadIdx.y;
    if (cx >= w / 2 || cy >= h / 2) return;
    int r = 2, g = 2, b = 2;
    for (int j = 0; j < 2; ++j)
        for (int i = 0; i < 2; ++i) {
            int at = (2 * cy + j) * w + 2 * cx + i;
            uchar4 p = rgba[at];
            luma[at] = luma_of(p);
            r += p.x;
            g += p.y;
            b += p.z;
        }
    r >>= 2;
    g >>= 2;
    b >>= 2;
    u[cy * (w / 2) + cx] = ((-38 * r - 74 * g + 112 * b + 128) >> 8) + 128;
    v[cy * (w / 2) + cx] = ((112 * r - 94 * g - 18 * b + 128) >> 8) + 128;
}
