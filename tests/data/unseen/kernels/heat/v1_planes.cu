/* ---
title = "Columns of points: the plane in shared memory, those above and below in registers"
[[launch]]
kernel = "heat"
grid   = ["cdiv(X, 32)", "cdiv(Y, 8)"]
block  = [32, 8]
args   = ["u", "v", "X", "Y", "Z"]
--- */

#define BX 32
#define BY 8

__constant__ float coefficients[2] = {0.4f, 0.1f};

extern "C" __global__ void heat(const float* __restrict__ u, float* __restrict__ v, int nx, int ny, int nz) {
    __shared__ float s[BY + 2][BX + 2];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
    bool in = x < nx && y < ny;
    bool edge = x == 0 || y == 0 || x == nx - 1 || y == ny - 1;
    long plane = (long)nx * ny, at = (long)y * nx + x;
    float below = 0, current = 0, above = 0;
    if (in) {
        current = u[at];
        if (nz > 1) above = u[at + plane];
        v[at] = current;
    }
    for (int z = 1; z < nz - 1; z++) {
        at += plane;
        below = current;
        current = above;
        if (in) above = u[at + plane];
        __syncthreads();
        s[ty][tx] = current;
        if (threadIdx.x == 0 && in) s[ty][0] = x > 0 ? u[at - 1] : 0;
        if (threadIdx.x == BX - 1 && in) s[ty][BX + 1] = x < nx - 1 ? u[at + 1] : 0;
        if (threadIdx.y == 0 && in) s[0][tx] = y > 0 ? u[at - nx] : 0;
        if (threadIdx.y == BY - 1 && in) s[BY + 1][tx] = y < ny - 1 ? u[at + nx] : 0;
        __syncthreads();
        if (in) {
            float r = current;
            if (!edge)
                r = coefficients[0] * current +
                    coefficients[1] * (s[ty][tx - 1] + s[ty][tx + 1] + s[ty - 1][tx] + s[ty + 1][tx] +
                                       below + above);
            v[at] = r;
        }
    }
    if (in && nz > 1) v[at + plane] = above;
}
