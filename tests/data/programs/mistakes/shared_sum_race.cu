// All threads of a block add to one shared variable with a plain addition.
// Right: atomicAdd(&sum, in[i]), or a reduction in a tree.
// fault: race at line 11
#include <cstdio>

__global__ void total(const int* in, int* out) {
  __shared__ int sum;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  sum += in[i];
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

int main() {
  int h[512], sums[2], *in, *out;
  for (int i = 0; i < 512; i++) h[i] = 1;
  cudaMalloc(&in, sizeof h);
  cudaMalloc(&out, sizeof sums);
  cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
  total<<<2, 256>>>(in, out);
  cudaError_t error = cudaMemcpy(sums, out, sizeof sums, cudaMemcpyDeviceToHost);
  puts(error == cudaSuccess && sums[0] == 256 && sums[1] == 256 ? "right" : "WRONG");
  cudaFree(in);
  cudaFree(out);
}
