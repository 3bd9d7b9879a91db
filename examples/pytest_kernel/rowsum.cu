// Sums of the rows of a matrix, a block a row: somebody's kernel, as it is.

template <int THREADS>
__global__ void row_sums(const float* __restrict__ a, float* __restrict__ sums, int columns) {
  __shared__ float part[THREADS];
  const float* row = a + (size_t)blockIdx.x * columns;
  float sum = 0.0f;
  for (int at = threadIdx.x; at < columns; at += THREADS) sum += row[at];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

template __global__ void row_sums<128>(const float*, float*, int);
