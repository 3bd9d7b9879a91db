// The table is freed before the kernel that reads it is launched.
// Right: cudaFree(table) after the copy of the result.
// fault: out-of-bounds at line 8
#include <cstdio>

__global__ void look_up(const int* table, const int* keys, int* out) {
  int i = threadIdx.x;
  out[i] = table[keys[i]];
}

int main() {
  int h[256], *table, *keys, *out;
  for (int i = 0; i < 256; i++) h[i] = 255 - i;
  cudaMalloc(&table, sizeof h);
  cudaMalloc(&keys, sizeof h);
  cudaMalloc(&out, sizeof h);
  cudaMemcpy(table, h, sizeof h, cudaMemcpyHostToDevice);
  cudaMemcpy(keys, h, sizeof h, cudaMemcpyHostToDevice);
  cudaFree(table);
  look_up<<<1, 256>>>(table, keys, out);
  cudaError_t error = cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (int i = 0; i < 256; i++) right &= h[i] == i;
  puts(right ? "right" : "WRONG");
  cudaFree(keys);
  cudaFree(out);
}
