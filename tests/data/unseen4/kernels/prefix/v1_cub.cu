/* ---
title = "Reduce, scan, scan again with CUB's block primitives, eight elements a thread"
change = "The first launch only adds up tiles, so that every element is written once; loads are transposed through shared memory, the scans run in registers."
[defines]
THREADS = 256
ITEMS = 8
[[scratch]]
name = "totals"
dtype = "float32"
shape = ["cdiv(N, THREADS * ITEMS)", 2]
[[launch]]
kernel = "reduce_tiles"
grid = ["cdiv(N, THREADS * ITEMS)"]
block = ["THREADS"]
args = ["x", "head", "totals", "N"]
[[launch]]
kernel = "scan_totals"
grid = [1]
block = ["THREADS"]
args = ["totals", "cdiv(N, THREADS * ITEMS)"]
[[launch]]
kernel = "scan_tiles"
grid = ["cdiv(N, THREADS * ITEMS)"]
block = ["THREADS"]
args = ["x", "head", "totals", "y", "N"]
--- */
#include <cub/cub.cuh>

constexpr int TILE = THREADS * ITEMS;

struct Pair {
    float sum;
    int head;
};

struct Join {
    __device__ __forceinline__ Pair operator()(const Pair& a, const Pair& b) const {
        Pair joined;
        joined.sum = b.head ? b.sum : a.sum + b.sum;
        joined.head = a.head | b.head;
        return joined;
    }
};

// Hands a block scan what stands before it, and keeps what stands behind it.
struct Running {
    Pair total;
    __device__ __forceinline__ Pair operator()(const Pair& block) {
        const Pair before = total;
        total = Join()(before, block);
        return before;
    }
};

using LoadValues = cub::BlockLoad<float, THREADS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
using LoadHeads = cub::BlockLoad<unsigned char, THREADS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
using Store = cub::BlockStore<float, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE>;
using Scan = cub::BlockScan<Pair, THREADS, cub::BLOCK_SCAN_WARP_SCANS>;
using Reduce = cub::BlockReduce<Pair, THREADS>;

union Storage {
    LoadValues::TempStorage values;
    LoadHeads::TempStorage heads;
    Store::TempStorage store;
    Scan::TempStorage scan;
    Reduce::TempStorage reduce;
};

__device__ __forceinline__ void load_tile(const float* x, const unsigned char* head, int n, Storage& storage,
                                          Pair (&items)[ITEMS]) {
    const int base = blockIdx.x * TILE;
    const int valid = min(TILE, n - base);
    float values[ITEMS];
    unsigned char heads[ITEMS];
    LoadValues(storage.values).Load(x + base, values, valid, 0.0f);
    __syncthreads();
    LoadHeads(storage.heads).Load(head + base, heads, valid, static_cast<unsigned char>(0));
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) items[i] = {values[i], heads[i]};
}

extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_tiles(const float* __restrict__ x, const unsigned char* __restrict__ head, Pair* __restrict__ totals, int n) {
    __shared__ Storage storage;
    Pair items[ITEMS];
    load_tile(x, head, n, storage, items);
    const Pair total = Reduce(storage.reduce).Reduce(items, Join());
    if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

extern "C" __global__ void __launch_bounds__(THREADS) scan_totals(Pair* totals, int tiles) {
    __shared__ Scan::TempStorage storage;
    Running running = {{0.0f, 0}};
    for (int base = 0; base < tiles; base += THREADS) {
        const int tile = base + threadIdx.x;
        Pair pair = {0.0f, 0};
        if (tile < tiles) pair = totals[tile];
        Scan(storage).ExclusiveScan(pair, pair, Join(), running);
        if (tile < tiles) totals[tile] = pair;
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    scan_tiles(const float* __restrict__ x, const unsigned char* __restrict__ head, const Pair* __restrict__ totals,
               float* __restrict__ y, int n) {
    __shared__ Storage storage;
    Pair items[ITEMS];
    load_tile(x, head, n, storage, items);
    Running running = {totals[blockIdx.x]};
    Scan(storage.scan).InclusiveScan(items, items, Join(), running);
    __syncthreads();
    float values[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) values[i] = items[i].sum;
    const int base = blockIdx.x * TILE;
    Store(storage.store).Store(y + base, values, min(TILE, n - base));
}
