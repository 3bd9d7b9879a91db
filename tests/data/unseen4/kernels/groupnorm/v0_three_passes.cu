/* ---
title  = "A block per group, three passes over global memory"
change = "Mean, then variance, then the result; sums by a tree in shared memory."
[defines]
THREADS = 256
[[launch]]
kernel = "group_norm"
grid   = ["B * G"]
block  = ["THREADS"]
args   = ["x", "gamma", "beta", "y", "G", "C // G", "H * W", 0.00001]
--- */
#include <cuda_fp16.h>

__device__ float block_sum(float value) {
    __shared__ float sums[THREADS];
    sums[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    float total = sums[0];
    __syncthreads();  // before the next call writes again
    return total;
}

extern "C" __global__ void group_norm(const __half* x, const float* gamma, const float* beta,
                                      __half* y, int groups, int channels, int pixels,
                                      float epsilon) {
    int group = blockIdx.x % groups;
    int size = channels * pixels;
    const __half* in = x + blockIdx.x * size;
    __half* out = y + blockIdx.x * size;

    float sum = 0.0f;
    for (int i = threadIdx.x; i < size; i += THREADS) {
        sum += __half2float(in[i]);
    }
    float mean = block_sum(sum) / size;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < size; i += THREADS) {
        float d = __half2float(in[i]) - mean;
        squares += d * d;
    }
    float rstd = rsqrtf(block_sum(squares) / size + epsilon);

    for (int i = threadIdx.x; i < size; i += THREADS) {
        int c = group * channels + i / pixels;
        float normalized = (__half2float(in[i]) - mean) * rstd;
        out[i] = __float2half(normalized * gamma[c] + beta[c]);
    }
}
