/* ---
title = "A warp per row, four halves a lane, integer maximum of half bits"
change = "The magnitude of a half orders as its bits do, so redux.sync finds it; char4 stores; a scalar path for rows that are not whole fours."
[[launch]]
kernel = "quantise"
grid = ["cdiv(R, 8)"]
block = [256]
args = ["x", "q", "scale", "R", "C"]
--- */
#include <cuda_fp16.h>
__device__ __forceinline__ char as_int8(half h, float inv) { return (char)__float2int_rn(__half2float(h) * inv); }

template <bool WIDE>
__device__ void row_of(const half* __restrict__ x, signed char* __restrict__ q, float* scale, int c) {
    const int lane = threadIdx.x & 31;
    unsigned top = 0;
    if (WIDE) {
        for (int i = lane; i < c / 4; i += 32) {
            uint2 v = reinterpret_cast<const uint2*>(x)[i];
            unsigned m = __vmaxu2(v.x & 0x7fff7fffu, v.y & 0x7fff7fffu);
            top = max(top, max(m & 0xffffu, m >> 16));
        }
    } else {
        for (int i = lane; i < c; i += 32) top = max(top, (unsigned)(__half_as_ushort(x[i]) & 0x7fff));
    }
    top = __reduce_max_sync(0xffffffffu, top);
    const float m = __half2float(__ushort_as_half((unsigned short)top)), inv = 127.f / m;
    if (WIDE) {
        for (int i = lane; i < c / 4; i += 32) {
            union {
                uint2 raw;
                half h[4];
            } v;
            v.raw = reinterpret_cast<const uint2*>(x)[i];
            reinterpret_cast<char4*>(q)[i] =
                make_char4(as_int8(v.h[0], inv), as_int8(v.h[1], inv), as_int8(v.h[2], inv), as_int8(v.h[3], inv));
        }
    } else {
        for (int i = lane; i < c; i += 32) q[i] = as_int8(x[i], inv);
    }
    if (lane == 0) *scale = m * (1.f / 127.f);
}

extern "C" __global__ void __launch_bounds__(256) quantise(const half* __restrict__ x, signed char* __restrict__ q,
                                                           float* __restrict__ scale, int rows, int c) {
    const int row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= rows) return;
    if (c % 4 == 0)
        row_of<true>(x + row * c, q + row * c, scale + row, c);
    else
        row_of<false>(x + row * c, q + row * c, scale + row, c);
}
