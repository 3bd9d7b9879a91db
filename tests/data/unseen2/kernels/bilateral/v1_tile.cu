/* ---
title = "Tile with a halo in shared memory, template radius"
[[launch]]
kernel = "bilateral"
grid = ["cdiv(W, 32)", "cdiv(H, 8)"]
block = [32, 8]
args = ["img", "out", "W", "H"]
--- */
template <int R, int BX, int BY>
__device__ void filter(const float* __restrict__ img, float* __restrict__ out, int w, int h) {
    __shared__ float tile[BY + 2 * R][BX + 2 * R + 1];
    const int x0 = blockIdx.x * BX - R, y0 = blockIdx.y * BY - R;
    for (int i = threadIdx.y * BX + threadIdx.x; i < (BY + 2 * R) * (BX + 2 * R); i += BX * BY) {
        const int ty = i / (BX + 2 * R), tx = i % (BX + 2 * R);
        const int gx = min(max(x0 + tx, 0), w - 1), gy = min(max(y0 + ty, 0), h - 1);
        tile[ty][tx] = img[gy * w + gx];
    }
    __syncthreads();
    const int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
    if (x >= w || y >= h) return;
    const float c = tile[threadIdx.y + R][threadIdx.x + R];
    float num = 0, den = 0;
#pragma unroll
    for (int dy = -R; dy <= R; ++dy)
#pragma unroll
        for (int dx = -R; dx <= R; ++dx) {
            const float v = tile[threadIdx.y + R + dy][threadIdx.x + R + dx];
            const float d = v - c;
            const float k = exp2f(-1.4426950408889634f * ((dx * dx + dy * dy) / 8.0f + d * d * (1.0f / (2 * 0.09f))));
            num += k * v;
            den += k;
        }
    out[y * w + x] = __fdividef(num, den);
}

extern "C" __global__ void bilateral(const float* img, float* out, int w, int h) { filter<2, 32, 8>(img, out, w, h); }
