/* ---
title = "Right-looking on a shared tile of eight columns, a warp each"
change = "A lane owns a row; the solved unknown goes round by shuffle, the triangle is read by columns from padded shared memory."
[[launch]]
kernel = "trsm"
grid = ["cdiv(C, 8)"]
block = [32, 8]
args = ["l", "b", "x", "C"]
--- */
extern "C" __global__ void __launch_bounds__(256) trsm(const double* __restrict__ l, const double* __restrict__ b,
                                                       double* __restrict__ x, int columns) {
    __shared__ double tri[32][33];
    __shared__ double inv[32];
    __shared__ double tile[32][9];
    const int lane = threadIdx.x, warp = threadIdx.y, tid = warp * 32 + lane;
    for (int i = warp; i < 32; i += 8) tri[i][lane] = l[i * 32 + lane];
    if (warp == 0) inv[lane] = 1.0 / l[lane * 33];
    {
        int r = tid / 8, c = blockIdx.x * 8 + tid % 8;
        tile[r][tid % 8] = c < columns ? b[r * columns + c] : 0.0;
    }
    __syncthreads();
    double v = tile[lane][warp];
    for (int k = 0; k < 32; ++k) {
        double xk = __shfl_sync(0xffffffffu, v, k) * inv[k];
        if (lane == k) v = xk;
        if (lane > k) v -= tri[lane][k] * xk;
    }
    tile[lane][warp] = v;
    __syncthreads();
    int r = tid / 8, c = blockIdx.x * 8 + tid % 8;
    if (c < columns) x[r * columns + c] = tile[r][tid % 8];
}
