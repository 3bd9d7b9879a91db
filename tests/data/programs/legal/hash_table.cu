// Right: products and sums of a hash wrap round in 32 bits, and are meant to; what is left of them is
// the index of a slot.
#include <cstdio>

__host__ __device__ unsigned hashed(unsigned key) {
  unsigned h = key * 2654435761u + 0x9e3779b9u;
  h ^= h >> 16;
  return h * 0x85ebca6bu;
}

__global__ void insert(unsigned* table, int slots, int keys) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= keys) return;
  unsigned key = i + 1;
  for (unsigned at = hashed(key); atomicCAS(&table[at % slots], 0u, key) != 0u; at++) {
  }
}

int main() {
  const int slots = 1 << 12, keys = 3000;
  static unsigned h[slots];
  unsigned* table;
  cudaMalloc(&table, sizeof h);
  cudaMemset(table, 0, sizeof h);
  insert<<<(keys + 255) / 256, 256>>>(table, slots, keys);
  bool right = cudaMemcpy(h, table, sizeof h, cudaMemcpyDeviceToHost) == cudaSuccess;
  int found = 0;
  for (int i = 0; i < slots; i++) found += h[i] != 0;
  puts(right && found == keys ? "right" : "WRONG");
  cudaFree(table);
}
