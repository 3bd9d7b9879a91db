// Only the threads that have an element reach the first barrier; the others wait at the second
// (an H200 waits forever). Right: the barrier of line 13 outside of the branch.
// fault: barrier at line 13
#include <cstdio>
#include <vector>

__global__ void differences(const int* in, int* sums, int n) {
  __shared__ int tile[128], sum;
  int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x, difference = 0;
  if (t == 0) sum = 0;
  if (i < n) {
    tile[t] = in[i];
    __syncthreads();
    difference = tile[t] - (t ? tile[t - 1] : 0);
  }
  __syncthreads();
  atomicAdd(&sum, difference);
  __syncthreads();
  if (t == 0) sums[blockIdx.x] = sum;
}

int main() {
  const int n = 200;
  std::vector<int> h(n);
  for (int i = 0; i < n; i++) h[i] = 3 * i;
  int *in, *sums, result[2];
  cudaMalloc(&in, n * sizeof(int));
  cudaMalloc(&sums, sizeof result);
  cudaMemcpy(in, h.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  differences<<<2, 128>>>(in, sums, n);
  cudaError_t error = cudaMemcpy(result, sums, sizeof result, cudaMemcpyDeviceToHost);
  puts(error == cudaSuccess && result[0] == h[127] && result[1] == h[199] ? "right" : "WRONG");
  cudaFree(in);
  cudaFree(sums);
}
