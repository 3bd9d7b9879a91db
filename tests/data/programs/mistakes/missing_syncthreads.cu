// Each thread reads what a thread of another warp wrote, without a barrier between.
// Right: __syncthreads() between line 9 and line 10.
// fault: race at line 10
#include <cstdio>

__global__ void reverse(const int* in, int* out) {
  __shared__ int tile[256];
  int t = threadIdx.x;
  tile[t] = in[t];
  out[t] = tile[255 - t];
}

int main() {
  int h[256], *in, *out;
  for (int i = 0; i < 256; i++) h[i] = i;
  cudaMalloc(&in, sizeof h);
  cudaMalloc(&out, sizeof h);
  cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
  reverse<<<1, 256>>>(in, out);
  cudaError_t error = cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (int i = 0; i < 256; i++) right &= h[i] == 255 - i;
  puts(right ? "right" : "WRONG");
  cudaFree(in);
  cudaFree(out);
}
