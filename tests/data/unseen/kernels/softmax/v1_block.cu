/* ---
title = "A block a row, trees in shared memory"
[[launch]]
kernel = "softmax"
grid   = ["R"]
block  = [256]
args   = ["x", "y", "C"]
dynamic_shared = "4 * 256"
--- */

extern "C" __global__ void softmax(const float* inp, float* out, int C) {
    extern __shared__ float shared[];
    int idx = blockIdx.x;
    int tid = threadIdx.x;
    int block_size = blockDim.x;
    const float* x = inp + idx * C;
    float maxval = -INFINITY;
    for (int i = tid; i < C; i += block_size) maxval = fmaxf(maxval, x[i]);
    shared[tid] = maxval;
    for (int stride = block_size / 2; stride >= 1; stride /= 2) {
        __syncthreads();
        if (tid < stride) shared[tid] = fmaxf(shared[tid], shared[tid + stride]);
    }
    __syncthreads();
    float offset = shared[0];
    __syncthreads();
    float sumval = 0.0f;
    for (int i = tid; i < C; i += block_size) {
        float v = __expf(x[i] - offset);
        out[idx * C + i] = v;
        sumval += v;
    }
    shared[tid] = sumval;
    for (int stride = block_size / 2; stride >= 1; stride /= 2) {
        __syncthreads();
        if (tid < stride) shared[tid] += shared[tid + stride];
    }
    __syncthreads();
    float sum = shared[0];
    for (int i = tid; i < C; i += block_size) out[idx * C + i] = out[idx * C + i] / sum;
}
