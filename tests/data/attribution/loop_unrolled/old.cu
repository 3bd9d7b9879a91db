extern "C" __global__ void dot(const float* a, const float* b, float* out, int n) {
  int i = threadIdx.x;
  float acc = 0.f;
  for (int k = 0; k < n; k += 1) {
    acc += a[k * 32 + i] * b[k * 32 + i];
  }
  out[i] = acc;
}
