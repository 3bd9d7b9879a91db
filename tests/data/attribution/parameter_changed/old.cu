template <int STEP>
__device__ float walk(const float* p, int at) {
  return p[at] + p[at + STEP];
}
extern "C" __global__ void steps(const float* a, const float* b, float* c, int n) {
  int i = threadIdx.x;
  float left = walk<1>(a, i);
  float right = walk<1>(b, i);
  c[i] = left;
  c[i + n] = right;
}
