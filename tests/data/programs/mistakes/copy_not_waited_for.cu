// The tile is read while its asynchronous copy is still under way: a barrier waits for threads,
// not for copies. Right: __pipeline_wait_prior(0) before the barrier in line 13.
// fault: async-copy at line 14
#include <cstdio>
#include <cuda_pipeline.h>
#include <vector>

__global__ void reverse_tiles(const float4* in, float4* out) {
  __shared__ float4 tile[128];
  int t = threadIdx.x, base = blockIdx.x * 128;
  __pipeline_memcpy_async(&tile[t], &in[base + t], sizeof(float4));
  __pipeline_commit();
  __syncthreads();
  out[base + t] = tile[127 - t];
}

int main() {
  const int n = 4096;
  std::vector<float4> h(n), back(n);
  for (int i = 0; i < n; i++) h[i] = {float(i), float(2 * i), float(3 * i), float(4 * i)};
  float4 *in, *out;
  cudaMalloc(&in, n * sizeof(float4));
  cudaMalloc(&out, n * sizeof(float4));
  cudaMemcpy(in, h.data(), n * sizeof(float4), cudaMemcpyHostToDevice);
  reverse_tiles<<<n / 128, 128>>>(in, out);
  cudaError_t error = cudaMemcpy(back.data(), out, n * sizeof(float4), cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (int i = 0; i < n; i++) right &= back[i].w == h[i / 128 * 128 + 127 - i % 128].w;
  puts(right ? "right" : "WRONG");
  cudaFree(in);
  cudaFree(out);
}
