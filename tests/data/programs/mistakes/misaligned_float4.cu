// Rows of 1025 floats are read four at a time: each row but the first begins off the 16 bytes
// that a float4 needs. Right: a pitch that four divides, or plain floats.
// fault: misaligned at line 9
#include <cstdio>
#include <vector>

__global__ void row_sums(const float* x, float* sums, int pitch, int n) {
  const float4* row = reinterpret_cast<const float4*>(x + blockIdx.x * pitch);
  float4 v = row[threadIdx.x];
  if (threadIdx.x < n / 4) atomicAdd(&sums[blockIdx.x], v.x + v.y + v.z + v.w);
}

int main() {
  const int rows = 4, n = 1024, pitch = n + 1;
  std::vector<float> h(rows * pitch, 1.0f);
  float *x, *sums, result[rows] = {};
  cudaMalloc(&x, h.size() * sizeof(float));
  cudaMalloc(&sums, sizeof result);
  cudaMemcpy(x, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemset(sums, 0, sizeof result);
  row_sums<<<rows, n / 4>>>(x, sums, pitch, n);
  cudaError_t error = cudaMemcpy(result, sums, sizeof result, cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (float v : result) right &= v == n;
  puts(right ? "right" : "WRONG");
  cudaFree(x);
  cudaFree(sums);
}
