// first try
extern "C" __global__ void add(const float* a, const float* b, float* c) {
  int i = threadIdx.x;  // one thread, one element
  /* the sum */
  c[i] = a[i] + b[i];
}
