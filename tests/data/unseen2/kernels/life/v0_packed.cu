/* ---
title = "Bit-sliced sums of 32 cells"
[[launch]]
kernel = "life"
grid = ["cdiv(W * H, 128)"]
block = [128]
args = ["cells", "next", "W", "H"]
--- */
typedef unsigned int word;
__device__ void full_add(word a, word b, word c, word &sum, word &carry)
{
    word x = a ^ b;
    sum = x ^ c;
    carry = (a & b) | (x & c);
}
__device__ void shifted(const word *row, int x, int w, word &l, word &c, word &r)
{
    word before = row[x == 0 ? w - 1 : x - 1], after = row[x == w - 1 ? 0 : x + 1];
    c = row[x];
    l = __funnelshift_l(before, c, 1);
    r = __funnelshift_r(c, after, 1);
}
extern "C" __global__ void life(const word *in, word *out, int w, int h)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= w * h) return;
    int x = i % w, y = i / w;
    word al, ac, ar, l, c, r, bl, bc, br;
    shifted(in + (y + h - 1) % h * w, x, w, al, ac, ar);
    shifted(in + y * w, x, w, l, c, r);
    shifted(in + (y + 1) % h * w, x, w, bl, bc, br);
    word s0, c0, s1, c1, s2, c2, t0, t1, t2;
    full_add(al, ac, ar, s0, c0);
    full_add(bl, bc, br, s1, c1);
    s2 = l ^ r;
    c2 = l & r;
    word ones, k;
    full_add(s0, s1, s2, ones, k);
    full_add(c0, c1, c2, t0, t1);
    word twos = t0 ^ k;
    t2 = t0 & k;
    word fours = t1 | t2;
    out[i] = ~fours & twos & (ones | c);
}
