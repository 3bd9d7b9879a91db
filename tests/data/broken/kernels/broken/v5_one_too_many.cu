/* ---
title = "Wrong: one thread too many writes"
[[launch]]
kernel = "average"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "y", "n"]
--- */
extern "C" __global__ void average(const float *x, float *y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i > n) return;
    float left = i > 0 ? x[i - 1] : 0.0f;
    float own = i < n ? x[i] : 0.0f;
    float right = i + 1 < n ? x[i + 1] : 0.0f;
    y[i] = (left + own + right) / 3.0f;  // <- wrong
}
