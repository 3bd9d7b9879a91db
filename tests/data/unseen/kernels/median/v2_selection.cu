/* ---
title = "A tile in shared memory, the median by exchanges in registers"
[[launch]]
kernel = "median"
grid   = ["cdiv(W, 32)", "cdiv(H, 8)"]
block  = [32, 8]
args   = ["image", "out", "W", "H"]
--- */

#define SWAP(a, b) { int lo = min(a, b); b = max(a, b); a = lo; }

extern "C" __global__ void median(const unsigned char* image, unsigned char* out, int w, int h) {
    __shared__ unsigned char tile[12][36];
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 12 * 36; i += 256) {
        int ty = i / 36, tx = i % 36;
        int sx = min(max((int)blockIdx.x * 32 + tx - 2, 0), w - 1);
        int sy = min(max((int)blockIdx.y * 8 + ty - 2, 0), h - 1);
        tile[ty][tx] = image[sy * w + sx];
    }
    __syncthreads();
    int v[25];
#pragma unroll
    for (int i = 0; i < 25; ++i) v[i] = tile[threadIdx.y + i / 5][threadIdx.x + i % 5];
#pragma unroll
    for (int i = 0; i < 13; ++i)
#pragma unroll
        for (int j = i + 1; j < 25; ++j) SWAP(v[i], v[j]);
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x < w && y < h) out[y * w + x] = v[12];
}
