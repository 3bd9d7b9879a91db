/* ---
title = "A tile with its halo in shared memory, taps from constant memory"
[[launch]]
kernel = "heat"
grid   = ["cdiv(X, 16)", "cdiv(Y, 8)", "cdiv(Z, 4)"]
block  = [16, 8, 4]
args   = ["u", "v", "X", "Y", "Z"]
--- */

__constant__ float tap[7] = {0.4f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f};
__constant__ int dx[7] = {0, -1, 1, 0, 0, 0, 0};
__constant__ int dy[7] = {0, 0, 0, -1, 1, 0, 0};
__constant__ int dz[7] = {0, 0, 0, 0, 0, -1, 1};

extern "C" __global__ void heat(const float* u, float* v, int nx, int ny, int nz) {
    __shared__ float s[6][10][18];
    const int x0 = blockIdx.x * 16, y0 = blockIdx.y * 8, z0 = blockIdx.z * 4;
    const int tid = (threadIdx.z * 8 + threadIdx.y) * 16 + threadIdx.x;
    for (int i = tid; i < 6 * 10 * 18; i += 512) {
        int lx = i % 18, ly = i / 18 % 10, lz = i / 180;
        int x = x0 + lx - 1, y = y0 + ly - 1, z = z0 + lz - 1;
        float value = 0.f;
        if (x >= 0 && x < nx && y >= 0 && y < ny && z >= 0 && z < nz) value = u[(z * ny + y) * nx + x];
        s[lz][ly][lx] = value;
    }
    __syncthreads();
    int x = x0 + threadIdx.x, y = y0 + threadIdx.y, z = z0 + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) return;
    bool border = x == 0 || y == 0 || z == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1;
    float sum = 0;
#pragma unroll 1
    for (int k = 0; k < 7; ++k)
        sum += tap[k] * s[threadIdx.z + 1 + dz[k]][threadIdx.y + 1 + dy[k]][threadIdx.x + 1 + dx[k]];
    v[(z * ny + y) * nx + x] = border ? s[threadIdx.z + 1][threadIdx.y + 1][threadIdx.x + 1] : sum;
}
