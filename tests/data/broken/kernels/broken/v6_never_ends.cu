/* ---
title = "Wrong: a loop without an exit"
[[launch]]
kernel = "average"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "y", "n"]
--- */
extern "C" __global__ void average(const float *x, float *y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    volatile float *waited_for = y + (i < n ? i : 0);
    // Nobody ever writes 12345 there.
    while (*waited_for != 12345.0f) {  // <- wrong
    }
    if (i < n) y[i] = x[i];
}
