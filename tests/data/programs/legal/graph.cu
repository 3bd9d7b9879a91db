// Right: work of two streams is captured, runs only when the graph is launched, as often as it is
// launched, and with another argument after its node was changed.
#include <cstdio>

__global__ void add(int* x, int value) { x[threadIdx.x] += value; }

int main() {
  int h[64], *x;
  cudaMalloc(&x, sizeof h);
  cudaMemset(x, 0, sizeof h);
  cudaStream_t s;
  cudaStreamCreate(&s);
  cudaGraph_t graph;
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  add<<<1, 64, 0, s>>>(x, 5);
  cudaStreamEndCapture(s, &graph);
  cudaGraphExec_t run;
  bool right = cudaGraphInstantiate(&run, graph, 0) == cudaSuccess;
  cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
  right &= h[0] == 0 && h[63] == 0;
  for (int i = 0; i < 3; i++) cudaGraphLaunch(run, s);
  size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  right &= nodes == 1;
  cudaGraphNode_t node;
  nodes = 1;
  cudaGraphGetNodes(graph, &node, &nodes);
  cudaKernelNodeParams params = {};
  cudaGraphKernelNodeGetParams(node, &params);
  int value = 100;
  void* args[] = {&x, &value};
  params.kernelParams = args;
  right &= cudaGraphExecKernelNodeSetParams(run, node, &params) == cudaSuccess;
  cudaGraphLaunch(run, s);
  right &= cudaStreamSynchronize(s) == cudaSuccess;
  cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
  for (int v : h) right &= v == 115;
  puts(right ? "right" : "WRONG");
  cudaGraphExecDestroy(run);
  cudaGraphDestroy(graph);
}
