/* ---
title = "Ranks by warp matching, sorted in shared memory before the keys are written"
change = "match.any ranks 32 keys at once; a tile is put in order in shared memory first, so that equal digits are written side by side; the scan has a warp per digit."
[defines]
THREADS = 256
ITEMS = 8
[[scratch]]
name = "counts"
dtype = "uint32"
shape = [256, "cdiv(N, THREADS * ITEMS)"]
[[scratch]]
name = "totals"
dtype = "uint32"
shape = [256]
[[launch]]
kernel = "count_digits"
grid = ["cdiv(N, THREADS * ITEMS)"]
block = ["THREADS"]
args = ["keys", "counts", "N", "SHIFT"]
[[launch]]
kernel = "scan_tiles"
grid = [32]
block = [256]
args = ["counts", "totals", "cdiv(N, THREADS * ITEMS)"]
[[launch]]
kernel = "scatter"
grid = ["cdiv(N, THREADS * ITEMS)"]
block = ["THREADS"]
args = ["keys", "values", "counts", "totals", "sorted_keys", "sorted_values", "N", "SHIFT"]
--- */
typedef unsigned int uint;
constexpr uint ALL = 0xffffffffu;
constexpr int WARPS = THREADS / 32, TILE = THREADS * ITEMS, DIGITS = 256;
static_assert(THREADS == DIGITS, "a thread per digit");

__device__ __forceinline__ uint warp_inclusive(uint v, int lane) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const uint before = __shfl_up_sync(ALL, v, step);
        if (lane >= step) v += before;
    }
    return v;
}

__device__ uint block_exclusive(uint v, uint* warp_sums) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint upto = warp_inclusive(v, lane);
    __syncthreads();  // warp_sums may still be read from the call before
    if (lane == 31) warp_sums[warp] = upto;
    __syncthreads();
    uint before = 0;
    for (int w = 0; w < warp; ++w) before += warp_sums[w];
    return before + upto - v;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    count_digits(const uint* __restrict__ keys, uint* __restrict__ counts, int n, int shift) {
    __shared__ uint count[DIGITS];
    count[threadIdx.x] = 0;
    __syncthreads();
    const int end = min(n, (static_cast<int>(blockIdx.x) + 1) * TILE);
#pragma unroll 4
    for (int i = blockIdx.x * TILE + threadIdx.x; i < end; i += THREADS) atomicAdd(&count[keys[i] >> shift & 255u], 1u);
    __syncthreads();
    counts[threadIdx.x * gridDim.x + blockIdx.x] = count[threadIdx.x];
}

// A warp per digit: its counts become the sums over the tiles before.
extern "C" __global__ void scan_tiles(uint* counts, uint* totals, int tiles) {
    const int lane = threadIdx.x % 32, digit = blockIdx.x * 8 + threadIdx.x / 32;
    uint* row = counts + digit * tiles;
    uint carry = 0;
    for (int base = 0; base < tiles; base += 32) {
        const int tile = base + lane;
        const uint v = tile < tiles ? row[tile] : 0;
        const uint upto = warp_inclusive(v, lane);
        if (tile < tiles) row[tile] = carry + upto - v;
        carry += __shfl_sync(ALL, upto, 31);
    }
    if (lane == 0) totals[digit] = carry;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    scatter(const uint* __restrict__ keys, const uint* __restrict__ values, const uint* __restrict__ counts,
            const uint* __restrict__ totals, uint* __restrict__ sorted_keys, uint* __restrict__ sorted_values, int n,
            int shift) {
    __shared__ uint of_warp[WARPS][DIGITS];  // keys with a digit in a warp, then in the warps before it
    __shared__ uint start[DIGITS];           // first place of a digit in the tile
    __shared__ uint move[DIGITS];            // from there to its place in the output
    __shared__ uint warp_sums[WARPS];
    __shared__ uint tile_keys[TILE], tile_values[TILE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int base = blockIdx.x * TILE, valid = min(TILE, n - base);

    for (int d = lane; d < DIGITS; d += 32) of_warp[warp][d] = 0;
    __syncwarp();

    // Keys behind the end have the largest digit and come last: they get the places from `valid` on.
    uint key[ITEMS], rank[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int at = warp * (32 * ITEMS) + i * 32 + lane;
        key[i] = at < valid ? keys[base + at] : ALL;
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const uint digit = key[i] >> shift & 255u;
        const uint equal = __match_any_sync(ALL, digit);
        const uint before = __popc(equal & ((1u << lane) - 1));
        const uint earlier = of_warp[warp][digit];
        __syncwarp();
        if (before == 0) of_warp[warp][digit] = earlier + __popc(equal);
        __syncwarp();
        rank[i] = earlier + before;
    }
    __syncthreads();

    const int d = threadIdx.x;
    uint sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
        const uint c = of_warp[w][d];
        of_warp[w][d] = sum;
        sum += c;
    }
    const uint first = block_exclusive(sum, warp_sums);
    start[d] = first;
    move[d] = block_exclusive(totals[d], warp_sums) + counts[d * gridDim.x + blockIdx.x] - first;
    __syncthreads();

#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int at = warp * (32 * ITEMS) + i * 32 + lane;
        const uint digit = key[i] >> shift & 255u;
        const uint place = start[digit] + of_warp[warp][digit] + rank[i];
        tile_keys[place] = key[i];
        tile_values[place] = at < valid ? values[base + at] : 0;
    }
    __syncthreads();

    for (int j = threadIdx.x; j < valid; j += THREADS) {
        const uint k = tile_keys[j];
        const uint to = move[k >> shift & 255u] + j;
        sorted_keys[to] = k;
        sorted_values[to] = tile_values[j];
    }
}
