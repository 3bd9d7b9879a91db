// Right: bits change their type by a union, by intrinsics, by memcpy and through bytes; a
// structure with padding is copied whole.
#include <cstdio>
#include <cstring>

struct Padded {
  char tag;
  int value;
  short tail;
};
union Bits {
  float f;
  unsigned u;
  unsigned char b[4];
};

__global__ void cast(const float* in, Padded* boxes, const Padded* from) {
  int i = threadIdx.x;
  Bits bits;
  bits.f = in[i];
  bits.b[3] ^= 0x80;
  unsigned u = __float_as_uint(in[i]), v;
  memcpy(&v, &bits.f, 4);
  unsigned char last = reinterpret_cast<const unsigned char*>(in)[4 * i + 3];
  boxes[i] = from[i];
  boxes[i].value = u == (v ^ 0x80000000u) && last == u >> 24 ? int(-bits.f) : -1;
}

int main() {
  float h[32], *in;
  Padded p[32], *boxes, *from;
  memset(p, 0, sizeof p);
  for (int i = 0; i < 32; i++) h[i] = i + 0.25f, p[i].tag = 'a', p[i].tail = short(i);
  cudaMalloc(&in, sizeof h);
  cudaMalloc(&boxes, sizeof p);
  cudaMalloc(&from, sizeof p);
  cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
  cudaMemcpy(from, p, sizeof p, cudaMemcpyHostToDevice);
  cast<<<1, 32>>>(in, boxes, from);
  cudaError_t error = cudaMemcpy(p, boxes, sizeof p, cudaMemcpyDeviceToHost);
  bool right = error == cudaSuccess;
  for (int i = 0; i < 32; i++) right &= p[i].value == i && p[i].tag == 'a' && p[i].tail == i;
  puts(right ? "right" : "WRONG");
}
