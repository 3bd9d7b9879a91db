// Right: kernels are templates over types, sizes and functors; several of one name are launched,
// and a static shared array has another size in each.
#include <cstdio>
#include <vector>

struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const { return a < b ? b : a; }
};
struct Plus {
  int times;
  template <class T>
  __device__ T operator()(T a, T b) const { return a + b * T(times); }
};

template <class T, int N, class Op>
__global__ void fold(const T* in, T* out, Op op) {
  __shared__ T tile[N];
  int t = threadIdx.x;
  tile[t] = in[blockIdx.x * N + t];
  __syncthreads();
#pragma unroll
  for (int s = N / 2; s; s /= 2) {
    if (t < s) tile[t] = op(tile[t], tile[t + s]);
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = tile[0];
}

template <class T, int N, class Op>
std::vector<T> folded(const std::vector<T>& h, Op op) {
  std::vector<T> result(h.size() / N);
  T *in, *out;
  cudaMalloc(&in, h.size() * sizeof(T));
  cudaMalloc(&out, result.size() * sizeof(T));
  cudaMemcpy(in, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice);
  fold<T, N><<<result.size(), N>>>(in, out, op);
  cudaMemcpy(result.data(), out, result.size() * sizeof(T), cudaMemcpyDeviceToHost);
  cudaFree(in);
  cudaFree(out);
  return result;
}

int main() {
  std::vector<int> ints(512);
  std::vector<double> doubles(512);
  for (int i = 0; i < 512; i++) ints[i] = (i * 37) % 512, doubles[i] = i;
  auto top = folded<int, 128>(ints, Max{});
  auto sum = folded<double, 256>(doubles, Plus{1});
  auto odd = folded<int, 2>(ints, Plus{3});
  bool right = cudaGetLastError() == cudaSuccess;
  for (int b = 0; b < 4; b++) {
    int most = 0;
    for (int i = 0; i < 128; i++) most = ints[b * 128 + i] > most ? ints[b * 128 + i] : most;
    right &= top[b] == most;
  }
  right &= sum[0] == 32640 && sum[1] == 98176;
  for (int i = 0; i < 256; i++) right &= odd[i] == ints[2 * i] + 3 * ints[2 * i + 1];
  puts(right ? "right" : "WRONG");
}
