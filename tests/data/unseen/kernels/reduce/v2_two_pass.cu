/* ---
title = "Sequential tree with an unrolled last warp, two passes"
[[scratch]]
name  = "partial"
dtype = "float32"
shape = ["cdiv(N, 1024)"]
[[launch]]
kernel = "reduce"
grid   = ["cdiv(N, 1024)"]
block  = [512]
args   = ["x", "partial", "N"]
dynamic_shared = 2048
[[launch]]
kernel = "reduce_rest"
grid   = [1]
block  = [512]
args   = ["partial", "total", "cdiv(N, 1024)"]
dynamic_shared = 2048
--- */

extern __shared__ float sdata[];


__device__ void tree(float v, float* out) {
    int tid = threadIdx.x;
    sdata[tid] = v;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 32; s >>= 1) {
        if (tid < s) sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    if (tid < 32) {
        float t = sdata[tid] + sdata[tid + 32];
        for (int offset = 16; offset > 0; offset /= 2) t += __shfl_down_sync(0xffffffff, t, offset);
        if (tid == 0) *out = t;
    }
}

extern "C" __global__ void reduce(const float* x, float* partial, int n) {
    int i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
    float v = 0;
    if (i < n) v = x[i];
    if (i + blockDim.x < n) v += x[i + blockDim.x];
    tree(v, &partial[blockIdx.x]);
}

extern "C" __global__ void reduce_rest(const float* partial, float* total, int n) {
    float v = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) v += partial[i];
    tree(v, total);
}
