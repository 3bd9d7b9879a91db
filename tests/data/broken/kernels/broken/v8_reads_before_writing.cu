/* ---
title = "Wrong: sums are added to scratch memory that nobody set to zero"
[[launch]]
kernel = "average"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "y", "sums", "n"]
[[scratch]]
name  = "sums"
dtype = "float32"
shape = ["n"]
--- */
extern "C" __global__ void average(const float *x, float *y, float *sums, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float left = i > 0 ? x[i - 1] : 0.0f;
    float right = i + 1 < n ? x[i + 1] : 0.0f;
    float sum = sums[i] + left + x[i] + right;  // <- wrong
    sums[i] = sum;
    y[i] = sum / 3.0f;
}
