// Right: a lock of atomicCAS and atomicExch with fences guards plain reads and writes, taken by
// every thread of every block.
#include <cstdio>

__global__ void deposit(int* lock, volatile long long* account, int amount) {
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0, 1) == 0) {
      __threadfence();
      account[0] = account[0] + amount;
      account[1] = account[1] + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

int main() {
  int* lock;
  long long h[2] = {}, *account;
  cudaMalloc(&lock, sizeof(int));
  cudaMalloc(&account, sizeof h);
  cudaMemset(lock, 0, sizeof(int));
  cudaMemset(account, 0, sizeof h);
  deposit<<<4, 64>>>(lock, account, 5);
  cudaError_t error = cudaMemcpy(h, account, sizeof h, cudaMemcpyDeviceToHost);
  puts(error == cudaSuccess && h[0] == 1280 && h[1] == 256 ? "right" : "WRONG");
}
