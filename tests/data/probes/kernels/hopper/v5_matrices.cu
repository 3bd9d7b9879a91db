/* ---
title = "stmatrix of one, two and four matrices, with and without conflicts; elect and setmaxnreg"
arch_specific = true
[[launch]]
kernel = "probe"
grid   = [1]
block  = [128]
args   = ["x", "y"]
--- */
#include "async.cuh"

// Row l of the matrices goes to 16-byte place `place`; afterwards lane l has element pairs of row l / 4.
#define PUT1(how, place) asm volatile("stmatrix.sync.aligned.m8n8.x1" how ".shared.b16 [%0], {%1};" ::"r"(base + 16 * (place)), "r"(v[0]) : "memory");
#define PUT2(how, place) asm volatile("stmatrix.sync.aligned.m8n8.x2" how ".shared.b16 [%0], {%1, %2};" ::"r"(base + 16 * (place)), "r"(v[0]), "r"(v[1]) : "memory");
#define PUT4(how, place) asm volatile("stmatrix.sync.aligned.m8n8.x4" how ".shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(base + 16 * (place)), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
#define BACK(matrices, placed) __syncwarp(); for (int m = 0; m < matrices; ++m) { int l = m * 8 + lane / 4; bad += w[(placed) * 4 + lane % 4] != v[m]; } __syncwarp();
#define TURNED(matrices, placed) __syncwarp(); for (int m = 0; m < matrices; ++m) for (int e = 0; e < 2; ++e) { int l = m * 8 + lane % 4 * 2 + e; bad += reinterpret_cast<const unsigned short *>(w)[(placed) * 8 + lane / 4] != (unsigned short)(v[m] >> 16 * e); } __syncwarp();

extern "C" __global__ void __launch_bounds__(128, 1) probe(const float *x, float *y) {
    __shared__ __align__(128) unsigned s[4][1024];
    const int lane = threadIdx.x % 32, l = lane;
    unsigned *const w = s[threadIdx.x / 32];
    const unsigned base = at(w);
    unsigned v[4];
    int bad = 0, chosen;
    for (int m = 0; m < 4; ++m) v[m] = (m * 64 + lane * 2) | (m * 64 + lane * 2 + 1) << 16;
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 64;");
    PUT1("", l % 8)
    BACK(1, l)
    PUT1("", l % 8 * 8)
    BACK(1, l * 8)
    PUT1("", l % 8 * 2)
    BACK(1, l * 2)
    PUT2("", l % 16)
    BACK(2, l)
    PUT2("", l % 16 * 8)
    BACK(2, l * 8)
    PUT4("", l)
    BACK(4, l)
    PUT4("", l * 8)
    BACK(4, l * 8)
    PUT4("", l * 4)
    BACK(4, l * 4)
    PUT4("", l * 5)
    BACK(4, l * 5)
    PUT4("", l % 8 * 8 + (l / 8 ^ l % 8))
    BACK(4, l % 8 * 8 + (l / 8 ^ l % 8))
    PUT1(".trans", l % 8)
    TURNED(1, l)
    PUT4(".trans", l)
    TURNED(4, l)
    PUT4(".trans", l * 8)
    TURNED(4, l * 8)
    asm volatile("{.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;}" : "=r"(chosen));
    bad += __popc(__ballot_sync(0xffffffffu, chosen)) != 1;
    chosen = 0;
    if (lane >= 4 && lane < 12) asm volatile("{.reg .pred p;\nelect.sync _|p, 0xff0;\nselp.b32 %0, 1, 0, p;}" : "=r"(chosen));
    bad += chosen != (lane == 4);
    y[threadIdx.x] = x[threadIdx.x] + bad;
}
