/* ---
title  = "wmma.load and wmma.store"
parent = ""
[[scratch]]
name  = "room"
dtype = "uint32"
shape = ["cdiv(n, 32) * 4096"]
[[launch]]
kernel = "probe"
grid   = ["cdiv(n, 32)"]
block  = [32]
args   = ["x", "at", "words", "y", "room"]
--- */
#include <cuda_fp16.h>

// Matrices whose element (r, c) is r + c / 16, with rows (or columns) `apart` elements apart.
#define PUT(T, p, apart, by_row) for (int w = lane; w < 256; w += 32) p[by_row ? w / 16 * (apart) + w % 16 : w % 16 * (apart) + w / 16] = (T)(w / 16 + w % 16 / 16.0f); __syncthreads();
#define WHOLE(v) { for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o); }
#define HALVES(r, times) { float v = 0; for (int e = 0; e < 4 * times; ++e) v += __low2float(*(__half2*)&r[e]) + __high2float(*(__half2*)&r[e]); WHOLE(v) bad += v != 2040.0f * times; __syncthreads(); }
#define FLOATS(r) { float v = 0; for (int e = 0; e < 8; ++e) v += r[e]; WHOLE(v) bad += v != 2040.0f; __syncthreads(); }

// Fragments of A and B hold each element twice.
#define OUT8(r) "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
#define OUT4(r) "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
#define OUTF(r) "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3]), "=f"(r[4]), "=f"(r[5]), "=f"(r[6]), "=f"(r[7])
#define IN4(r) "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
#define INF(r) "f"(r[0]), "f"(r[1]), "f"(r[2]), "f"(r[3]), "f"(r[4]), "f"(r[5]), "f"(r[6]), "f"(r[7])
#define EIGHT "{%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
#define FOUR "{%0, %1, %2, %3}, [%4], %5;"
#define AB(role, order, space, at, apart) asm volatile("wmma.load." role ".sync.aligned." order ".m16n16k16." space ".f16 " EIGHT : OUT8(f) : at, "r"(apart) : "memory");
#define C32(order, space, at, apart) asm volatile("wmma.load.c.sync.aligned." order ".m16n16k16." space ".f32 " EIGHT : OUTF(c) : at, "r"(apart) : "memory");
#define C16(order, space, at, apart) asm volatile("wmma.load.c.sync.aligned." order ".m16n16k16." space ".f16 " FOUR : OUT4(h) : at, "r"(apart) : "memory");
#define D32(order, space, at, apart) asm volatile("wmma.store.d.sync.aligned." order ".m16n16k16." space ".f32 [%8], {%0, %1, %2, %3, %4, %5, %6, %7}, %9;" ::INF(c), at, "r"(apart) : "memory");
#define D16(order, space, at, apart) asm volatile("wmma.store.d.sync.aligned." order ".m16n16k16." space ".f16 [%4], {%0, %1, %2, %3}, %5;" ::IN4(h), at, "r"(apart) : "memory");
#define HERE "r"(base)
#define THERE "l"(gf)

