/* ---
title = "Tiles of bodies in shared memory, rsqrt"
[[launch]]
kernel = "accelerate"
grid   = ["cdiv(N, 128)"]
block  = [128]
args   = ["body", "acceleration", "N"]
--- */

struct __align__(16) Body {
    double x, y, z, m;
};

extern "C" __global__ void accelerate(const Body* __restrict__ body, double* acceleration, int n) {
    __shared__ Body tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    Body me = {0, 0, 0, 0};
    if (i < n) me = body[i];
    double3 a = make_double3(0, 0, 0);
    for (int j0 = 0; j0 < n; j0 += 128) {
        if (j0 + threadIdx.x < n) tile[threadIdx.x] = body[j0 + threadIdx.x];
        __syncthreads();
        int count = min(128, n - j0);
        for (int j = 0; j < count; j++) {
            Body b = tile[j];
            double dx = b.x - me.x, dy = b.y - me.y, dz = b.z - me.z;
            double inv = rsqrt(fma(dx, dx, fma(dy, dy, fma(dz, dz, 1e-3))));
            double s = b.m * inv * inv * inv;
            a.x = fma(dx, s, a.x);
            a.y = fma(dy, s, a.y);
            a.z = fma(dz, s, a.z);
        }
        __syncthreads();
    }
    if (i < n) {
        acceleration[3 * i] = a.x;
        acceleration[3 * i + 1] = a.y;
        acceleration[3 * i + 2] = a.z;
    }
}
