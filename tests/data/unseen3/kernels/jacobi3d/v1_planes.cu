/* ---
title = "cuda::memcpy_async-style pipeline of planes in shared memory, halo by cp.async"
change = "Each plane with its halo is brought once per block, one plane ahead, by 4-byte cp.async; z is cut into chunks."
[defines]
CHUNK = 16
[[launch]]
kernel = "jacobi"
grid = ["cdiv(NX, 32)", "cdiv(NY, 8)", "cdiv(NZ, CHUNK)"]
block = [32, 8]
args = ["u", "f", "v", "NX", "NY", "NZ"]
--- */
#include <cuda_pipeline.h>
constexpr int BX = 32, BY = 8, PX = BX + 2, PY = BY + 2;

extern "C" __global__ void __launch_bounds__(256) jacobi(const float* __restrict__ u, const float* __restrict__ f,
                                                         float* __restrict__ v, int nx, int ny, int nz) {
    __shared__ float ring[4][PY][PX];
    const int x0 = blockIdx.x * BX - 1, y0 = blockIdx.y * BY - 1;
    const int x = x0 + 1 + threadIdx.x, y = y0 + 1 + threadIdx.y;
    const int tid = threadIdx.y * BX + threadIdx.x, plane = nx * ny;
    const int z_begin = blockIdx.z * CHUNK, z_end = min(z_begin + CHUNK, nz);

    auto bring = [&](int z) {
        if (z >= 0 && z < nz && z <= z_end) {
            for (int i = tid; i < PX * PY; i += BX * BY) {
                int r = i / PX, c = i - r * PX;
                int gx = min(max(x0 + c, 0), nx - 1), gy = min(max(y0 + r, 0), ny - 1);
                __pipeline_memcpy_async(&ring[z & 3][r][c], u + z * plane + gy * nx + gx, 4);
            }
        }
        __pipeline_commit();
    };
    bring(z_begin - 1);
    bring(z_begin);
    bring(z_begin + 1);
    for (int z = z_begin; z < z_end; ++z) {
        bring(z + 2);
        __pipeline_wait_prior(1);
        __syncthreads();
        if (x < nx && y < ny) {
            const int i = z * plane + y * nx + x, r = threadIdx.y + 1, c = threadIdx.x + 1;
            float here = ring[z & 3][r][c];
            bool rim = x == 0 || y == 0 || z == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1;
            if (!rim) {
                const auto& p = ring[z & 3];
                here = (ring[(z - 1) & 3][r][c] + ring[(z + 1) & 3][r][c] + p[r][c - 1] + p[r][c + 1] + p[r - 1][c] +
                        p[r + 1][c] + f[i]) * (1.f / 6.f);
            }
            v[i] = here;
        }
        __syncthreads();
    }
}
