// A matrix of 3000 rows of 1 MiB is larger than an int can index: row * pitch wraps round to a
// negative number from row 2048 on. Right: size_t at = (size_t)row * pitch.
// fault: out-of-bounds at line 10
// says: integer overflow: the index 2,048 × 1,048,576 = 2,147,483,648 becomes -2,147,483,648
#include <cstdio>

__global__ void mark_rows(unsigned char* matrix, unsigned pitch, unsigned rows) {
  unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
  int at = row * pitch;
  if (row < rows) matrix[at] = row % 251;
}

int main() {
  const size_t pitch = 1 << 20, rows = 3000;
  static unsigned char h[rows];
  unsigned char* matrix;
  if (cudaMalloc(&matrix, pitch * rows) != cudaSuccess) return puts("no memory"), 2;
  mark_rows<<<(rows + 255) / 256, 256>>>(matrix, pitch, rows);
  cudaError_t error = cudaMemcpy2D(h, 1, matrix, pitch, 1, rows, cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (size_t i = 0; i < rows; i++) right &= h[i] == i % 251;
  puts(right ? "right" : "WRONG");
  cudaFree(matrix);
}
