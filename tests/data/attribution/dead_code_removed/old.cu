extern "C" __global__ void clamp01(const float* in, float* out, int n) {
  int i = threadIdx.x;
  float unused = in[i] * 2.0f;
  unused = unused + 1.0f;
  float v = in[i];
  out[i] = fminf(fmaxf(v, 0.0f), 1.0f);
}
