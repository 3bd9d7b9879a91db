/* ---
title = "Wrong: the halo is taken one element too far to the left"
[[launch]]
kernel = "average"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "y", "n"]
--- */
extern "C" __global__ void average(const float *x, float *y, int n) {
    __shared__ float tile[258];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    tile[t + 1] = i < n ? x[i] : 0.0f;
    if (t == 0) tile[0] = i > 1 ? x[i - 2] : 0.0f;  // <- wrong
    if (t == 255) tile[257] = i + 1 < n ? x[i + 1] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = (tile[t] + tile[t + 1] + tile[t + 2]) / 3.0f;
}
