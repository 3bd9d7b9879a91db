/* ---
title = "PolyBench's three kernels"
[[launch]]
kernel = "step_e"
grid = ["cdiv(W, 32)", "cdiv(H, 8)"]
block = [32, 8]
args = ["ex", "ey", "hz", "nex", "ney", "W", "H"]
[[launch]]
kernel = "step_h"
grid = ["cdiv(W, 32)", "cdiv(H, 8)"]
block = [32, 8]
args = ["nex", "ney", "hz", "nhz", "W", "H"]
--- */
extern "C" __global__ void step_e(const float *ex, const float *ey, const float *hz, float *nex, float *ney, int W, int H)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < H && j < W) {
        if (i > 0)
            nex[i * W + j] = ex[i * W + j] - 0.5f * (hz[i * W + j] - hz[(i - 1) * W + j]);
        else
            nex[i * W + j] = ex[i * W + j];
        if (j > 0)
            ney[i * W + j] = ey[i * W + j] - 0.5f * (hz[i * W + j] - hz[i * W + (j - 1)]);
        else
            ney[i * W + j] = ey[i * W + j];
    }
}

extern "C" __global__ void step_h(const float *ex, const float *ey, const float *hz, float *nhz, int W, int H)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= H || j >= W)
        return;
    float h = hz[i * W + j];
    if (i < H - 1 && j < W - 1)
        h -= 0.7f * (ex[i * W + (j + 1)] - ex[i * W + j] +
                     ey[(i + 1) * W + j] - ey[i * W + j]);
    nhz[i * W + j] = h;
}
