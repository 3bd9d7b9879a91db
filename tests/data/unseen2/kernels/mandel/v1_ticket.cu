/* ---
title = "Warps fetch pixels from a counter, as the CUDA sample does for blocks"
flags = ["-fmad=false"]
[[scratch]]
name = "next"
dtype = "uint32"
shape = [1]
[[fill]]
name = "next"
value = 0
[[launch]]
kernel = "mandel"
grid = [4]
block = [32, 4]
args = ["n", "W", "H", "T", "next"]
--- */
template <class T>
__device__ inline int CalcMandelbrot(const T xPos, const T yPos, const int crunch) {
  T x, y, xx, yy;
  int i = crunch;
  xx = yy = x = y = 0;
  do {
    T t = xx - yy + xPos;
    y = (x * y + x * y) + yPos;
    x = t;
    yy = y * y;
    xx = x * x;
  } while (--i && (xx + yy < T(4.0)));
  return crunch - i + 0;
}

extern "C" __global__ void mandel(int *dst, const int w, const int h, const int crunch, unsigned *counter) {
  for (;;) {
    unsigned first;
    if (threadIdx.x == 0) first = atomicAdd(counter, 32);
    first = __shfl_sync(0xffffffff, first, 0);
    if (first >= w * h) break;
    unsigned i = first + threadIdx.x;
    if (i < w * h) {
      double cx = (double)(i % w) * (3.0 / 128) - 2.0;
      double cy = (double)(i / w) * (1.0 / 32) - 1.0;
      dst[i] = CalcMandelbrot<double>(cx, cy, crunch);
    }
  }
}
