// Right: lambdas inside of a kernel capture locals by value and by reference, are handed to a
// device function, and one of the host wraps a launch.
#include <cstdio>
#include <vector>

template <class Body>
__device__ void each(int n, Body body) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) body(i);
}

__global__ void work(const int* in, int* out, int n) {
  __shared__ int tile[300];
  int mine = 0;
  each(n, [=] (int i) { tile[i] = in[i] + 1; });
  __syncthreads();
  each(n, [&] (int i) { mine += tile[n - 1 - i]; });
  auto square = [](auto v) { return v * v; };
  out[threadIdx.x] = square(mine);
}

int main() {
  const int n = 300;
  std::vector<int> h(n), result(64);
  for (int i = 0; i < n; i++) h[i] = i;
  int *in, *out;
  cudaMalloc(&in, n * sizeof(int));
  cudaMalloc(&out, 64 * sizeof(int));
  cudaMemcpy(in, h.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  auto launch = [&](int threads) { work<<<1, threads>>>(in, out, n); return cudaGetLastError(); };
  bool right = launch(64) == cudaSuccess;
  right &= cudaMemcpy(result.data(), out, 64 * sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess;
  for (int t = 0; t < 64; t++) {
    int sum = 0;
    for (int i = t; i < n; i += 64) sum += h[n - 1 - i] + 1;
    right &= result[t] == sum * sum;
  }
  puts(right ? "right" : "WRONG");
}
