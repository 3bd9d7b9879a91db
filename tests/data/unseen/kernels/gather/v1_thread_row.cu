/* ---
title = "A thread a row"
[[launch]]
kernel = "gather"
grid   = ["cdiv(N, 128)"]
block  = [128]
args   = ["table", "index", "out", "N", "D"]
--- */

extern "C" __global__ void gather(const float* table, const int* index, float* out, int n, int d) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    const float* from = table + (size_t)index[row] * d;
    float* to = out + (size_t)row * d;
    for (int k = 0; k < d; k++) to[k] = from[k];
}
