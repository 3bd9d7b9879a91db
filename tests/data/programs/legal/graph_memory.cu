// Right: memory that a graph allocates is freed outside of it, and allocated anew by its next launch.
#include <cstdio>

__global__ void fill(int* x, int n, const int* value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = i + *value;
}

__global__ void take(const int* x, int n, int* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}

int main() {
  const int n = 1000;
  static int h[n];
  int *value, *y, *captured;
  bool right = true;
  cudaMalloc(&value, sizeof *value);
  cudaMalloc(&y, sizeof h);
  cudaStream_t stream;
  cudaStreamCreate(&stream);

  cudaGraph_t graphs[2];
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  cudaMallocAsync(&captured, sizeof h, stream);
  fill<<<4, 256, 0, stream>>>(captured, n, value);
  cudaStreamEndCapture(stream, &graphs[0]);

  cudaMemAllocNodeParams memory = {};
  memory.poolProps.allocType = cudaMemAllocationTypePinned;
  memory.poolProps.location.type = cudaMemLocationTypeDevice;
  memory.bytesize = sizeof h;
  cudaGraphNode_t allocation, node;
  cudaGraphCreate(&graphs[1], 0);
  cudaGraphAddMemAllocNode(&allocation, graphs[1], nullptr, 0, &memory);
  int count = n;
  void* arguments[] = {&memory.dptr, &count, &value};
  cudaKernelNodeParams kernel = {};
  kernel.func = (void*)fill;
  kernel.gridDim = dim3(4), kernel.blockDim = dim3(256), kernel.kernelParams = arguments;
  cudaGraphAddKernelNode(&node, graphs[1], &allocation, 1, &kernel);

  int* arrays[] = {captured, (int*)memory.dptr};
  for (int which = 0; which < 2; which++) {
    cudaGraphExec_t launched;
    cudaGraphInstantiate(&launched, graphs[which], 0);
    for (int turn = 0; turn < 6; turn++) {
      cudaMemcpy(value, &turn, sizeof turn, cudaMemcpyHostToDevice);
      right &= cudaGraphLaunch(launched, stream) == cudaSuccess;
      take<<<4, 256, 0, stream>>>(arrays[which], n, y);
      right &= cudaStreamSynchronize(stream) == cudaSuccess;
      if (turn % 2) right &= cudaFree(arrays[which]) == cudaSuccess;
      else right &= cudaFreeAsync(arrays[which], stream) == cudaSuccess;
      cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
      for (int i = 0; i < n; i++) right &= h[i] == i + turn;
    }
    cudaGraphExecDestroy(launched);
  }
  puts(right ? "right" : "WRONG");
}
