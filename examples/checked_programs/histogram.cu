// Counts how often each byte occurs: a block's own counters first, then one sum for all blocks.
#include <cstdio>
#include <cstdlib>

__global__ void histogram(const unsigned char* data, int n, unsigned* counts) {
  __shared__ unsigned own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&own[data[i]], 1u);
  __syncthreads();
  atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 100000;
  unsigned char* data = (unsigned char*)malloc(n);
  unsigned expected[256] = {}, counts[256];
  for (int i = 0; i < n; i++) expected[data[i] = (i * 2654435761u) >> 24]++;
  unsigned char* d_data;
  unsigned* d_counts;
  cudaMalloc(&d_data, n);
  cudaMalloc(&d_counts, sizeof counts);
  cudaMemcpy(d_data, data, n, cudaMemcpyHostToDevice);
  cudaMemset(d_counts, 0, sizeof counts);
  histogram<<<8, 256>>>(d_data, n, d_counts);
  cudaMemcpy(counts, d_counts, sizeof counts, cudaMemcpyDeviceToHost);
  for (int v = 0; v < 256; v++)
    if (counts[v] != expected[v]) return printf("value %d: %u, expected %u\n", v, counts[v], expected[v]), 1;
  puts("right");
}
