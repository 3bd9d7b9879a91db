// Right: while one tile is summed, the next is copied asynchronously into the other buffer; a
// tile is waited for before it is read, and a barrier stands before its buffer is used again.
#include <cstdio>
#include <cuda_pipeline.h>
#include <vector>

__global__ void sums(const float4* in, float* out, int tiles) {
  __shared__ float4 buffer[2][64];
  int t = threadIdx.x;
  const float4* mine = in + size_t(blockIdx.x) * tiles * 64;
  __pipeline_memcpy_async(&buffer[0][t], &mine[t], sizeof(float4));
  __pipeline_commit();
  float sum = 0;
  for (int k = 0; k < tiles; k++) {
    if (k + 1 < tiles) __pipeline_memcpy_async(&buffer[(k + 1) % 2][t], &mine[(k + 1) * 64 + t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    float4 v = buffer[k % 2][63 - t];
    sum += v.x + v.y + v.z + v.w;
    __syncthreads();
  }
  out[blockIdx.x * 64 + t] = sum;
}

int main() {
  const int blocks = 4, tiles = 9, n = blocks * tiles * 64;
  std::vector<float4> h(n);
  for (int i = 0; i < n; i++) h[i] = {1, 2, 3, float(i % 64)};
  std::vector<float> result(blocks * 64);
  float4* in;
  float* out;
  cudaMalloc(&in, n * sizeof(float4));
  cudaMalloc(&out, result.size() * sizeof(float));
  cudaMemcpy(in, h.data(), n * sizeof(float4), cudaMemcpyHostToDevice);
  sums<<<blocks, 64>>>(in, out, tiles);
  cudaError_t error = cudaMemcpy(result.data(), out, blocks * 64 * sizeof(float), cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (int i = 0; i < blocks * 64; i++) right &= result[i] == tiles * (6 + 63 - i % 64);
  puts(right ? "right" : "WRONG");
}
