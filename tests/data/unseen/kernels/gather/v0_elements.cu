/* ---
title = "A thread an element"
[[launch]]
kernel = "gather"
grid   = ["cdiv(N * D, 256)"]
block  = [256]
args   = ["table", "index", "out", "N", "D"]
--- */

extern "C" __global__ void gather(const float* table, const int* index, float* out, int n, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * d) out[i] = table[index[i / d] * d + i % d];
}
