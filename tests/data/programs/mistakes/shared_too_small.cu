// The tile has room for the block's elements, and none for the neighbour on the left.
// Right: __shared__ float tile[128 + 1].
// fault: out-of-bounds at line 10
#include <cstdio>
#include <vector>

__global__ void pair_sums(const float* in, float* out) {
  __shared__ float tile[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x + 1;
  tile[t] = in[i];
  if (threadIdx.x == 0) tile[0] = i ? in[i - 1] : 0.0f;
  __syncthreads();
  out[i] = tile[t] + tile[t - 1];
}

int main() {
  const int n = 512;
  std::vector<float> h(n, 1.0f);
  float *in, *out;
  cudaMalloc(&in, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMemcpy(in, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  pair_sums<<<n / 128, 128>>>(in, out);
  cudaError_t error = cudaMemcpy(h.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess && h[0] == 1.0f;
  for (int i = 1; i < n; i++) right &= h[i] == 2.0f;
  puts(right ? "right" : "WRONG");
  cudaFree(in);
  cudaFree(out);
}
