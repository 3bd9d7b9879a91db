// Right: nothing is allocated, copied and set; a grid without blocks is refused with an error that
// does not last, and a launch whose threads all return at once does nothing.
#include <cstdio>

__global__ void fill(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  x[i] = i;
}

int main() {
  int *none = (int*)1, *x, h[4] = {7, 7, 7, 7};
  bool right = cudaMalloc(&none, 0) == cudaSuccess && none == nullptr;
  right &= cudaFree(nullptr) == cudaSuccess;
  cudaMalloc(&x, sizeof h);
  cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
  right &= cudaMemcpy(x, h, 0, cudaMemcpyHostToDevice) == cudaSuccess;
  right &= cudaMemset(x, 0, 0) == cudaSuccess;
  fill<<<0, 128>>>(x, 0);
  right &= cudaGetLastError() == cudaErrorInvalidValue;  // as an H200 says with CUDA 13
  right &= cudaGetLastError() == cudaSuccess;
  fill<<<1, 128>>>(nullptr, 0);
  fill<<<1, 128>>>(x, 2);
  right &= cudaDeviceSynchronize() == cudaSuccess;
  right &= cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost) == cudaSuccess;
  puts(right && h[0] == 0 && h[1] == 1 && h[2] == 7 && h[3] == 7 ? "right" : "WRONG");
  cudaFree(x);
}
