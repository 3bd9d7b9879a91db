/* ---
title = "Open addressing, linear probing, atomicCAS on keys"
[[scratch]]
name = "slots"
dtype = "uint32"
shape = ["2 * CAP"]
[[fill]]
name = "slots"
value = 0
[[launch]]
kernel = "insert"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["keys", "values", "slots", "N", "CAP"]
[[launch]]
kernel = "lookup"
grid = ["cdiv(Q, 256)"]
block = [256]
args = ["queries", "slots", "found", "Q", "CAP"]
--- */
#include <cstdint>

struct KeyValue {
    uint32_t key;
    uint32_t value;
};

// 32 bit Murmur3 hash
__device__ uint32_t hash(uint32_t k, uint32_t capacity)
{
    k ^= k >> 16;
    k *= 0x85ebca6b;
    k ^= k >> 13;
    k *= 0xc2b2ae35;
    k ^= k >> 16;
    return k & (capacity - 1);
}

extern "C" __global__ void insert(const uint32_t *keys, const uint32_t *values, KeyValue *table, unsigned n, unsigned capacity)
{
    unsigned int tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid < n) {
        uint32_t key = keys[tid];
        uint32_t value = values[tid];
        uint32_t slot = hash(key, capacity);
        while (true) {
            uint32_t prev = atomicCAS(&table[slot].key, 0u, key);
            if (prev == 0u || prev == key) {
                table[slot].value = value;
                return;
            }
            slot = (slot + 1) & (capacity - 1);
        }
    }
}

extern "C" __global__ void lookup(const uint32_t *queries, const KeyValue *table, uint32_t *found, unsigned n, unsigned capacity)
{
    unsigned int tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid < n) {
        uint32_t key = queries[tid];
        uint32_t slot = hash(key, capacity);
        while (true) {
            if (table[slot].key == key) {
                found[tid] = table[slot].value;
                return;
            }
            if (table[slot].key == 0u) {
                found[tid] = 0xffffffff;
                return;
            }
            slot = (slot + 1) & (capacity - 1);
        }
    }
}
