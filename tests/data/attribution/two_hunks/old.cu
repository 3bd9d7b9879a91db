extern "C" __global__ void twice(const float* in, float* out, int n) {
  __shared__ float tile[32][32];
  int lane = threadIdx.x;
  int row = threadIdx.y;
  tile[lane][row] = in[row * n];
  __syncthreads();
  out[row] = tile[row][0];
  out[row + n] = 1.0f;
  out[lane + 9 * n] = 2.0f;
}
