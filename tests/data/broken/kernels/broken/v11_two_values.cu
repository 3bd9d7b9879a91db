/* ---
title = "Wrong: lanes of a warp store different sums to one word of shared memory"
[[launch]]
kernel = "average"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "y", "n"]
--- */
extern "C" __global__ void average(const float *x, float *y, int n) {
    __shared__ float sums[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    float left = i > 0 && i < n ? x[i - 1] : 0.0f, right = i + 1 < n ? x[i + 1] : 0.0f;
    float sum = (left + (i < n ? x[i] : 0.0f)) + right;
    sums[t & ~1] = sum;  // <- wrong
    sums[t | 1] = sum;
    __syncthreads();
    if (i < n) y[i] = sums[t] / 3.0f;
}
