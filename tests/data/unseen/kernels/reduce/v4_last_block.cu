/* ---
title = "One pass: the block that comes last adds up the partial sums"
[[scratch]]
name  = "partial"
dtype = "float32"
shape = [128]
[[scratch]]
name  = "count"
dtype = "uint32"
shape = [1]
[[launch]]
kernel = "clear"
grid   = [1]
block  = [1]
args   = ["count"]
[[launch]]
kernel = "reduce"
grid   = [128]
block  = [256]
args   = ["x", "partial", "count", "total", "N"]
--- */

extern "C" __global__ void clear(unsigned int* count) { *count = 0; }

template <int BLOCK>
__device__ float block_sum(float v) {
    __shared__ float buf[BLOCK];
    buf[threadIdx.x] = v;
    __syncthreads();
#pragma unroll
    for (int s = BLOCK / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) buf[threadIdx.x] += buf[threadIdx.x + s];
        __syncthreads();
    }
    return buf[0];
}

extern "C" __global__ void reduce(const float* x, volatile float* partial, unsigned int* count,
                                  float* total, int n) {
    __shared__ bool amLast;
    float mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine += x[i];
    float sum = block_sum<256>(mine);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        unsigned int ticket = atomicInc(count, gridDim.x);
        amLast = (ticket == gridDim.x - 1);
    }
    __syncthreads();
    if (amLast) {
        float v = threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0.0f;
        sum = block_sum<256>(v);
        if (threadIdx.x == 0) *total = sum;
    }
}
