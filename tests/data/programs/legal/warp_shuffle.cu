// Right: lanes exchange registers, also in halves of a warp and under a mask of the lanes that
// came; no memory is shared, so no barrier is needed.
#include <cstdio>

__global__ void sums(const int* in, int* whole, int* halves, int* some) {
  int t = threadIdx.x, lane = t % 32, v = in[t], h = v;
  for (int d = 16; d; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
  for (int d = 8; d; d /= 2) h += __shfl_xor_sync(0xffffffffu, h, d, 16);
  if (lane == 0) whole[t / 32] = v;
  if (lane % 16 == 0) halves[t / 16] = h;
  if (t < 40) {
    unsigned came = __ballot_sync(__activemask(), true);
    int first = __shfl_sync(came, in[t], __ffs(came) - 1);
    some[t] = first * 100 + __popc(came & ((1u << lane) - 1));
  }
}

int main() {
  int h[64], whole[2], halves[4], some[40], *in, *w, *q, *s;
  for (int i = 0; i < 64; i++) h[i] = i;
  cudaMalloc(&in, sizeof h);
  cudaMalloc(&w, sizeof whole);
  cudaMalloc(&q, sizeof halves);
  cudaMalloc(&s, sizeof some);
  cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
  sums<<<1, 64>>>(in, w, q, s);
  cudaMemcpy(whole, w, sizeof whole, cudaMemcpyDeviceToHost);
  cudaMemcpy(halves, q, sizeof halves, cudaMemcpyDeviceToHost);
  cudaError_t error = cudaMemcpy(some, s, sizeof some, cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess && whole[0] == 496 && whole[1] == 1520;
  for (int i = 0; i < 4; i++) right &= halves[i] == 120 + 256 * i;
  for (int i = 0; i < 40; i++) right &= some[i] == (i / 32 * 32) * 100 + i % 32;
  puts(right ? "right" : "WRONG");
}
