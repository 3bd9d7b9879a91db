// Right: two streams that do not block work on one array; events order them, and one says how
// long it took. A query that is not ready leaves an error behind, which is taken away.
#include <cstdio>
#include <vector>

__global__ void twice(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}
__global__ void more(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}

int main() {
  const int n = 5000;
  int *h, *x;
  cudaMallocHost(&h, n * sizeof(int));
  for (int i = 0; i < n; i++) h[i] = i;
  cudaMalloc(&x, n * sizeof(int));
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEvent_t begin, ready, back;
  cudaEventCreate(&begin);
  cudaEventCreate(&back);
  cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
  cudaEventRecord(begin, a);
  cudaMemcpyAsync(x, h, n * sizeof(int), cudaMemcpyHostToDevice, a);
  twice<<<(n + 127) / 128, 128, 0, a>>>(x, n);
  cudaEventRecord(ready, a);
  cudaStreamWaitEvent(b, ready, 0);
  more<<<(n + 127) / 128, 128, 0, b>>>(x, n);
  cudaEventRecord(ready, b);
  cudaStreamWaitEvent(a, ready, 0);
  twice<<<(n + 127) / 128, 128, 0, a>>>(x, n);
  cudaMemcpyAsync(h, x, n * sizeof(int), cudaMemcpyDeviceToHost, a);
  cudaEventRecord(back, a);
  while (cudaEventQuery(back) == cudaErrorNotReady) cudaGetLastError();
  float ms = -1;
  bool right = cudaEventElapsedTime(&ms, begin, back) == cudaSuccess && ms >= 0;
  for (int i = 0; i < n; i++) right &= h[i] == 2 * (2 * i + 1);
  right &= cudaGetLastError() == cudaSuccess;
  puts(right ? "right" : "WRONG");
}
