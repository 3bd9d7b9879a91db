// Right: constant memory has a value from the source, is set as a whole and from an offset on, and
// a later launch sees what was set before it.
#include <cstdio>

__constant__ int table[16] = {1, 2, 3};
__constant__ struct {
  float scale;
  int shift;
} how = {2.0f, 1};

__global__ void look(int* out) {
  out[threadIdx.x] = int(how.scale * table[threadIdx.x % 16]) + how.shift;
}

int main() {
  int h[32], *out;
  cudaMalloc(&out, sizeof h);
  look<<<1, 32>>>(out);
  bool right = cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost) == cudaSuccess;
  for (int i = 0; i < 32; i++) right &= h[i] == (i % 16 < 3 ? 2 * (i % 16 + 1) : 0) + 1;
  int tail[4] = {40, 41, 42, 43};
  right &= cudaMemcpyToSymbol(table, tail, sizeof tail, 12 * sizeof(int)) == cudaSuccess;
  look<<<1, 32>>>(out);
  int all[16];
  cudaMemcpyFromSymbol(all, table, sizeof all);
  right &= cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost) == cudaSuccess;
  right &= h[0] == 3 && h[5] == 1 && h[12] == 81 && h[31] == 87 && all[2] == 3 && all[13] == 41;
  puts(right ? "right" : "WRONG");
}
