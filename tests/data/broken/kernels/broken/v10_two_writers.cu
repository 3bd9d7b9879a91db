/* ---
title = "Wrong: blocks overlap, and give the elements that they share different values"
[[launch]]
kernel = "average"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "y", "n"]
--- */
extern "C" __global__ void average(const float *x, float *y, int n) {
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    if (i < n) {
        float left = i > 0 ? x[i - 1] : 0.0f, right = i + 1 < n ? x[i + 1] : 0.0f;
        y[i] = (left + x[i] + right) / 3.0f;
    }
    // The first thread of a block takes the element before it for its own.
    if (t == 0 && i > 0) y[i - 1] = (x[i - 1] + x[i]) / 3.0f;  // <- wrong
}
