// Lab 4: the sum of a vector, block by block.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

#define THREADS 256

__global__ void reduceInterleaved(float *g_in, float *g_out, unsigned int n) {
    extern __shared__ float s[];
    unsigned int tid = threadIdx.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    s[tid] = i < n ? g_in[i] : 0.0f;
    __syncthreads();
    for (unsigned int step = 1; step < blockDim.x; step *= 2) {
        if (tid % (2 * step) == 0) s[tid] += s[tid + step];
        __syncthreads();
    }
    if (tid == 0) g_out[blockIdx.x] = s[0];
}

__global__ void reduceSequential(float *g_in, float *g_out, unsigned int n) {
    extern __shared__ float s[];
    unsigned int tid = threadIdx.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    s[tid] = i < n ? g_in[i] : 0.0f;
    __syncthreads();
    for (unsigned int step = blockDim.x / 2; step > 0; step >>= 1) {
        if (tid < step) s[tid] += s[tid + step];
        __syncthreads();
    }
    if (tid == 0) g_out[blockIdx.x] = s[0];
}

int main() {
    unsigned int n = 1 << 22;
    int blocks = (n + THREADS - 1) / THREADS;
    float *in = new float[n], *partial = new float[blocks], *expected = new float[blocks];
    for (unsigned int i = 0; i < n; i++) in[i] = rand() / (float)RAND_MAX;
    for (int b = 0; b < blocks; b++) {
        double sum = 0;
        for (unsigned int i = b * THREADS; i < (b + 1) * THREADS && i < n; i++) sum += in[i];
        expected[b] = sum;
    }
    float *dev_in, *dev_out;
    cudaMalloc(&dev_in, n * sizeof(float));
    cudaMalloc(&dev_out, blocks * sizeof(float));
    cudaMemcpy(dev_in, in, n * sizeof(float), cudaMemcpyHostToDevice);

    reduceInterleaved<<<blocks, THREADS, THREADS * sizeof(float)>>>(dev_in, dev_out, n);
    cudaMemcpy(partial, dev_out, blocks * sizeof(float), cudaMemcpyDeviceToHost);
    for (int b = 0; b < blocks; b++)
        if (fabs(partial[b] - expected[b]) > 1e-2) printf("wrong at block %d\n", b);

    reduceSequential<<<blocks, THREADS, THREADS * sizeof(float)>>>(dev_in, dev_out, n);
    cudaMemcpy(partial, dev_out, blocks * sizeof(float), cudaMemcpyDeviceToHost);
    for (int b = 0; b < blocks; b++)
        if (fabs(partial[b] - expected[b]) > 1e-2) printf("wrong at block %d\n", b);
    return 0;
}
