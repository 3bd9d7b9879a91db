/* ---
title = "Marches along z with three rotating registers, neighbours from the cache"
[[launch]]
kernel = "jacobi"
grid = ["cdiv(NX, 32)", "cdiv(NY, 8)"]
block = [32, 8]
args = ["u", "f", "v", "NX", "NY", "NZ"]
--- */
extern "C" __global__ void jacobi(const float* __restrict__ u, const float* __restrict__ f, float* __restrict__ v,
                                  int nx, int ny, int nz) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= nx || y >= ny) return;
    const bool rim = x == 0 || y == 0 || x == nx - 1 || y == ny - 1;
    const int plane = nx * ny;
    int i = y * nx + x;
    float below = 0.f, here = u[i], above = u[i + plane];
    v[i] = here;
    for (int z = 1; z < nz - 1; ++z) {
        i += plane;
        below = here;
        here = above;
        above = u[i + plane];
        v[i] = rim ? here : (below + above + u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] + f[i]) * (1.f / 6.f);
    }
    v[i + plane] = above;
}
