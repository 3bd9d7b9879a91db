// Lab 1: a histogram of bytes, with atomics in global and in shared memory.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BINS 256

typedef unsigned char byte;

__global__ void histGlobal(const byte *data, unsigned int *bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int stride = gridDim.x * blockDim.x;
    for (; i < n; i += stride) atomicAdd(&bins[data[i]], 1u);
}

__global__ void histShared(const byte *data, unsigned int *bins, int n) {
    __shared__ unsigned int local[BINS];
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) local[b] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[data[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) atomicAdd(&bins[b], local[b]);
}

static void fill(byte *data, int n) {
    for (int i = 0; i < n; i++) data[i] = rand() % 256;
}

static void histHost(const byte *data, unsigned int *bins, int n) {
    memset(bins, 0, BINS * sizeof(unsigned int));
    for (int i = 0; i < n; i++) bins[data[i]]++;
}

int main(int argc, char *argv[]) {
    int n = 1 << 20;
    if (argc > 1) n = atoi(argv[1]);
    byte *data = (byte *)malloc(n);
    unsigned int host[BINS], result[BINS];
    fill(data, n);
    histHost(data, host, n);

    byte *d_data;
    unsigned int *d_bins;
    cudaMalloc((void **)&d_data, n);
    cudaMalloc((void **)&d_bins, BINS * sizeof(unsigned int));
    cudaMemcpy(d_data, data, n, cudaMemcpyHostToDevice);

    cudaMemset(d_bins, 0, BINS * sizeof(unsigned int));
    histGlobal<<<64, 256>>>(d_data, d_bins, n);
    cudaMemcpy(result, d_bins, BINS * sizeof(unsigned int), cudaMemcpyDeviceToHost);
    printf("global %s\n", memcmp(result, host, sizeof(host)) ? "wrong" : "right");

    cudaMemset(d_bins, 0, BINS * sizeof(unsigned int));
    histShared<<<64, 256>>>(d_data, d_bins, n);
    cudaMemcpy(result, d_bins, BINS * sizeof(unsigned int), cudaMemcpyDeviceToHost);
    printf("shared %s\n", memcmp(result, host, sizeof(host)) ? "wrong" : "right");
    return 0;
}
