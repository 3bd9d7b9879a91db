/* ---
title = "Every element finds its rank in the other array"
[[launch]]
kernel = "ranks"
grid = ["cdiv(A, 256)"]
block = [256]
args = ["a", "A", "b", "B", "c", 0]
[[launch]]
kernel = "ranks"
grid = ["cdiv(B, 256)"]
block = [256]
args = ["b", "B", "a", "A", "c", 1]
--- */
static inline __device__ unsigned int lower_bound(const int *data, unsigned int n, int value, bool inclusive) {
  unsigned int lo = 0, len = n;
  while (len > 0) {
    unsigned int half = len / 2;
    int v = __ldg(data + lo + half);
    if (v < value || (inclusive && v == value)) {
      lo += half + 1;
      len -= half + 1;
    } else {
      len = half;
    }
  }
  return lo;
}

extern "C" __global__ void ranks(const int *mine, int n, const int *other, int m, int *c, int second) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = mine[i];
  unsigned int pos = i + lower_bound(other, m, v, second);
  c[pos] = v;
}
