/* ---
title = "All bodies from global memory"
[[launch]]
kernel = "accelerate"
grid   = ["cdiv(N, 64)"]
block  = [64]
args   = ["body", "acceleration", "N"]
--- */

extern "C" __global__ void accelerate(const double* body, double* acceleration, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = body[4 * i], y = body[4 * i + 1], z = body[4 * i + 2];
    double ax = 0, ay = 0, az = 0;
    for (int j = 0; j < n; j++) {
        double dx = body[4 * j] - x, dy = body[4 * j + 1] - y, dz = body[4 * j + 2] - z;
        double r2 = dx * dx + dy * dy + dz * dz + 1e-3;
        double s = body[4 * j + 3] / (r2 * sqrt(r2));
        ax += dx * s;
        ay += dy * s;
        az += dz * s;
    }
    acceleration[3 * i] = ax;
    acceleration[3 * i + 1] = ay;
    acceleration[3 * i + 2] = az;
}
