// Right: a kernel waits for a flag, which another stream copies beside other copies, or which the host
// writes beside other writes. The same launch comes again and again; it is not what wrote them.
#include <unistd.h>

#include <cstdio>

__global__ void wait(volatile int* flag, int* done) {
  while (*flag == 0) {
  }
  *done = 1;
}

int main() {
  const int turns = 8, zero = 0, one = 1, seven = 7;
  int *flag, *done, *other, *pinned, h = 0;
  bool right = true;
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaMalloc(&flag, sizeof(int));
  cudaMalloc(&done, sizeof(int));
  cudaMalloc(&other, sizeof(int));
  cudaMallocHost(&pinned, 2 * sizeof(int));
  for (int turn = 0; turn < turns; turn++) {
    for (int* each : {flag, done, other}) cudaMemcpy(each, &zero, sizeof zero, cudaMemcpyHostToDevice);
    cudaDeviceSynchronize();
    wait<<<1, 1, 0, streams[0]>>>(flag, done);
    usleep(20000);  // it waits now
    bool copies = turn < turns - 2;
    if (copies) cudaMemcpyAsync(other, &seven, sizeof seven, cudaMemcpyHostToDevice, streams[1]);
    cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, streams[1]);
    right &= cudaDeviceSynchronize() == cudaSuccess;
    cudaMemcpy(&h, other, sizeof h, cudaMemcpyDeviceToHost);
    right &= h == (copies ? seven : 0);
  }
  for (int turn = 0; turn < turns; turn++) {
    cudaMemcpy(done, &zero, sizeof zero, cudaMemcpyHostToDevice);
    pinned[0] = pinned[1] = 0;
    wait<<<1, 1, 0, streams[0]>>>(pinned, done);
    usleep(20000);
    if (turn < turns - 2) pinned[1] = seven;
    *(volatile int*)pinned = 1;
    right &= cudaDeviceSynchronize() == cudaSuccess;
    right &= pinned[1] == (turn < turns - 2 ? seven : 0);
  }
  puts(right ? "right" : "WRONG");
}
