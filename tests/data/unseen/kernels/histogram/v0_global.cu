/* ---
title = "Global atomics"
[[launch]]
kernel = "zero"
grid   = [1]
block  = [256]
args   = ["bins"]
[[launch]]
kernel = "histogram"
grid   = ["cdiv(N, 256)"]
block  = [256]
args   = ["data", "bins", "N"]
--- */

extern "C" __global__ void zero(int* bins) { bins[threadIdx.x] = 0; }

extern "C" __global__ void histogram(const unsigned char* data, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[data[i]], 1);
}
