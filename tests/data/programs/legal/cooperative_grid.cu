// Right: a cooperative launch; blocks read each other's partial sums after a barrier of the grid.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <vector>
namespace cg = cooperative_groups;

__global__ void normalise(float* x, float* partial, int n) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  __shared__ float sums[32];
  float sum = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i];
  sum = cg::reduce(warp, sum, cg::plus<float>());
  if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = sum;
  block.sync();
  if (block.thread_rank() == 0) {
    float all = 0;
    for (unsigned w = 0; w < warp.meta_group_size(); w++) all += sums[w];
    partial[blockIdx.x] = all;
  }
  grid.sync();
  float all = 0;
  for (unsigned b = 0; b < gridDim.x; b++) all += partial[b];
  for (int i = grid.thread_rank(); i < n; i += grid.size()) x[i] /= all;
}

int main() {
  int n = 4096;
  std::vector<float> h(n, 2.0f);
  float *x, *partial;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&partial, 8 * sizeof(float));
  cudaMemcpy(x, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  void* args[] = {&x, &partial, &n};
  cudaLaunchCooperativeKernel((void*)normalise, dim3(8), dim3(128), args, 0, 0);
  cudaError_t error = cudaMemcpy(h.data(), x, n * sizeof(float), cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (float v : h) right &= v == 1.0f / 4096;
  puts(right ? "right" : "WRONG");
}
