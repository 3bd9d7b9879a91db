/* ---
title = "Planes arrive by cp.async, four stages deep"
[[launch]]
kernel = "heat"
grid   = ["cdiv(X, 32)", "cdiv(Y, 8)"]
block  = [32, 8]
args   = ["u", "v", "X", "Y", "Z"]
--- */
#include <cuda_pipeline.h>

#define BX 32
#define BY 8
#define STAGES 4

struct Tile {
    float p[BY + 2][BX + 2];
};

__device__ inline void fetch(Tile& t, const float* plane, int x0, int y0, int nx, int ny) {
    for (int i = threadIdx.y * BX + threadIdx.x; i < (BX + 2) * (BY + 2); i += BX * BY) {
        int r = i / (BX + 2), c = i % (BX + 2);
        int y = min(max(y0 + r - 1, 0), ny - 1), x = min(max(x0 + c - 1, 0), nx - 1);
        __pipeline_memcpy_async(&t.p[r][c], &plane[y * nx + x], sizeof(float));
    }
    __pipeline_commit();
}

extern "C" __global__ void heat(const float* __restrict__ u, float* __restrict__ v, int nx, int ny, int nz) {
    __shared__ Tile tiles[STAGES];
    int x0 = blockIdx.x * BX, y0 = blockIdx.y * BY;
    int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    size_t plane = (size_t)nx * ny;
    for (int s = 0; s < STAGES - 1; ++s)
        if (s < nz)
            fetch(tiles[s], u + s * plane, x0, y0, nx, ny);
        else
            __pipeline_commit();
    for (int z = 0; z < nz; ++z) {
        __pipeline_wait_prior(STAGES - 3);
        __syncthreads();
        const Tile& c = tiles[z % STAGES];
        if (x < nx && y < ny) {
            float r = c.p[ty][tx];
            if (x > 0 && y > 0 && z > 0 && x < nx - 1 && y < ny - 1 && z < nz - 1) {
                const Tile& b = tiles[(z + STAGES - 1) % STAGES];
                const Tile& a = tiles[(z + 1) % STAGES];
                r = 0.4f * r + 0.1f * (c.p[ty][tx - 1] + c.p[ty][tx + 1] + c.p[ty - 1][tx] +
                                       c.p[ty + 1][tx] + b.p[ty][tx] + a.p[ty][tx]);
            }
            v[z * plane + (size_t)y * nx + x] = r;
        }
        __syncthreads();
        if (z + STAGES - 1 < nz)
            fetch(tiles[(z + STAGES - 1) % STAGES], u + (z + STAGES - 1) * plane, x0, y0, nx, ny);
        else
            __pipeline_commit();
    }
}
