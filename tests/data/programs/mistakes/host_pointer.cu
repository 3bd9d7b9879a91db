// The kernel is given the host's copy of the input, not the device's.
// Right: add_one<<<1, 256>>>(in, out).
// fault: out-of-bounds at line 8
#include <cstdio>
#include <cstdlib>

__global__ void add_one(const int* in, int* out) {
  out[threadIdx.x] = in[threadIdx.x] + 1;
}

int main() {
  const size_t bytes = 256 * sizeof(int);
  int *h = (int*)malloc(bytes), *in, *out;
  for (int i = 0; i < 256; i++) h[i] = i;
  cudaMalloc(&in, bytes);
  cudaMalloc(&out, bytes);
  cudaMemcpy(in, h, bytes, cudaMemcpyHostToDevice);
  add_one<<<1, 256>>>(h, out);
  cudaError_t error = cudaMemcpy(h, out, bytes, cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (int i = 0; i < 256; i++) right &= h[i] == i + 1;
  puts(right ? "right" : "WRONG");
  cudaFree(in);
  cudaFree(out);
  free(h);
}
