/* ---
title = "A thread a point"
[[launch]]
kernel = "heat"
grid   = ["cdiv(X, 32)", "cdiv(Y, 4)", "cdiv(Z, 2)"]
block  = [32, 4, 2]
args   = ["u", "v", "X", "Y", "Z", 0.4, 0.1]
--- */

#define IDX(x, y, z) (((z) * ny + (y)) * nx + (x))

extern "C" __global__ void heat(const float* u, float* v, int nx, int ny, int nz, float c0, float c1) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) return;
    if (x == 0 || y == 0 || z == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1) {
        v[IDX(x, y, z)] = u[IDX(x, y, z)];
        return;
    }
    v[IDX(x, y, z)] = c0 * u[IDX(x, y, z)] +
                      c1 * (u[IDX(x - 1, y, z)] + u[IDX(x + 1, y, z)] + u[IDX(x, y - 1, z)] +
                            u[IDX(x, y + 1, z)] + u[IDX(x, y, z - 1)] + u[IDX(x, y, z + 1)]);
}
