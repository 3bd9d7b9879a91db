// Right: memory of a stream's pool is used, given back and used again in the stream's order; the
// second buffer may be the first one's bytes, and is written before it is read.
#include <cstdio>

__global__ void fill(int* x, int value) { x[threadIdx.x] = value + threadIdx.x; }
__global__ void add(const int* a, int* sum) { sum[threadIdx.x] += a[threadIdx.x]; }

int main() {
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaMemPool_t pool;
  cudaDeviceGetDefaultMemPool(&pool, 0);
  unsigned long long keep = ~0ull;
  cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep);
  int h[256], *sum;
  cudaMallocAsync(&sum, sizeof h, stream);
  cudaMemsetAsync(sum, 0, sizeof h, stream);
  for (int round = 0; round < 4; round++) {
    int* part;
    cudaMallocAsync(&part, sizeof h, stream);
    fill<<<1, 256, 0, stream>>>(part, 10 * round);
    add<<<1, 256, 0, stream>>>(part, sum);
    cudaFreeAsync(part, stream);
  }
  cudaMemcpyAsync(h, sum, sizeof h, cudaMemcpyDeviceToHost, stream);
  cudaFreeAsync(sum, stream);
  bool right = cudaStreamSynchronize(stream) == cudaSuccess;
  for (int i = 0; i < 256; i++) right &= h[i] == 60 + 4 * i;
  puts(right ? "right" : "WRONG");
  cudaStreamDestroy(stream);
}
