/* ---
title = "Wrong: neighbours add to the same sum without an atomic"
[[launch]]
kernel = "average"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "y", "n"]
--- */
extern "C" __global__ void average(const float *x, float *y, int n) {
    __shared__ float sum[258];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    sum[t] = 0.0f;
    if (t < 2) sum[t + 256] = 0.0f;
    __syncthreads();
    // Every element is scattered to the three sums that it belongs to.
    float left = t == 0 && i > 0 ? x[i - 1] : 0.0f;
    float right = t == 255 && i + 1 < n ? x[i + 1] : 0.0f;
    float own = i < n ? x[i] : 0.0f;
    for (int k = 0; k < 3; ++k) {
        sum[t + k] += own;  // <- wrong
    }
    __syncthreads();
    if (i < n) y[i] = (sum[t + 1] + left + right) / 3.0f;
}
