/* ---
title = "Atomics only where the bit is missing; four queries a thread, three loads in flight each"
change = "A read saves an atomic once the filter fills up; the probe has no branches, its bytes are stored as words."
[[fill]]
name = "bits"
value = 0
[[launch]]
kernel = "build"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["keys", "bits", "N", "LOG"]
[[launch]]
kernel = "probe"
grid = ["cdiv(Q, 512)"]
block = [128]
args = ["queries", "bits", "maybe", "Q", "LOG"]
--- */
#include <cuda/std/cstdint>
using cuda::std::uint64_t;
struct Hash {
    unsigned a, b;
    __device__ explicit Hash(uint64_t h) {
        h ^= h >> 33;
        h *= 0xFF51AFD7ED558CCDull;
        h ^= h >> 33;
        a = unsigned(h);
        b = unsigned(h >> 32);
    }
    __device__ unsigned operator[](int k) const { return a + k * b; }
};

extern "C" __global__ void build(const uint64_t* __restrict__ keys, unsigned* bits, int n, int log) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Hash h(keys[i]);
    const unsigned mask = (1u << log) - 1;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        const unsigned at = h[k] & mask, bit = 1u << (at & 31);
        volatile unsigned* word = bits + (at >> 5);
        if (!(*word & bit)) atomicOr(bits + (at >> 5), bit);
    }
}

extern "C" __global__ void __launch_bounds__(128) probe(const ulonglong2* __restrict__ queries, const unsigned* __restrict__ bits,
                                                        unsigned char* __restrict__ maybe, int n, int log) {
    const int q = blockIdx.x * 128 + threadIdx.x, i = q * 4;
    if (i >= n) return;
    const unsigned mask = (1u << log) - 1;
    const bool whole = i + 4 <= n;
    uint64_t key[4];
    if (whole) {
        const ulonglong2 x = queries[2 * q], y = queries[2 * q + 1];
        key[0] = x.x; key[1] = x.y; key[2] = y.x; key[3] = y.y;
    } else {
        const uint64_t* one = reinterpret_cast<const uint64_t*>(queries);
#pragma unroll
        for (int k = 0; k < 4; ++k) key[k] = i + k < n ? one[i + k] : 0;
    }
    unsigned packed = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const Hash h(key[j]);
        unsigned all = 1;
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            const unsigned at = h[k] & mask;
            all &= __ldg(bits + (at >> 5)) >> (at & 31);
        }
        packed |= (all & 1) << (8 * j);
    }
    if (whole)
        *reinterpret_cast<unsigned*>(maybe + i) = packed;
    else
        for (int k = 0; i + k < n; ++k) maybe[i + k] = (unsigned char)(packed >> (8 * k));
}
