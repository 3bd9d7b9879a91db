#define TILE 16
extern "C" __global__ void tile_sum(const float* in, float* out, int n) {
  __shared__ float s[TILE][TILE];
  int x = blockIdx.x * TILE + threadIdx.x;
  int y = threadIdx.y;
  s[y][threadIdx.x] = in[x];
  __syncthreads();
  float sum = 0.f;
  for (int k = 0; k < TILE; ++k)
    sum += s[y][k];
  out[x] = sum;
}
