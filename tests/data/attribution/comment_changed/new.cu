// second try,
// with more words
extern "C" __global__ void add(const float* a, const float* b, float* c) {
  int i = threadIdx.x;  // a thread owns one element
      c[i] = a[i]+b[i];
}
