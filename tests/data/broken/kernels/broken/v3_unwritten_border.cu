/* ---
title = "Wrong: the two ends of the output are never written"
[[launch]]
kernel = "average"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "y", "n"]
--- */
extern "C" __global__ void average(const float *x, float *y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i > 0 && i < n - 1) y[i] = (x[i - 1] + x[i] + x[i + 1]) / 3.0f;  // <- wrong
}
