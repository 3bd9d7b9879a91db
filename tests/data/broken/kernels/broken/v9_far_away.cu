/* ---
title = "Wrong: an index in bytes where elements are meant, far out of bounds"
[[launch]]
kernel = "average"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "y", "n"]
--- */
extern "C" __global__ void average(const float *x, float *y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float left = i > 0 ? x[i - 1] : 0.0f;
    float right = i + 1 < n ? x[i + 1] : 0.0f;
    y[i + ((long long)1 << 40)] = (left + x[i] + right) / 3.0f;  // <- wrong
}
