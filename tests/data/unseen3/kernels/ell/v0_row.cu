/* ---
title = "A thread per row, stops at the padding"
[[launch]]
kernel = "ell"
grid = ["cdiv(N, 192)"]
block = [192]
args = ["col", "val", "x", "y", "N", "W"]
--- */
extern "C" __global__ void ell(const int* __restrict__ col, const double* __restrict__ val,
                               const double* __restrict__ x, double* __restrict__ y, int n, int width) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    double sum = 0.0;
    for (int k = 0; k < width; ++k) {
        int c = col[k * n + r];
        if (c < 0) break;
        sum += val[k * n + r] * x[c];
    }
    y[r] = sum;
}
