// Right: the grid covers the array exactly, so no thread asks for its bound; blocks have the
// largest size, and a shared tile of 48 KiB is filled to its last byte.
#include <cstdio>
#include <vector>

__global__ void __launch_bounds__(1024) rotate(const int* in, int* out) {
  __shared__ int tile[12 * 1024];
  int t = threadIdx.x, base = blockIdx.x * 12 * 1024;
  for (int k = 0; k < 12; k++) tile[k * 1024 + t] = in[base + k * 1024 + t];
  __syncthreads();
  for (int k = 0; k < 12; k++) out[base + k * 1024 + t] = tile[(k * 1024 + t + 12 * 1024 - 1) % (12 * 1024)];
}

int main() {
  const int blocks = 5, n = blocks * 12 * 1024;
  std::vector<int> h(n);
  for (int i = 0; i < n; i++) h[i] = i;
  int *in, *out;
  cudaMalloc(&in, n * sizeof(int));
  cudaMalloc(&out, n * sizeof(int));
  cudaMemcpy(in, h.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  rotate<<<blocks, 1024>>>(in, out);
  cudaError_t error = cudaMemcpy(h.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (int i = 0; i < n; i++) right &= h[i] == (i % 12288 ? i - 1 : i + 12287);
  puts(right ? "right" : "WRONG");
}
