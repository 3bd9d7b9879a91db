/* ---
title = "One thread per cell, all 17 points from global memory"
[[scratch]]
name = "after"
dtype = "float32"
shape = ["NY", "NX"]
[[launch]]
kernel = "wave_step"
grid = ["cdiv(NX, 32)", "cdiv(NY, 8)"]
block = [32, 8]
args = ["prev", "now", "courant", "after", "NX", "NY"]
[[launch]]
kernel = "wave_step"
grid = ["cdiv(NX, 32)", "cdiv(NY, 8)"]
block = [32, 8]
args = ["now", "after", "courant", "wave", "NX", "NY"]
--- */

#define RADIUS 4

__constant__ float weight[RADIUS + 1] = {-205.0f / 72.0f, 8.0f / 5.0f, -1.0f / 5.0f, 8.0f / 315.0f, -1.0f / 560.0f};

extern "C" __global__ void wave_step(const float* prev, const float* now, const float* courant, float* next,
                                     int nx, int ny) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) return;
    int i = y * nx + x;

    float here = now[i];
    float second = 2.0f * weight[0] * here;
    for (int r = 1; r <= RADIUS; r++) {
        float around = 0.0f;
        if (x - r >= 0) around += now[i - r];
        if (x + r < nx) around += now[i + r];
        if (y - r >= 0) around += now[i - r * nx];
        if (y + r < ny) around += now[i + r * nx];
        second += weight[r] * around;
    }
    next[i] = 2.0f * here - prev[i] + courant[i] * second;
}
