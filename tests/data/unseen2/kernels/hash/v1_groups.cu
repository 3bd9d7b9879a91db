/* ---
title = "Buckets of eight probed by tiles of eight lanes, 64-bit pairs"
[[scratch]]
name = "slots"
dtype = "uint64"
shape = ["CAP"]
[[fill]]
name = "slots"
value = 0
[[launch]]
kernel = "insert"
grid = ["cdiv(8 * N, 256)"]
block = [256]
args = ["keys", "values", "slots", "N", "CAP"]
[[launch]]
kernel = "lookup"
grid = ["cdiv(8 * Q, 256)"]
block = [256]
args = ["queries", "slots", "found", "Q", "CAP"]
--- */
#include <cooperative_groups.h>
#include <cstdint>
namespace cg = cooperative_groups;
using u64 = unsigned long long;

template <int G>
__device__ __forceinline__ unsigned first_bucket(uint32_t key, unsigned cap) {
    return (key * 2654435769u >> 7) % (cap / G) * G;
}

extern "C" __global__ void __launch_bounds__(256) insert(const uint32_t* __restrict__ keys, const uint32_t* __restrict__ values, u64* table, int n, int cap) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / 8;
    if (i >= n) return;
    const uint32_t key = keys[i];
    const u64 pair = (u64)values[i] << 32 | key;
    for (unsigned b = first_bucket<8>(key, cap);; b = (b + 8) % cap) {
        bool done = false;
        while (true) {
            u64 have = ((volatile u64*)table)[b + tile.thread_rank()];
            unsigned empty = tile.ballot(have == 0);
            if (!empty) break;
            int lane = __ffs(empty) - 1;
            if ((int)tile.thread_rank() == lane)
                done = atomicCAS(&table[b + lane], 0ull, pair) == 0;
            done = tile.shfl(done, lane);
            if (done) break;
        }
        if (done) return;
    }
}

extern "C" __global__ void __launch_bounds__(256) lookup(const uint32_t* __restrict__ queries, const u64* __restrict__ table, uint32_t* __restrict__ found, int n, int cap) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / 8;
    if (i >= n) return;
    const uint32_t key = __ldg(&queries[i]);
    unsigned b = first_bucket<8>(key, cap);
    for (;;) {
        u64 have = table[b + tile.thread_rank()];
        unsigned hit = tile.ballot((uint32_t)have == key);
        if (hit) {
            uint32_t v = tile.shfl((uint32_t)(have >> 32), __ffs(hit) - 1);
            if (tile.thread_rank() == 0) found[i] = v;
            break;
        }
        if (tile.any(have == 0)) {
            if (tile.thread_rank() == 0) found[i] = 0xffffffffu;
            break;
        }
        b = (b + 8) % cap;
    }
}
