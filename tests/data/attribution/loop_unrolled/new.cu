extern "C" __global__ void dot(const float* a, const float* b, float* out, int n) {
  int i = threadIdx.x;
  float acc = 0.f;
  for (int k = 0; k < n; k += 4) {
    acc += a[(k + 0) * 32 + i] * b[(k + 0) * 32 + i];
    acc += a[(k + 1) * 32 + i] * b[(k + 1) * 32 + i];
    acc += a[(k + 2) * 32 + i] * b[(k + 2) * 32 + i];
    acc += a[(k + 3) * 32 + i] * b[(k + 3) * 32 + i];
  }
  out[i] = acc;
}
