// Right: fewer threads than elements; each strides over the grid, in 64 bits, and the last round
// is only partly filled.
#include <cstdio>
#include <vector>

__global__ void axpy(size_t n, float a, const float* x, float* y) {
  size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
    y[i] += a * x[i];
}

int main() {
  const size_t n = 100003;
  std::vector<float> x(n), y(n, 1.0f);
  for (size_t i = 0; i < n; i++) x[i] = i % 1000;
  float *dx, *dy;
  cudaMalloc(&dx, n * sizeof(float));
  cudaMalloc(&dy, n * sizeof(float));
  cudaMemcpy(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(dy, y.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  axpy<<<7, 96>>>(n, 2.0f, dx, dy);
  cudaError_t error = cudaMemcpy(y.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (size_t i = 0; i < n; i++) right &= y[i] == 1.0f + 2.0f * (i % 1000);
  puts(right ? "right" : "WRONG");
}
