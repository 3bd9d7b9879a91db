// cudaMemcpy is given the number of elements where it wants bytes, so three quarters of the
// input never arrive. Right: n * sizeof(float) in line 18.
// fault: uninitialized at line 9
#include <cstdio>
#include <vector>

__global__ void scale(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2.0f * in[i];
}

int main() {
  const int n = 4096;
  std::vector<float> h(n, 1.0f);
  float *in, *out;
  cudaMalloc(&in, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMemcpy(in, h.data(), n, cudaMemcpyHostToDevice);
  scale<<<n / 256, 256>>>(in, out, n);
  cudaError_t error = cudaMemcpy(h.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (float v : h) right &= v == 2.0f;
  puts(right ? "right" : "WRONG");
  cudaFree(in);
  cudaFree(out);
}
