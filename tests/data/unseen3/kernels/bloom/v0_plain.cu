/* ---
title = "A thread per key, atomicOr; a thread per query, early exit"
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
grid = ["cdiv(Q, 256)"]
block = [256]
args = ["queries", "bits", "maybe", "Q", "LOG"]
--- */
typedef unsigned long long u64;
__device__ u64 mix(u64 h) {
    h ^= h >> 33;
    h *= 0xFF51AFD7ED558CCDull;
    return h ^ (h >> 33);
}

extern "C" __global__ void build(const u64* __restrict__ keys, unsigned* bits, int n, int log) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 h = mix(keys[i]);
    unsigned a = (unsigned)h, b = (unsigned)(h >> 32), mask = (1u << log) - 1;
    for (int k = 0; k < 3; ++k) {
        unsigned at = (a + k * b) & mask;
        atomicOr(&bits[at / 32], 1u << (at % 32));
    }
}

extern "C" __global__ void probe(const u64* __restrict__ queries, const unsigned* __restrict__ bits,
                                 unsigned char* __restrict__ maybe, int n, int log) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 h = mix(queries[i]);
    unsigned a = (unsigned)h, b = (unsigned)(h >> 32), mask = (1u << log) - 1;
    unsigned char found = 1;
    for (int k = 0; k < 3; ++k) {
        unsigned at = (a + k * b) & mask;
        if (!(bits[at / 32] >> (at % 32) & 1)) {
            found = 0;
            break;
        }
    }
    maybe[i] = found;
}
