// Blocks add up into memory from cudaMalloc that nothing has set.
// Right: cudaMemset(sum, 0, sizeof(float)) before the launch.
// fault: uninitialized at line 9
#include <cstdio>
#include <vector>

__global__ void total(const float* x, float* sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(sum, x[i]);
}

int main() {
  const int n = 1000;
  std::vector<float> h(n, 1.0f);
  float *x, *sum, result = 0;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&sum, sizeof(float));
  cudaMemcpy(x, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  total<<<(n + 255) / 256, 256>>>(x, sum, n);
  cudaError_t error = cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost);
  puts(error == cudaSuccess && result == n ? "right" : "WRONG");
  cudaFree(x);
  cudaFree(sum);
}
