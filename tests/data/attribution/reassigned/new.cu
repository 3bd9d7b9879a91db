extern "C" __global__ void transpose(const float* in, float* out, int n) {
  int at = blockIdx.y * 32 + threadIdx.y;
  float v = in[at * n];
  at = blockIdx.x * 64 + threadIdx.x;
  out[at * n] = v;
}
