// Right: a running kernel polls pinned memory that the host writes after the launch, and answers
// there; the host polls the answer.
#include <cstdio>

__global__ void serve(volatile int* request, volatile int* answer) {
  for (int round = 1; round <= 3; round++) {
    while (*request < round) __nanosleep(1000);
    int value = request[1];
    __threadfence_system();
    answer[1] = value * value;
    __threadfence_system();
    answer[0] = round;
  }
}

int main() {
  volatile int *request, *answer;
  cudaHostAlloc((void**)&request, 2 * sizeof(int), cudaHostAllocMapped);
  cudaHostAlloc((void**)&answer, 2 * sizeof(int), cudaHostAllocMapped);
  request[0] = request[1] = answer[0] = answer[1] = 0;
  serve<<<1, 1>>>(request, answer);
  bool right = true;
  for (int round = 1; round <= 3; round++) {
    request[1] = 10 + round;
    __sync_synchronize();
    request[0] = round;
    while (answer[0] < round) {
    }
    __sync_synchronize();
    right &= answer[1] == (10 + round) * (10 + round);
  }
  right &= cudaDeviceSynchronize() == cudaSuccess;
  puts(right ? "right" : "WRONG");
  cudaFreeHost((void*)request);
  cudaFreeHost((void*)answer);
}
