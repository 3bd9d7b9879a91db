// Row-wise softmax of a matrix of floats: one block a row, three passes over it.
#include <cuda_runtime.h>

constexpr int THREADS = 256;

template <typename Combine>
__device__ float reduce(float value, Combine combine) {
  __shared__ float partial[THREADS];
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      partial[threadIdx.x] = combine(partial[threadIdx.x], partial[threadIdx.x + half]);
    __syncthreads();
  }
  const float result = partial[0];
  __syncthreads();
  return result;
}

__global__ void softmax_rows(const float *in, float *out, int columns) {
  const float *row = in + (size_t)blockIdx.x * columns;
  float *result = out + (size_t)blockIdx.x * columns;
  const int share = (columns + THREADS - 1) / THREADS;
  const int first = threadIdx.x * share, last = min(first + share, columns), step = 1;

  float most = -INFINITY;
  for (int i = first; i < last; i += step) most = fmaxf(most, row[i]);
  most = reduce(most, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0.0f;
  for (int i = first; i < last; i += step) sum += __expf(row[i] - most);
  sum = reduce(sum, [](float a, float b) { return a + b; });

  for (int i = first; i < last; i += step) result[i] = __expf(row[i] - most) / sum;
}

void softmax_launch(const float *in, float *out, int rows, int columns, cudaStream_t stream) {
  softmax_rows<<<rows, THREADS, 0, stream>>>(in, out, columns);
}
