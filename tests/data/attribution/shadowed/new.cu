struct Pair { float x; float y; };
extern "C" __global__ void mix(const Pair* in, float* out, int n) {
  int x = threadIdx.x * 2;
  int i = blockIdx.x;
  Pair p = in[i];
  out[i] = p.x + p.y;
  for (int x = 0; x < 4; ++x) {
    out[i + x] += 1.0f;
  }
  out[x] = 2.0f;
}
