// Right: block 0 writes the data, a fence, then the flag; block 1 waits for the flag, a fence,
// then reads. Both blocks fit on the chip at once.
#include <cstdio>

__device__ volatile int ready;
__device__ int data[128];

__global__ void hand_over(int* out) {
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    data[t] = 3 * t;
    __threadfence();
    __syncthreads();
    if (t == 0) ready = 1;
  } else {
    if (t == 0)
      while (!ready) __nanosleep(100);
    __syncthreads();
    __threadfence();
    out[t] = *(volatile int*)&data[t];
  }
}

int main() {
  int h[128], *out;
  cudaMalloc(&out, sizeof h);
  hand_over<<<2, 128>>>(out);
  cudaError_t error = cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (int i = 0; i < 128; i++) right &= h[i] == 3 * i;
  puts(right ? "right" : "WRONG");
}
