// Right: variables of the device, set by the compiler, by the host and by a kernel; one holds a
// pointer to device memory, and another's address is taken on the host.
#include <cstdio>

__device__ int counter = 3;
__device__ int histogram[8];
__device__ const int* source;
__device__ unsigned ticket;

__global__ void count(int n, int* last) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&histogram[source[i] % 8], 1);
  __threadfence();
  if (threadIdx.x == 0 && atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1) *last = blockIdx.x + 1;
  if (i == 0) counter += 4;
}

int main() {
  const int n = 1000;
  int h[n], bins[8], c = 0, k = 0, *x, *last, *address;
  for (int i = 0; i < n; i++) h[i] = i;
  cudaMalloc(&x, sizeof h);
  cudaMalloc(&last, sizeof(int));
  cudaMemset(last, 0, sizeof(int));
  cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
  bool right = cudaMemcpyToSymbol(source, &x, sizeof x) == cudaSuccess;
  for (int round = 0; round < 2; round++) count<<<4, 256>>>(n, last);
  right &= cudaMemcpyFromSymbol(&c, counter, sizeof c) == cudaSuccess && c == 11;
  cudaGetSymbolAddress((void**)&address, histogram);
  size_t size = 0;
  cudaGetSymbolSize(&size, histogram);
  right &= size == sizeof bins;
  right &= cudaMemcpy(bins, address, sizeof bins, cudaMemcpyDeviceToHost) == cudaSuccess;
  cudaMemcpy(&k, last, sizeof k, cudaMemcpyDeviceToHost);
  for (int v : bins) right &= v == 250;
  puts(right && k >= 1 && k <= 4 ? "right" : "WRONG");
}
