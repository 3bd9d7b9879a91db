/* ---
title = "Interleaved tree without divergence, with bank conflicts"
[[launch]]
kernel = "clear"
grid   = [1]
block  = [1]
args   = ["total"]
[[launch]]
kernel = "reduce"
grid   = ["cdiv(N, 256)"]
block  = [256]
args   = ["x", "total", "N"]
--- */

extern "C" __global__ void clear(float* total) { *total = 0.0f; }

extern "C" __global__ void reduce(const float* x, float* total, int n) {
    __shared__ float sdata[256];
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    sdata[tid] = (i < n) ? x[i] : 0;
    __syncthreads();

    for (unsigned int s = 1; s < blockDim.x; s *= 2) {
        int index = 2 * s * tid;
        if (index < blockDim.x) {
            sdata[index] += sdata[index + s];
        }
        __syncthreads();
    }

    if (tid == 0) atomicAdd(total, sdata[0]);
}
