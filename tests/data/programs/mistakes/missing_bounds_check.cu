// The last block is only partly needed, and no thread asks whether its element exists.
// Right: if (i < n) before the access.
// fault: out-of-bounds at line 9
#include <cstdio>
#include <vector>

__global__ void square(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] *= x[i];
}

int main() {
  const int n = 1000;
  std::vector<float> h(n, 3.0f);
  float* d;
  cudaMalloc(&d, n * sizeof(float));
  cudaMemcpy(d, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  square<<<(n + 255) / 256, 256>>>(d, n);
  cudaError_t error = cudaMemcpy(h.data(), d, n * sizeof(float), cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (float v : h) right &= v == 9.0f;
  puts(right ? "right" : "WRONG");
  cudaFree(d);
}
