/* ---
title = "Loops with several ways back to one head"
change = "One way back beside one that may leave; two that may both leave; three ways."

[[launch]]
kernel = "loops"
grid   = ["n // 128"]
block  = [128]
args   = ["x", "y"]
--- */
extern "C" __global__ void loops(const unsigned* x, volatile unsigned* y) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  const unsigned all = x[i];
  unsigned v = all & 0x7ffffff;
  while (true) {  // a search that goes down as far as it can, and then leaves or comes up
    if (v & 1) {
      v >>= 1;
      y[i] = all;
    } else {
      v >>= 1;
      if (v == 0) break;
      y[i] = all;
    }
  }
  v = all;
  while (true) {
    if (v & 1) {
      v >>= 1;
      if (v == 0) break;
      y[i] = all;
    } else {
      v >>= 1;
      if (v == 0) break;
      y[i] = all;
    }
  }
  v = all;
  while (true) {
    const unsigned k = v & 3;
    v >>= 2;
    if (k == 0) {
      y[i] = all;
    } else if (k == 1) {
      y[i] = all;
    } else {
      if (v == 0) break;
      y[i] = all;
    }
  }
}
