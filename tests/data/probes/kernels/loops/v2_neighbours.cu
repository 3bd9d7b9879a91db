/* ---
title = "Words that a wider access proves neighbours"
change = "Pairs and fours of words that are loaded and stored one by one, beside a vector at the same base."

[[launch]]
kernel = "neighbours"
grid   = ["n // 512"]
block  = [128]
args   = ["x", "y", "n"]
--- */
__device__ __forceinline__ void put(unsigned* p, unsigned v) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
extern "C" __global__ void neighbours(const unsigned* x, unsigned* y, int n) {
  const int i = (blockIdx.x * 128 + threadIdx.x) * 4;
  const unsigned a = x[i], b = x[i + 1];
  uint2 c;
  asm("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(c.x), "=r"(c.y) : "l"(x + i + 2));
  unsigned* out = y + i;
  *reinterpret_cast<uint2*>(out + 2) = c;
  put(out, a);
  put(out + 1, b);
}
