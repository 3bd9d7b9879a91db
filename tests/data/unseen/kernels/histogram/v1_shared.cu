/* ---
title = "A histogram a block in shared memory"
[[launch]]
kernel = "zero"
grid   = [1]
block  = [256]
args   = ["bins"]
[[launch]]
kernel = "histogram"
grid   = [96]
block  = [256]
args   = ["data", "bins", "N"]
--- */

extern "C" __global__ void zero(int* bins) { bins[threadIdx.x] = 0; }

extern "C" __global__ void histogram(const unsigned char* data, int* bins, int n) {
    __shared__ int local_bins[256];
    local_bins[threadIdx.x] = 0;
    __syncthreads();
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        atomicAdd(&local_bins[data[i]], 1);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local_bins[threadIdx.x]);
}