extern "C" __global__ void probe(const float* x, const volatile int* at, const unsigned* words, float* y,
                                 unsigned* room) {
    const int lane = threadIdx.x;
    int bad = 0;
    __shared__ __align__(128) unsigned s[4096];
    const unsigned base = (unsigned)__cvta_generic_to_shared(s);
    unsigned f[8], h[4];
    float c[8];
    __half* sh = (__half*)s;
    float* sf = (float*)s;
    float* gf = (float*)(room + blockIdx.x * 4096);
    __half* gh = (__half*)gf;
    PUT(__half, sh, 16, 1)
    AB("a", "row", "shared", HERE, 16)
    HALVES(f, 2)
    PUT(__half, sh, 16, 0)
    AB("a", "col", "shared", HERE, 16)
    HALVES(f, 2)
    PUT(__half, sh, 16, 1)
    AB("b", "row", "shared", HERE, 16)
    HALVES(f, 2)
    PUT(__half, sh, 16, 0)
    AB("b", "col", "shared", HERE, 16)
    HALVES(f, 2)
    PUT(__half, sh, 24, 1)
    AB("a", "row", "shared", HERE, 24)
    HALVES(f, 2)
    PUT(__half, sh, 24, 0)
    AB("a", "col", "shared", HERE, 24)
    HALVES(f, 2)
    PUT(__half, sh, 24, 1)
    AB("b", "row", "shared", HERE, 24)
    HALVES(f, 2)
    PUT(__half, sh, 24, 0)
    AB("b", "col", "shared", HERE, 24)
    HALVES(f, 2)
    PUT(__half, sh, 32, 1)
    AB("a", "row", "shared", HERE, 32)
    HALVES(f, 2)
    PUT(__half, sh, 32, 0)
    AB("a", "col", "shared", HERE, 32)
    HALVES(f, 2)
    PUT(__half, sh, 32, 1)
    AB("b", "row", "shared", HERE, 32)
    HALVES(f, 2)
    PUT(__half, sh, 32, 0)
    AB("b", "col", "shared", HERE, 32)
    HALVES(f, 2)
    PUT(__half, sh, 40, 1)
    AB("a", "row", "shared", HERE, 40)
    HALVES(f, 2)
    PUT(__half, sh, 40, 0)
    AB("a", "col", "shared", HERE, 40)
    HALVES(f, 2)
    PUT(__half, sh, 40, 1)
    AB("b", "row", "shared", HERE, 40)
    HALVES(f, 2)
    PUT(__half, sh, 40, 0)
    AB("b", "col", "shared", HERE, 40)
    HALVES(f, 2)
    PUT(__half, sh, 64, 1)
    AB("a", "row", "shared", HERE, 64)
    HALVES(f, 2)
    PUT(__half, sh, 64, 0)
    AB("a", "col", "shared", HERE, 64)
    HALVES(f, 2)
    PUT(__half, sh, 64, 1)
    AB("b", "row", "shared", HERE, 64)
    HALVES(f, 2)
    PUT(__half, sh, 64, 0)
    AB("b", "col", "shared", HERE, 64)
    HALVES(f, 2)
    PUT(__half, sh, 72, 1)
    AB("a", "row", "shared", HERE, 72)
    HALVES(f, 2)
    PUT(__half, sh, 72, 0)
    AB("a", "col", "shared", HERE, 72)
    HALVES(f, 2)
    PUT(__half, sh, 72, 1)
    AB("b", "row", "shared", HERE, 72)
    HALVES(f, 2)
    PUT(__half, sh, 72, 0)
    AB("b", "col", "shared", HERE, 72)
    HALVES(f, 2)
    PUT(float, sf, 16, 1)
    C32("row", "shared", HERE, 16)
    FLOATS(c)
    PUT(float, sf, 16, 0)
    C32("col", "shared", HERE, 16)
    FLOATS(c)
    PUT(float, sf, 20, 1)
    C32("row", "shared", HERE, 20)
    FLOATS(c)
    PUT(float, sf, 20, 0)
    C32("col", "shared", HERE, 20)
    FLOATS(c)
    PUT(float, sf, 32, 1)
    C32("row", "shared", HERE, 32)
    FLOATS(c)
    PUT(float, sf, 32, 0)
    C32("col", "shared", HERE, 32)
    FLOATS(c)
    PUT(float, sf, 36, 1)
    C32("row", "shared", HERE, 36)
    FLOATS(c)
    PUT(float, sf, 36, 0)
    C32("col", "shared", HERE, 36)
    FLOATS(c)
    PUT(float, sf, 64, 1)
    C32("row", "shared", HERE, 64)
    FLOATS(c)
    PUT(float, sf, 64, 0)
    C32("col", "shared", HERE, 64)
    FLOATS(c)
    PUT(float, sf, 68, 1)
    C32("row", "shared", HERE, 68)
    FLOATS(c)
    PUT(float, sf, 68, 0)
    C32("col", "shared", HERE, 68)
    FLOATS(c)
    PUT(__half, sh, 16, 1)
    C16("row", "shared", HERE, 16)
    HALVES(h, 1)
    PUT(__half, sh, 16, 0)
    C16("col", "shared", HERE, 16)
    HALVES(h, 1)
    PUT(__half, sh, 24, 1)
    C16("row", "shared", HERE, 24)
    HALVES(h, 1)
    PUT(__half, sh, 24, 0)
    C16("col", "shared", HERE, 24)
    HALVES(h, 1)
    PUT(__half, sh, 32, 1)
    C16("row", "shared", HERE, 32)
    HALVES(h, 1)
    PUT(__half, sh, 32, 0)
    C16("col", "shared", HERE, 32)
    HALVES(h, 1)
    PUT(__half, sh, 64, 1)
    C16("row", "shared", HERE, 64)
    HALVES(h, 1)
    PUT(__half, sh, 64, 0)
    C16("col", "shared", HERE, 64)
    HALVES(h, 1)
    PUT(__half, gh, 16, 1)
    AB("a", "row", "global", THERE, 16)
    HALVES(f, 2)
    PUT(__half, gh, 16, 0)
    AB("a", "col", "global", THERE, 16)
    HALVES(f, 2)
    PUT(__half, gh, 16, 1)
    AB("b", "row", "global", THERE, 16)
    HALVES(f, 2)
    PUT(__half, gh, 16, 0)
    AB("b", "col", "global", THERE, 16)
    HALVES(f, 2)
    PUT(__half, gh, 24, 1)
    AB("a", "row", "global", THERE, 24)
    HALVES(f, 2)
    PUT(__half, gh, 24, 0)
    AB("a", "col", "global", THERE, 24)
    HALVES(f, 2)
    PUT(__half, gh, 24, 1)
    AB("b", "row", "global", THERE, 24)
    HALVES(f, 2)
    PUT(__half, gh, 24, 0)
    AB("b", "col", "global", THERE, 24)
    HALVES(f, 2)
    PUT(__half, gh, 128, 1)
    AB("a", "row", "global", THERE, 128)
    HALVES(f, 2)
    PUT(__half, gh, 128, 0)
    AB("a", "col", "global", THERE, 128)
    HALVES(f, 2)
    PUT(__half, gh, 128, 1)
    AB("b", "row", "global", THERE, 128)
    HALVES(f, 2)
    PUT(__half, gh, 128, 0)
    AB("b", "col", "global", THERE, 128)
    HALVES(f, 2)
    PUT(float, gf, 16, 1)
    C32("row", "global", THERE, 16)
    FLOATS(c)
    PUT(float, gf, 16, 0)
    C32("col", "global", THERE, 16)
    FLOATS(c)
    PUT(float, gf, 20, 1)
    C32("row", "global", THERE, 20)
    FLOATS(c)
    PUT(float, gf, 20, 0)
    C32("col", "global", THERE, 20)
    FLOATS(c)
    PUT(float, gf, 128, 1)
    C32("row", "global", THERE, 128)
    FLOATS(c)
    PUT(float, gf, 128, 0)
    C32("col", "global", THERE, 128)
    FLOATS(c)
    PUT(__half, gh, 16, 1)
    C16("row", "global", THERE, 16)
    HALVES(h, 1)
    PUT(__half, gh, 16, 0)
    C16("col", "global", THERE, 16)
    HALVES(h, 1)
    PUT(__half, gh, 24, 1)
    C16("row", "global", THERE, 24)
    HALVES(h, 1)
    PUT(__half, gh, 24, 0)
    C16("col", "global", THERE, 24)
    HALVES(h, 1)
    // c and h keep the matrix; from here on it is stored in every way.
    PUT(__half, sh, 16, 1)
    C16("row", "shared", HERE, 16)
    __syncthreads();
    PUT(float, sf, 16, 1)
    C32("row", "shared", HERE, 16)
    __syncthreads();
    D32("row", "shared", HERE, 16)
    __syncthreads();
    bad += sf[lane / 16 * 16 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    D32("col", "shared", HERE, 16)
    __syncthreads();
    bad += sf[lane / 16 * 16 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    D32("row", "shared", HERE, 20)
    __syncthreads();
    bad += sf[lane / 16 * 20 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    D32("col", "shared", HERE, 20)
    __syncthreads();
    bad += sf[lane / 16 * 20 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    D32("row", "shared", HERE, 36)
    __syncthreads();
    bad += sf[lane / 16 * 36 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    D32("col", "shared", HERE, 36)
    __syncthreads();
    bad += sf[lane / 16 * 36 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    D32("row", "shared", HERE, 64)
    __syncthreads();
    bad += sf[lane / 16 * 64 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    D32("col", "shared", HERE, 64)
    __syncthreads();
    bad += sf[lane / 16 * 64 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    D16("row", "shared", HERE, 16)
    __syncthreads();
    bad += (float)sh[lane / 16 * 16 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    D16("col", "shared", HERE, 16)
    __syncthreads();
    bad += (float)sh[lane / 16 * 16 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    D16("row", "shared", HERE, 24)
    __syncthreads();
    bad += (float)sh[lane / 16 * 24 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    D16("col", "shared", HERE, 24)
    __syncthreads();
    bad += (float)sh[lane / 16 * 24 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    D16("row", "shared", HERE, 64)
    __syncthreads();
    bad += (float)sh[lane / 16 * 64 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    D16("col", "shared", HERE, 64)
    __syncthreads();
    bad += (float)sh[lane / 16 * 64 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    D32("row", "global", THERE, 16)
    __syncthreads();
    bad += gf[lane / 16 * 16 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    D32("col", "global", THERE, 16)
    __syncthreads();
    bad += gf[lane / 16 * 16 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    D32("row", "global", THERE, 128)
    __syncthreads();
    bad += gf[lane / 16 * 128 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    D32("col", "global", THERE, 128)
    __syncthreads();
    bad += gf[lane / 16 * 128 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    D16("row", "global", THERE, 16)
    __syncthreads();
    bad += (float)gh[lane / 16 * 16 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    D16("col", "global", THERE, 16)
    __syncthreads();
    bad += (float)gh[lane / 16 * 16 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    D16("row", "global", THERE, 24)
    __syncthreads();
    bad += (float)gh[lane / 16 * 24 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    D16("col", "global", THERE, 24)
    __syncthreads();
    bad += (float)gh[lane / 16 * 24 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    y[blockIdx.x * 32 + lane] = x[blockIdx.x * 32 + lane] + bad;
}
